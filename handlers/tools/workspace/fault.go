package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/policy/paths"
)

// Error is an error fit for an agent: it shows the path that the agent gave, or
// one below it, and never one of the host. It unwraps to [fs.ErrNotExist], [fs.ErrExist], a
// [syscall.Errno], or nothing.
type Error struct {
	Path   string
	Reason string
	cause  error
}

func (e *Error) Error() string { return events.Quote(e.Path) + ": " + e.Reason }

func (e *Error) Unwrap() error { return e.cause }

var (
	errFolder    = errors.New("is a folder")
	errNotFolder = errors.New("is not a folder")
	errInside    = errors.New("is the same as from, or inside it; name a path outside of it")
	errDeep      = fmt.Errorf("would be too deep: what is below it would have a path of more than %d components; name a path further up", paths.MaxComponents)
	errChanged   = errors.New("was changed by somebody else in the same moment; try again")
)

// refusal is a refusal that does not know its path yet.
type refusal struct{ rule, reason string }

func (r *refusal) Error() string { return r.reason }

func refuse(rule, reason string) error { return &refusal{rule, reason} }

// inside is the gate's own rule once more: no tool reaches out of the
// workspace, whoever calls it.
func inside(path paths.Path) error {
	switch {
	case path.Leaves():
		return refuse("workspace", "leads out of the workspace")
	case path.Reserved():
		return refuse("workspace", "belongs to the trash: use file.delete, file.trash and file.restore")
	}
	return nil
}

// fault makes err fit for the agent: host paths are dropped, refusals become
// [*tools.Refused]; path is what the agent gave. An error that is fit already, because
// it names something below path, stays as it is.
func fault(path string, err error) error {
	var fit *Error
	var refused *refusal
	var named *tools.Refused
	var errno syscall.Errno
	switch {
	case err == nil:
		return nil
	case errors.As(err, &fit):
		return fit
	case errors.As(err, &named):
		return named
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded
	case errors.As(err, &refused):
		return &tools.Refused{Rule: refused.rule, Reason: subject(path) + " " + refused.reason}
	case errors.Is(err, fs.ErrNotExist):
		return &Error{path, "not found", fs.ErrNotExist}
	case errors.Is(err, fs.ErrExist):
		return &Error{path, "already exists", fs.ErrExist}
	case errors.As(err, &errno):
		return &Error{path, errno.Error(), errno}
	}
	for _, known := range []error{errFolder, errNotFolder, errInside, errChanged, errWhole, errDeep} {
		if errors.Is(err, known) {
			return &Error{path, known.Error(), nil}
		}
	}
	return &Error{path, "cannot be used", nil}
}

// subject is how a sentence about path begins. A path that leaves the workspace
// has no clean form to show.
func subject(path string) string {
	if path == "" {
		return "the path"
	}
	return events.Quote(path)
}
