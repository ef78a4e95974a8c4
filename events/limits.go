package events

// Every bound of the book in one place. Sizes are bytes.
const (
	// MaxEvent is the size of one encoded event, envelope included.
	MaxEvent = 64 << 10
	// MaxBatchEvents is how many events one atomic batch of the log holds.
	MaxBatchEvents = 1000
	// MaxBatchBytes is the size of the bodies of one atomic batch.
	MaxBatchBytes = 4 << 20
	// MaxSingles is how many one-event decisions go as pipelined single
	// appends; above it an atomic batch costs fewer fsyncs.
	MaxSingles = 8
	// MaxPreview is how much of an argument or a result a refused or large
	// call keeps in its event.
	MaxPreview = 256
	// MaxInlineArguments is the largest redacted argument text that stays in
	// the event; a larger one goes to a blob and leaves its preview.
	MaxInlineArguments = 8 << 10
	// MaxName bounds names that are not ids: roles, profiles, tools.
	MaxName = 128
)
