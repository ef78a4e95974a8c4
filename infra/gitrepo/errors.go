package gitrepo

import "errors"

// What stands in the way of any operation.
var (
	ErrNoGit         = errors.New("the git program was not found")
	ErrOldGit        = errors.New("the git program is too old")
	ErrNotRepository = errors.New("no git repository")
	// ErrElsewhere is for repositories of which a part lies outside their folder.
	ErrElsewhere = errors.New("the repository leaves its folder")
	// ErrUnsupported is for formats that this package does not know, or does not
	// want to.
	ErrUnsupported = errors.New("this kind of repository is not supported")
	ErrDamaged     = errors.New("the repository is damaged")
	// ErrTimeLimit is for a git that took too long and was ended.
	ErrTimeLimit = errors.New("git took too long")
)

// What is wrong with a request.
var (
	ErrBadPath   = errors.New("bad path")
	ErrBadBranch = errors.New("bad branch name")
	ErrBadCommit = errors.New("bad commit")
	// ErrBadID is for whatever is not the whole id of a commit, in lower case.
	ErrBadID    = errors.New("bad commit id")
	ErrTooLarge = errors.New("too large")
)

// What a request found.
var (
	// ErrExists: the branch or the path is there already.
	ErrExists = errors.New("exists already")
	// ErrConflict: something else is where a folder is needed, or has a name that
	// some systems take for the same.
	ErrConflict = errors.New("conflicts with what is there")
	ErrNotFound = errors.New("not found")
	// ErrNotFile: what is there is a folder, a link, a program or a sub-module.
	ErrNotFile = errors.New("no regular file")
	// ErrBusy: another git holds the branch's lock, or was killed holding it.
	ErrBusy = errors.New("the branch is locked")
)
