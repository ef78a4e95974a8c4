package gitrepo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"gatebook/events"
)

// The modes of entries, as they stand in a tree.
const (
	modeFile   = "100644"
	modeFolder = "40000"
)

// entry is one line of a tree. What is not ours keeps the mode it has.
type entry struct{ mode, name, id string }

func (e entry) isFolder() bool { return strings.TrimLeft(e.mode, "0") == modeFolder }

// key orders entries as git does: a folder as if its name ended in a slash.
func (e entry) key() string {
	if e.isFolder() {
		return e.name + "/"
	}
	return e.name
}

// parseTree takes a tree apart. A damaged one has no entries behind the damage, and
// an error.
func (f format) parseTree(data []byte) ([]entry, error) {
	var all []entry
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, ok2 := strings.Cut(string(head), " ")
		if !ok || !ok2 || name == "" || len(rest) < f.hex/2 {
			return all, fmt.Errorf("%w: a tree ends in entry %d", ErrDamaged, len(all))
		}
		all = append(all, entry{mode, name, hex.EncodeToString(rest[:f.hex/2])})
		data = rest[f.hex/2:]
	}
	return all, nil
}

// treeBytes puts it together again, in the order that git wants.
func treeBytes(all []entry) []byte {
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.key(), b.key()) })
	var data []byte
	for _, e := range all {
		data = fmt.Appendf(data, "%s %s\x00", e.mode, e.name)
		id, _ := hex.DecodeString(e.id) // ids are ours, or were encoded by parseTree
		data = append(data, id...)
	}
	return data
}

// readTree gives the entries of a tree; "" is the empty one.
func (s *standIn) readTree(ctx context.Context, id string) ([]entry, error) {
	if id == "" {
		return nil, nil
	}
	data, err := s.read(ctx, kindTree, id, maxTree)
	if err != nil {
		return nil, err
	}
	return s.parseTree(data)
}

// leaf is a file on its way into a tree: what is left of its path, and its blob.
type leaf struct {
	path string
	blob string
}

// grow is the tree id with the leaves in it. The trees that this makes are appended
// to made, inner ones first; nothing is written. With replace a regular file may be
// there. The errors are [ErrExists] and [ErrConflict], and those of reading.
func (s *standIn) grow(ctx context.Context, id string, leaves []leaf, replace bool, made *[]object) (string, error) {
	entries, err := s.readTree(ctx, id)
	if err != nil {
		return "", err
	}
	for _, name := range firstNames(leaves) {
		file, inside := below(leaves, name)
		at, err := place(entries, name, file == "", replace)
		if err != nil {
			return "", err
		}
		if file != "" && len(inside) > 0 {
			return "", fmt.Errorf("%w: %s is a file and a folder", ErrConflict, events.Quote(name))
		}
		e := entry{modeFile, name, file}
		if file == "" {
			old := ""
			if at < len(entries) {
				old = entries[at].id
			}
			e.mode = modeFolder
			if e.id, err = s.grow(ctx, old, inside, replace, made); err != nil {
				return "", err
			}
		}
		entries = append(entries[:at:at], append([]entry{e}, entries[min(at+1, len(entries)):]...)...)
	}
	tree := s.object(kindTree, treeBytes(entries))
	*made = append(*made, tree)
	return tree.id, nil
}

// firstNames are the first components of the leaves' paths, once each.
func firstNames(leaves []leaf) []string {
	var names []string
	for _, l := range leaves {
		name, _, _ := strings.Cut(l.path, "/")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// below gives the blob of the leaf called name, and the leaves in the folder of that
// name, with what is left of their paths.
func below(leaves []leaf, name string) (file string, inside []leaf) {
	for _, l := range leaves {
		if l.path == name {
			file = l.blob
		} else if rest, ok := strings.CutPrefix(l.path, name+"/"); ok {
			inside = append(inside, leaf{rest, l.blob})
		}
	}
	return file, inside
}

// place is where an entry called name goes: the index of the folder that is to grow, or
// of the file that is replaced, or the end.
func place(entries []entry, name string, folder, replace bool) (int, error) {
	at := len(entries)
	folded := fold(name)
	for i, e := range entries {
		switch {
		case e.name == name && !folder && replace && e.mode == modeFile:
			at = i
		case e.name == name && !folder:
			return 0, fmt.Errorf("%w: path %s", ErrExists, events.Quote(name))
		case e.name == name && !e.isFolder():
			return 0, fmt.Errorf("%w: %s is no folder", ErrConflict, events.Quote(name))
		case e.name == name:
			at = i
		case fold(e.name) == folded:
			return 0, fmt.Errorf("%w: some systems take %s for %s", ErrConflict, events.Quote(name), events.Quote(e.name))
		}
	}
	return at, nil
}
