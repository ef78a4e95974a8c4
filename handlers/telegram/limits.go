package telegram

import "time"

// Every bound in one place.
const (
	// maxMessage is what a message holds, in UTF-16 units; Telegram's own bound.
	maxMessage = 4096
	// maxToast is what the answer to a button holds; Telegram's own bound.
	maxToast = 200
	// maxData is what a button carries, in bytes; Telegram's own bound.
	maxData = 64
	// wordBytes is the randomness of the word on a button.
	wordBytes = 24
	// maxSights is how many looks can be decided on; each has at most two words, so that
	// there are at most 1,000 of them. The oldest go first.
	maxSights = 500
	// maxSeen is how many updates are known again, of which a poll brings maxUpdates.
	maxSeen    = 1024
	maxUpdates = 100
	// maxListed is how much of what waits one message names.
	maxListed = 20

	// maxRequest and maxAnswer bound the bodies, in bytes.
	maxRequest = 256 << 10
	maxAnswer  = 16 << 20
	// maxReason is how much of Telegram's own words a failure keeps, in bytes.
	maxReason = 200

	// A person has burst requests at once and then one per refill; maxQueued of them wait,
	// and those of at most maxBusy people are worked on or wait.
	burst     = 10
	refill    = time.Second
	maxQueued = 10
	maxBusy   = 64
	// maxPlaces bounds what is kept of chats and users for their rates.
	maxPlaces = 1000
	// maxNotes is how many strangers wait to be recorded, and noteTime is for one of them.
	maxNotes = 64
	noteTime = 5 * time.Second

	pollTime = 50 * time.Second
	deskTime = 10 * time.Second
	keepTime = 15 * time.Minute
	// pollSlack is how much longer than asked Telegram may hold a poll.
	pollSlack = 10 * time.Second
	// sendTime is for any other request. Where Telegram says to wait, one that is not a
	// poll does so once, and for maxHold at the most.
	sendTime = 15 * time.Second
	maxHold  = time.Minute

	// After failures, polls wait from firstWait, doubling, to longWait; longWait also where
	// the token is not taken. rivalWait is for another process that polls, and maxWait the
	// longest that Telegram may ask for.
	firstWait = time.Second
	longWait  = time.Minute
	rivalWait = 15 * time.Second
	maxWait   = time.Hour
	// pollBurst polls may follow each other, then one per pollPace.
	pollBurst = 20
	pollPace  = 200 * time.Millisecond
)
