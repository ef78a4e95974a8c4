package engine

import (
	"time"

	"gatebook/events"
)

// Every bound of the loop in one place.
const (
	// maxCommands is how many commands are decided before the loop looks again
	// whether the book has answered.
	maxCommands = 64
	// maxLooks is how often a cycle that could be sent takes what waits first.
	maxLooks = 4
	// maxDue is how many rounds time out at one tick.
	maxDue = 400
	// maxCycleEvents and maxCycleBytes keep a cycle within one atomic batch.
	maxCycleEvents = events.MaxBatchEvents
	maxCycleBytes  = 3 << 20
	// waiting is how many prepared commands wait for the loop before the intake
	// workers wait too.
	waiting = 1024
	// maxHeld is how many notes wait for a book that does not answer; more of
	// them are dropped, because nobody waits for a note.
	maxHeld = 4 * waiting
	// maxHeldCalls is how many allowed calls of one agent wait for a place to run.
	maxHeldCalls = 1024
	// maxOffers is how many processes of an agent wait for a round, and how many
	// rounds of a child for a process.
	maxOffers = 64
	// maxWaitingCalls and maxWaitingBytes bound what waits for a person, of all agents and
	// of each; the bytes are of arguments, which are kept in memory.
	maxWaitingCalls        = 20_000
	maxWaitingBytes        = 64 << 20
	maxWaitingCallsOfAgent = 400
	maxWaitingBytesOfAgent = 8 << 20
	// MaxWaiters is how many may wait for the end of one call.
	MaxWaiters = 64
	// maxText bounds a reason or an error of a tool, in bytes.
	maxText = 1 << 10
	// MaxAnswer is the size of a request or an answer, in bytes of JSON.
	MaxAnswer = 768 << 10
	// answerHead is room for what stands beside the result in an answer.
	answerHead = 8 << 10
	// ResultPage is how much of a large result one outcome request returns.
	ResultPage = 256 << 10
	// toolGrace is how long a tool may go on after its context ended before its
	// call ends without it.
	toolGrace = 2 * time.Second
	// goneAfter is how long an attached process may be away.
	goneAfter = 30 * time.Second
	// retryFirst and retryMost pace the attempts to reach the book again.
	retryFirst = 20 * time.Millisecond
	retryMost  = 2 * time.Second
	// readTime bounds one attempt to read back what the book holds.
	readTime = 20 * time.Second
)
