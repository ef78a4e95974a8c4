package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"gatebook/policy/paths"
)

// Found is what a search found: the folders in the order of the bytes of their
// names, the lines of a file in their order.
type Found struct {
	Matches []Match `json:"matches"`
	// Files is how many files were looked through. Skipped is how many entries were not,
	// or not to the end: links, files with a second name, special files, files that are
	// not text or too large, names that no path may have, lines that are too long.
	Files   int `json:"files"`
	Skipped int `json:"skipped"`
	// Truncated says that a bound ended the search before its end.
	Truncated bool `json:"truncated"`
}

// Match is one line in which the pattern is found.
type Match struct {
	Path string `json:"path"`
	Line int    `json:"line"` // the first is 1
	// Text is the line or, where it is long, a part of at most [MaxExcerpt] bytes around
	// the first place in it, as valid UTF-8.
	Text string `json:"text"`
}

// Finder gives the first place of a pattern in a line, or nil.
type Finder func(line []byte) (place []int)

// Search looks for lines in a file, or in all files below a folder. Each folder on
// the way down is opened as any path is, so links are not followed however the tree
// changes meanwhile. It ends by itself after [MaxSearchTime].
func (ws *Workspace) Search(ctx context.Context, path paths.Path, find Finder) (Found, error) {
	limited, stop := context.WithTimeout(ctx, MaxSearchTime)
	defer stop()
	s := searcher{ctx: limited, find: find, Found: Found{Matches: []Match{}}}
	err := ws.search(&s, path)
	if errors.Is(err, errEnough) || ctx.Err() == nil && limited.Err() != nil {
		s.Truncated, err = true, nil
	}
	return s.Found, fault(path.String(), err)
}

func (ws *Workspace) search(s *searcher, path paths.Path) error {
	if path.String() == "." {
		return s.folder(ws.root, path)
	}
	f, name, err := ws.parent(path, false)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.entry(f, name, path)
}

// errEnough ends a search at one of its bounds.
var errEnough = errors.New("a bound of the search")

type searcher struct {
	Found
	ctx     context.Context // of the one call that it lives for
	find    Finder
	entries int
	bytes   int64 // looked through
	size    int   // of the matches as JSON
}

// entry looks through what has the name: a file, and where it is none a folder.
func (s *searcher) entry(f folder, name string, at paths.Path) error {
	file, info, err := f.openFile(name)
	if errors.Is(err, errFolder) {
		next, err := f.enter(name, false)
		if err != nil {
			return err
		}
		defer next.Close()
		return s.folder(next, at)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	return s.file(file, info, at)
}

// folder looks through all of f. What cannot be opened is skipped: an entry that goes
// or becomes a link meanwhile must not hide the others.
func (s *searcher) folder(f folder, at paths.Path) error {
	keep := func(name string) bool { return !hidden(at, name) }
	names, err := f.names(s.ctx, MaxSearchEntries-s.entries+1, keep, strings.Compare)
	if err != nil {
		return err
	}
	f.step("listed")
	for _, name := range names {
		if s.entries++; s.entries > MaxSearchEntries {
			return errEnough
		}
		if err := s.ctx.Err(); err != nil {
			return err
		}
		next, err := paths.Parse(path.Join(at.String(), name))
		if err == nil {
			err = s.entry(f, name, next)
		}
		if errors.Is(err, errEnough) || s.ctx.Err() != nil {
			return err
		}
		if err != nil {
			s.Skipped++
		}
	}
	return nil
}

func (s *searcher) file(file *os.File, info fs.FileInfo, at paths.Path) error {
	if info.Size() > MaxSearchFile {
		s.Skipped++
		return nil
	}
	const head = 8 << 10
	r := bufio.NewReaderSize(io.LimitReader(file, info.Size()), MaxLine)
	first, err := r.Peek(head)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if bytes.IndexByte(first, 0) >= 0 { // no text
		s.Skipped++
		return nil
	}
	if s.bytes += info.Size(); s.bytes > MaxSearchBytes {
		return errEnough
	}
	s.Files++
	return s.lines(r, at)
}

// lines looks through a file that is text.
func (s *searcher) lines(r *bufio.Reader, at paths.Path) error {
	cut := false
	for number := 1; ; number++ {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		line, err := r.ReadSlice('\n')
		if len(line) > 0 {
			if full := s.match(line, number, at); full != nil {
				return full
			}
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line
			cut = true
			_, err = r.ReadSlice('\n')
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if cut {
		s.Skipped++
	}
	return nil
}

// match keeps a line in which the pattern is found.
func (s *searcher) match(line []byte, number int, at paths.Path) error {
	line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	place := s.find(line)
	if place == nil {
		return nil
	}
	m := Match{Path: at.String(), Line: number, Text: excerpt(line, place[0])}
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if s.size += len(raw) + 1; len(s.Matches) >= MaxMatches || s.size > MaxListing {
		return errEnough
	}
	s.Matches = append(s.Matches, m)
	return nil
}

// excerpt is the part of a line around a place, in whole characters. What is not
// UTF-8 becomes U+FFFD.
func excerpt(line []byte, at int) string {
	if len(line) > MaxExcerpt {
		from := max(0, min(at-MaxExcerpt/4, len(line)-MaxExcerpt))
		part := line[from : from+MaxExcerpt]
		for from > 0 && len(part) > MaxExcerpt-utf8.UTFMax && !utf8.RuneStart(part[0]) {
			part = part[1:]
		}
		line = WholeRunes(part)
	}
	return strings.ToValidUTF8(string(line), "\uFFFD")
}

// WholeRunes leaves out a character that is cut at the end of data, unless nothing
// would be left.
func WholeRunes(data []byte) []byte {
	for cut := 1; cut < min(utf8.UTFMax, len(data)); cut++ {
		tail := data[len(data)-cut:]
		if utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return data
			}
			return data[:len(data)-cut]
		}
	}
	return data
}
