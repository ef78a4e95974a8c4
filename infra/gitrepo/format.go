package gitrepo

import (
	"context"
	"crypto/sha1" // the id that git uses; the package comment says what it is worth
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"gatebook/events"
)

// format is how a repository names its objects.
type format struct {
	name string
	hex  int // digits of an id
}

var (
	sha1Format   = format{"sha1", 2 * sha1.Size}
	sha256Format = format{"sha256", 2 * sha256.Size}
)

// config is the whole configuration of a stand-in.
func (f format) config() string {
	if f == sha256Format {
		return "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n"
	}
	return "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
}

// id is the id that an object has by its kind and bytes.
func (f format) id(kind string, data []byte) string {
	whole := append(fmt.Appendf(nil, "%s %d\x00", kind, len(data)), data...)
	if f == sha256Format {
		sum := sha256.Sum256(whole)
		return hex.EncodeToString(sum[:])
	}
	sum := sha1.Sum(whole)
	return hex.EncodeToString(sum[:])
}

// isID says that a text is a whole id, in its only spelling.
func (f format) isID(text string) bool {
	return len(text) == f.hex && strings.Trim(text, "0123456789abcdef") == "" && strings.Trim(text, "0") != ""
}

// harmless are the extensions that change nothing of objects and refs.
var harmless = map[string]bool{
	"extensions.noop":              true,
	"extensions.preciousobjects":   true,
	"extensions.worktreeconfig":    true,
	"extensions.relativeworktrees": true,
}

// readFormat reads the configuration as text: git parses it from its input, as a
// file that has nothing to do with where it runs, and follows no include.
func readFormat(ctx context.Context, p program, root *os.Root) (format, error) {
	text, err := readPart(root, "config", maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return sha1Format, nil
	}
	if err != nil {
		return format{}, err
	}
	list, err := p.run(ctx, job{stdin: text, most: 2 * maxConfig, args: []string{"config", "--file", "-", "--no-includes", "--null", "--list"}})
	if refused(err) {
		return format{}, fmt.Errorf("%w: its config cannot be read: %w", ErrUnsupported, err)
	}
	if err != nil {
		return format{}, err
	}
	return formatOf(string(list))
}

// formatOf understands lines of git config --null --list.
func formatOf(list string) (format, error) {
	f, version := sha1Format, "0"
	for line := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		key, value, _ := strings.Cut(line, "\n")
		switch {
		case key == "core.repositoryformatversion":
			version = value
		case key == "extensions.objectformat" && value == sha256Format.name:
			f = sha256Format
		case key == "extensions.objectformat" && value == sha1Format.name:
			f = sha1Format
		case strings.HasPrefix(key, "extensions.") && !harmless[key],
			strings.HasPrefix(key, "remote.") && (strings.HasSuffix(key, ".promisor") || strings.HasSuffix(key, ".partialclonefilter")):
			return format{}, fmt.Errorf("%w: it has %s", ErrUnsupported, events.Quote(key))
		}
	}
	if version != "1" && (version != "0" || f == sha256Format) {
		return format{}, fmt.Errorf("%w: version %s with %s", ErrUnsupported, events.Quote(version), f.name)
	}
	return f, nil
}
