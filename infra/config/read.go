package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	yaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"golang.org/x/sys/unix"

	"gatebook/policy"
)

const (
	// MaxFile is the size of a catalog file, in bytes.
	MaxFile = 1 << 20
	// maxDepth bounds brackets, and dashes of one line, within each other. A
	// catalog needs six; the YAML parser is slow on thousands.
	maxDepth = 32
)

var errNotRegular = errors.New("it is not a regular file")

// Load reads and checks the catalog file at path; extra is as for
// [policy.Compile]. The bytes are the file's, also where the catalog is not valid.
// Errors wrap [policy.ErrCatalog] with a [*Fault] for each thing wrong, or the
// error of the file system (fs.ErrNotExist). What is not a regular file is one: a
// pipe may never end.
func Load(path string, extra ...string) (policy.Catalog, []byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return policy.Catalog{}, nil, fmt.Errorf("read the catalog: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return policy.Catalog{}, nil, fmt.Errorf("read the catalog: %w", err)
	}
	c, err := Parse(path, data, extra...)
	return c, data, err
}

// openRegular opens a file that has an end. It does not wait for the other side of a
// pipe, and what it opened is what it looks at.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: errNotRegular}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Parse is [Load] for bytes; name stands for the file in faults.
func Parse(name string, data []byte, extra ...string) (policy.Catalog, error) {
	doc, err := read(name, data, extra)
	return doc.catalog, err
}

// document is a catalog file without faults.
type document struct {
	catalog  policy.Catalog
	compiled *policy.Compiled
	root     *ast.MappingNode
}

func read(name string, data []byte, extra []string) (document, error) {
	root, fault := tree(data)
	if fault != nil {
		fault.File = name
		return document{}, joined([]*Fault{fault})
	}
	d := decoder{file: name, places: map[string]place{}}
	var c policy.Catalog
	d.catalog(root, &c)
	if err := joined(d.faults); err != nil {
		return document{}, err
	}
	compiled, err := compile(c, extra)
	if err != nil {
		return document{}, located(name, d.places, err)
	}
	return document{catalog: c, compiled: compiled, root: root}, nil
}

// tree is the one mapping that the file must be.
func tree(data []byte) (*ast.MappingNode, *Fault) {
	if f := checkBytes(data); f != nil {
		return nil, f
	}
	// The parser loses count of the lines where they end in two bytes.
	file, err := parser.ParseBytes(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), parser.ParseComments, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntax(err)
	}
	if len(file.Docs) > 1 {
		return nil, faultAt(file.Docs[1].Body, "a catalog is one document: no directive, no second ---")
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, &Fault{Line: 1, Col: 1, Text: "the file is empty"}
	}
	root, ok := file.Docs[0].Body.(*ast.MappingNode)
	if !ok {
		return nil, faultAt(file.Docs[0].Body, "want keys and values: schema, profiles, roles and so on")
	}
	return root, nil
}

// checkBytes refuses what would cost the parser too much, and what it would
// silently repair.
func checkBytes(data []byte) *Fault {
	if len(data) > MaxFile {
		return &Fault{Line: 1, Col: 1, Text: fmt.Sprintf("the file is larger than %d bytes", MaxFile)}
	}
	depth := 0
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 || bytes.IndexByte(bytes.TrimSuffix(text, []byte("\r\n")), '\r') >= 0 {
			return &Fault{Line: line, Col: 1, Text: "the line is not text in UTF-8"}
		}
		for _, b := range text {
			switch b {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(0, depth-1)
			}
			if depth > maxDepth {
				return tooDeep(line)
			}
		}
		if nests := strings.Count(string(text), "- ") + strings.Count(string(text), "? "); nests > maxDepth && !bytes.ContainsAny(text, "#\"'") {
			return tooDeep(line)
		}
	}
	return nil
}

func tooDeep(line int) *Fault {
	return &Fault{Line: line, Col: 1, Text: fmt.Sprintf("more than %d lists or maps within each other", maxDepth)}
}

func syntax(err error) *Fault {
	var bad yaml.Error
	if !errors.As(err, &bad) || bad.GetToken() == nil || bad.GetToken().Position == nil {
		return &Fault{Line: 1, Col: 1, Text: "not YAML: " + err.Error()}
	}
	at := bad.GetToken().Position
	return &Fault{Line: at.Line, Col: at.Column, Text: "not YAML: " + bad.GetMessage()}
}

func faultAt(n ast.Node, text string) *Fault {
	at := placeOf(n)
	return &Fault{Line: at.line, Col: at.col, Text: text}
}

// placeOf is where n begins; a block mapping begins at its first key.
func placeOf(n ast.Node) place {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key
	}
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return place{1, 1}
	}
	at := n.GetToken().Position
	return place{max(1, at.Line), max(1, at.Column)}
}
