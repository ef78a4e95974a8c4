package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"gatebook/events"
	"gatebook/policy/paths"
)

// Appended is what an append did.
type Appended struct {
	// Before and After are the sizes of the file, in bytes.
	Before, After int64
	// Kept is the trash entry of the former version; empty where the new one begins
	// with all of it, so that there is nothing to keep.
	Kept events.CallID
}

// Append puts content at the end of a file that exists.
//
// It writes the whole file anew and exchanges the two, as a write does, rather than
// at the end of the one that is there: a kill in the middle of that would leave a
// part of content, which nobody could tell from the whole. The price is that an
// append costs as much as the file is long, so its size is bounded ([MaxAppended]).
//
// The former version does not go to the trash, where many small appends would make
// many long copies: the new one begins with it. It does where somebody else wrote to
// it meanwhile.
func (ws *Workspace) Append(ctx context.Context, stamp Stamp, path paths.Path, content []byte) (Appended, error) {
	appended, err := ws.append(ctx, stamp, path, content)
	if errors.Is(err, fs.ErrNotExist) {
		err = &Error{path.String(), "not found; file.write makes a new file", fs.ErrNotExist}
	}
	return appended, fault(path.String(), err)
}

func (ws *Workspace) append(ctx context.Context, stamp Stamp, path paths.Path, content []byte) (Appended, error) {
	f, name, file, info, err := ws.openFile(path)
	if err != nil {
		return Appended{}, err
	}
	defer f.Close()
	defer file.Close()
	a := Appended{Before: info.Size(), After: info.Size() + int64(len(content))}
	if a.After > MaxAppended {
		return Appended{}, &Error{Path: path.String(), Reason: fmt.Sprintf("would have %d bytes; file.append makes a file of at most %d, go on in a new one", a.After, MaxAppended)}
	}
	e, err := ws.newEntry(stamp.Call)
	if err != nil {
		return Appended{}, err
	}
	defer e.close()
	produce := func() error { return e.createFrom(ctx, contentName, file, info, content) }
	if err := replace(e, f, name, produce, path, stamp); err != nil {
		return Appended{}, err
	}
	former, err := e.Lstat(contentName)
	if err == nil && os.SameFile(former, info) && unchanged(file, info) == nil {
		e.discard()
		return a, nil
	}
	a.Kept = stamp.Call
	return a, nil
}

// openFile opens the file that path names, and the folder that it is in.
func (ws *Workspace) openFile(path paths.Path) (folder, string, *os.File, fs.FileInfo, error) {
	f, name, err := ws.parent(path, false)
	if err != nil {
		return folder{}, "", nil, nil, err
	}
	file, info, err := f.openFile(name)
	if err != nil {
		f.Close()
		return folder{}, "", nil, nil, err
	}
	return f, name, file, info, nil
}

// Edited is what an edit did.
type Edited struct {
	// Before and After are the sizes of the file, in bytes.
	Before, After int64
	// Count is how often the text was replaced; Lines are the lines of the new version
	// where the replacements begin, at most [MaxLines] of them.
	Count int
	Lines []int
	// Replaced is the trash entry of the former version.
	Replaced events.CallID
}

// Edit puts text in the place of old, which must stand in the file exactly once,
// or anywhere where all is set. The file is UTF-8 and has, before and after, at most
// [MaxContent] bytes. The former version goes to the trash.
func (ws *Workspace) Edit(stamp Stamp, path paths.Path, old, text string, all bool) (Edited, error) {
	edited, err := ws.edit(stamp, path, old, text, all)
	return edited, fault(path.String(), err)
}

func (ws *Workspace) edit(stamp Stamp, path paths.Path, old, text string, all bool) (Edited, error) {
	f, name, file, info, err := ws.openFile(path)
	if err != nil {
		return Edited{}, err
	}
	defer f.Close()
	defer file.Close()
	say := func(reason string) (Edited, error) { return Edited{}, &Error{Path: path.String(), Reason: reason} }
	if info.Size() > MaxContent {
		return say(fmt.Sprintf("has %d bytes; file.edit takes a file of at most %d", info.Size(), MaxContent))
	}
	raw, err := io.ReadAll(io.LimitReader(file, info.Size()))
	if err != nil {
		return Edited{}, err
	}
	if !utf8.Valid(raw) {
		return say("is not UTF-8 text")
	}
	content := string(raw)
	next, why := Replaced(content, old, text, all)
	if why != "" {
		return say(why)
	}
	e, err := ws.newEntry(stamp.Call)
	if err != nil {
		return Edited{}, err
	}
	defer e.close()
	f.step("checked")
	produce := func() error { return e.create(contentName, []byte(next)) }
	edited := Edited{Before: int64(len(content)), After: int64(len(next)), Count: strings.Count(content, old), Lines: newLines(content, old, text), Replaced: stamp.Call}
	return edited, replace(e, f, name, produce, path, stamp)
}

// Replaced is what an edit makes of content; or it says why it makes nothing.
func Replaced(content, old, text string, all bool) (next, why string) {
	if why := misfit(content, old, all); why != "" {
		return "", why
	}
	if after := len(content) + strings.Count(content, old)*(len(text)-len(old)); after > MaxContent {
		return "", fmt.Sprintf("would have %d bytes; file.edit makes a file of at most %d", after, MaxContent)
	}
	return strings.ReplaceAll(content, old, text), ""
}

// misfit says why old cannot be replaced in content; empty where it can. Places that
// overlap count each: which of them is meant nobody could say. Counting ends soon, for
// a long text that overlaps with itself would take as long as its square.
func misfit(content, old string, all bool) string {
	const shown = 10
	var lines []string
	line, from := 1, 0
	for len(lines) <= shown {
		at := strings.Index(content[from:], old)
		if at < 0 {
			break
		}
		if all {
			return ""
		}
		line += strings.Count(content[from:from+at], "\n")
		lines = append(lines, strconv.Itoa(line))
		if content[from+at] == '\n' {
			line++
		}
		from += at + 1
	}
	const remedy = "; give more of what stands around it, or all: true"
	switch n := len(lines); {
	case n == 0:
		return "does not hold the text old; read the file again and give the text exactly as it stands there"
	case n == 1:
		return ""
	case n > shown:
		return fmt.Sprintf("holds the text old more than %d times, first at the lines %s%s", shown, strings.Join(lines[:shown], ", "), remedy)
	default:
		return fmt.Sprintf("holds the text old %d times, at the lines %s%s", n, strings.Join(lines, ", "), remedy)
	}
}

// newLines are the lines where replacements begin once they are made.
func newLines(content, old, text string) []int {
	lines := []int{}
	line := 1
	for len(lines) < MaxLines {
		before, after, is := strings.Cut(content, old)
		if !is {
			break
		}
		line += strings.Count(before, "\n")
		lines = append(lines, line)
		line += strings.Count(text, "\n")
		content = after
	}
	return lines
}
