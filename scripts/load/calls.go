package main

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gatebook/events"
)

const (
	// names is how many files an agent has at most, folder where they are.
	names  = 12
	folder = "notes"
	// usual is the size of a usual file, large of one in fifty: a call with it goes to
	// a blob. A file that appends made longer than longest is written anew.
	usual, large, longest = 4 << 10, 80 << 10, 96 << 10
)

// call is what an agent asks next and what must come of it.
type call struct {
	tool   string
	args   map[string]any
	status events.Status
	// check looks at a result and notes what changed; nil where there is nothing.
	check func(jsontext.Value) error
}

// files is what an agent knows of its folder. It belongs to one goroutine.
type files struct {
	random  *rand.Rand
	content map[string]string // by path
	deleted *deletion         // to be restored by the next call
	edits   int
}

type deletion struct {
	id            events.CallID
	path, content string
}

// next picks a call. About one in eight is to be refused.
func (f *files) next() call {
	if d := f.deleted; d != nil {
		f.deleted = nil
		return call{"file.restore", map[string]any{"id": d.id}, events.StatusOK, func(jsontext.Value) error {
			f.content[d.path] = d.content
			return nil
		}}
	}
	path, there := f.pick()
	if !there {
		return f.write(fmt.Sprintf("%s/%02d.txt", folder, f.random.IntN(names)))
	}
	switch n := f.random.IntN(100); {
	case n < 22:
		return f.read(path)
	case n < 40:
		return f.write(fmt.Sprintf("%s/%02d.txt", folder, f.random.IntN(names)))
	case n < 50:
		return f.append(path)
	case n < 60:
		return f.edit(path)
	case n < 68:
		return f.list()
	case n < 73:
		return call{"file.stat", map[string]any{"path": path}, events.StatusOK, nil}
	case n < 76:
		return call{"file.search", map[string]any{"path": folder, "pattern": "row 7"}, events.StatusOK, nil}
	case n < 84:
		return f.delete(path)
	case n < 87:
		return call{"file.trash", map[string]any{}, events.StatusOK, nil}
	}
	return f.refused(path)
}

// pick is a file that is there.
func (f *files) pick() (string, bool) {
	if len(f.content) == 0 {
		return "", false
	}
	all := slices.Sorted(maps.Keys(f.content))
	return all[f.random.IntN(len(all))], true
}

// text has the one line that an edit finds, then rows.
func (f *files) text() string {
	size := usual/2 + f.random.IntN(usual)
	if f.random.IntN(50) == 0 {
		size = large
	}
	var b strings.Builder
	f.edits++
	fmt.Fprintf(&b, "edit %d\n", f.edits)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "row %d of what an agent notes while it works\n", i)
	}
	return b.String()
}

func (f *files) write(path string) call {
	text := f.text()
	return call{"file.write", map[string]any{"path": path, "content": text}, events.StatusOK, func(jsontext.Value) error {
		f.content[path] = text
		return nil
	}}
}

func (f *files) read(path string) call {
	return call{"file.read", map[string]any{"path": path}, events.StatusOK, func(raw jsontext.Value) error {
		var got struct {
			Content   string `json:"content"`
			Size      int    `json:"size"`
			Truncated bool   `json:"truncated"`
		}
		if err := json.Unmarshal(raw, &got); err != nil {
			return err
		}
		want := f.content[path]
		if got.Size != len(want) || !strings.HasPrefix(want, got.Content) || got.Truncated == (got.Content == want) {
			return fmt.Errorf("%s is not what was written: %d bytes of %d, there should be %d", path, len(got.Content), got.Size, len(want))
		}
		return nil
	}}
}

func (f *files) append(path string) call {
	if len(f.content[path]) > longest {
		return f.write(path)
	}
	more := "row 7 was added\n"
	return call{"file.append", map[string]any{"path": path, "content": more}, events.StatusOK, func(jsontext.Value) error {
		f.content[path] += more
		return nil
	}}
}

func (f *files) edit(path string) call {
	old, rest, _ := strings.Cut(f.content[path], "\n")
	f.edits++
	line := fmt.Sprintf("edit %d", f.edits)
	return call{"file.edit", map[string]any{"path": path, "old": old + "\n", "new": line + "\n"}, events.StatusOK, func(jsontext.Value) error {
		f.content[path] = line + "\n" + rest
		return nil
	}}
}

func (f *files) list() call {
	return call{"file.list", map[string]any{"path": folder}, events.StatusOK, func(raw jsontext.Value) error {
		var got struct {
			Entries []struct {
				Name string `json:"name"`
			} `json:"entries"`
		}
		if err := json.Unmarshal(raw, &got); err != nil {
			return err
		}
		for _, e := range got.Entries {
			if _, ok := f.content[folder+"/"+e.Name]; !ok {
				return fmt.Errorf("%s is listed and should not be there", e.Name)
			}
		}
		if len(got.Entries) != len(f.content) {
			return fmt.Errorf("%d files are listed, there should be %d", len(got.Entries), len(f.content))
		}
		return nil
	}}
}

// delete is taken back by the next call half of the time.
func (f *files) delete(path string) call {
	return call{"file.delete", map[string]any{"path": path}, events.StatusOK, func(raw jsontext.Value) error {
		var got struct {
			ID events.CallID `json:"id"`
		}
		if err := json.Unmarshal(raw, &got); err != nil {
			return err
		}
		if got.ID == "" {
			return errors.New("a deletion has no id to restore it by")
		}
		if f.random.IntN(2) == 0 {
			f.deleted = &deletion{got.ID, path, f.content[path]}
		}
		delete(f.content, path)
		return nil
	}}
}

// refused is a call that ends otherwise than well.
func (f *files) refused(path string) call {
	switch f.random.IntN(6) {
	case 0: // the role does not have it
		return call{"file.copy", map[string]any{"from": path, "to": "copy.txt"}, events.StatusDenied, nil}
	case 1: // the role has it only elsewhere
		return call{"file.move", map[string]any{"from": path, "to": "private/moved.txt"}, events.StatusDenied, nil}
	case 2:
		return call{"file.write", map[string]any{"path": "../out.txt", "content": "x"}, events.StatusDenied, nil}
	case 3: // malformed
		return call{"file.write", map[string]any{"path": path}, events.StatusRejected, nil}
	case 4:
		return call{"file.burn", map[string]any{"path": path}, events.StatusNotFound, nil}
	}
	return call{"file.read", map[string]any{"path": folder + "/gone.txt"}, events.StatusError, nil}
}
