package workspace

import "time"

// Every bound of the file tools in one place. Sizes are bytes.
const (
	// MaxContent is the most that one call writes or reads.
	MaxContent = 512 << 10
	// DefaultRead is what a read gives when it does not say.
	DefaultRead = 64 << 10
	// MaxEntries is how many entries one listing of a folder holds.
	MaxEntries = 10_000
	// MaxTrash is how many entries one listing of the trash holds.
	MaxTrash = 1_000
	// MaxListing is the size of the entries of one listing; with it the whole
	// answer stays under the 768 KiB that an answer may have.
	MaxListing = 640 << 10
	// MaxDescription is the size of the file that describes a trash entry. A
	// path of 4096 bytes fits however it is escaped.
	MaxDescription = 32 << 10
	// MaxAppended is how large an append may make a file. An append writes the whole
	// file anew.
	MaxAppended = 16 << 20
	// MaxLines is how many line numbers an edit gives.
	MaxLines = 1_000
	// MaxCopyEntries and MaxCopyBytes are the most that one copy makes: each file is
	// fsynced, and all of it must fit into the time of one call.
	MaxCopyEntries = 2_000
	MaxCopyBytes   = 64 << 20
	// MaxHashed is how large a file may be to get a digest with its metadata.
	MaxHashed = 64 << 20
	// MaxPattern is the length of what a search looks for; MaxSteps is how many
	// steps it may have as a compiled expression, which bounds the time for a line.
	MaxPattern = 1 << 10
	MaxSteps   = 512
	// MaxSearchTime, MaxSearchEntries and MaxSearchBytes are what one search looks
	// through before it gives what it has.
	MaxSearchTime    = 5 * time.Second
	MaxSearchEntries = 20_000
	MaxSearchBytes   = 256 << 20
	// MaxSearchFile is how large a file may be to be searched, MaxLine how far into
	// a line a search looks.
	MaxSearchFile = 16 << 20
	MaxLine       = 64 << 10
	// MaxMatches is how many lines a search gives, MaxExcerpt how much of each.
	MaxMatches = 1_000
	MaxExcerpt = 256
	// MaxWeighed is how many entries of a trash, and how many names of a folder in it,
	// the job that empties it looks at; MaxWeighTime is how long it adds up their sizes.
	MaxWeighed   = 100_000
	MaxWeighTime = 30 * time.Second
	// MaxDepth is how deep a tree may be to be removed. No tool makes one as deep.
	MaxDepth = 256
	// MaxNames is how many names are tried to find a free one.
	MaxNames = 100

	folderMode = 0o700
	fileMode   = 0o600
)
