package events_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The package is a leaf: nothing of ours, no clock, no IO. Each import has its
// reason here or in the package comment.
func TestImports(t *testing.T) {
	allowed := map[string]bool{
		"bytes": true, "context": true, "crypto/sha256": true, "encoding/hex": true, "errors": true, "fmt": true, "iter": true,
		"maps": true, "regexp": true, "slices": true, "strconv": true, "strings": true, "time": true, "unicode": true, "unicode/utf16": true, "unicode/utf8": true,
		"github.com/go-json-experiment/json": true, "github.com/go-json-experiment/json/jsontext": true, "github.com/oklog/ulid/v2": true,
	}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			if path, _ := strconv.Unquote(spec.Path.Value); !allowed[path] {
				t.Errorf("%s imports %s: what happened needs nothing of how it is stored or decided", file, path)
			}
		}
	}
}
