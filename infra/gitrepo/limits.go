package gitrepo

import "time"

// The bounds of what is written.
const (
	MaxFiles   = 8
	MaxContent = 512 << 10 // bytes of one file
	MaxMessage = 64 << 10
	MaxPath    = 255 // bytes, all components together
	MaxDepth   = 16  // components
	MaxBranch  = 200 // bytes
	maxIdent   = 255 // bytes of an author's name or address
)

// The bounds of what is read.
const (
	maxCommit = 1 << 20
	maxTree   = 16 << 20
	maxConfig = 1 << 20
	maxHead   = 1 << 10
	maxAnswer = 64 << 10 // what git says beside objects
	maxStderr = 4 << 10
)

// The bounds of one git process.
const (
	timeLimit = 30 * time.Second
	// grace is what a git that was told to end has for taking its locks away.
	grace = 2 * time.Second
)

// oldest is the first version of git that this package is used with.
var oldest = [2]int{2, 39}
