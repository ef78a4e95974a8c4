package alerts

import "time"

// Bounds of what is sent and read, in bytes.
const (
	maxText   = 4 << 10
	maxField  = 256
	maxReason = 300
	// maxAnswer is how much of an answer is read, to be dropped.
	maxAnswer = 64 << 10
)

// Bounds of one attempt.
const (
	// sendTime is for senders of all sorts; one over HTTP takes less.
	sendTime      = time.Minute
	attemptTime   = 30 * time.Second
	dialTime      = 10 * time.Second
	handshakeTime = 10 * time.Second
	// answerTime is for the body, when the outcome is known already.
	answerTime = 2 * time.Second
)

// Bounds of trying again.
const (
	// firstWait follows the first failure of a destination; each further wait is twice as
	// long, up to mostWait.
	firstWait = 5 * time.Second
	mostWait  = 2 * time.Hour
	// maxTries with those waits take about a day.
	maxTries = 23
	// patience is how often one alert probes a destination in trouble before the next does:
	// it may be the alert that is the trouble.
	patience = 3
	// firstRefused follows the first refusal of an alert: time to mend a wrong address.
	firstRefused = 5 * time.Minute
	maxRefused   = 3
	// refusedPause keeps a destination that refuses everything from being flooded.
	refusedPause = time.Second
	// maxRetryAfter bounds what a destination may ask for.
	maxRetryAfter = time.Hour
)

// Bounds of asking and telling the outbox.
const (
	// tick is how long a missed Wake can go unnoticed.
	tick = 30 * time.Second
	// rest is the least time between two looks into the outbox.
	rest = 100 * time.Millisecond
	// lag is how long a view may take to show what was recorded, before it is asked again.
	lag = time.Second
	// window is how many alerts are asked for, beside those that are held up. With them it
	// is at most maxWindow.
	window     = 64
	maxWindow  = 1024
	outboxTime = 30 * time.Second
	// mostRecordWait is the longest wait between two attempts to record an outcome.
	mostRecordWait = time.Minute
)
