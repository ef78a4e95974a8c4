package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"gatebook/events"
	"gatebook/handlers/tools"
	"gatebook/policy/paths"
)

const canary = "CANARY-7f3a"

// place is a data folder with alice's workspace and OUT beside it.
type place struct {
	t    testing.TB
	ws   *Workspaces
	host string
	dir  string // alice's Workspace
	out  string
	n    atomic.Int64
}

func newPlace(t testing.TB) *place {
	host, err := os.MkdirTemp("/dev/shm", "gatebook") // a memory disk: fsync is not what is looked at
	if err != nil {
		host = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(host) })
	p := &place{t: t, ws: New(host), host: host, dir: filepath.Join(host, "agents", "alice", "Workspace"), out: filepath.Join(host, "OUT")}
	p.put(p.out+"/secret.txt", canary+" and more")
	p.put(p.dir+"/x/secret.txt", "mine")
	return p
}

func (p *place) put(name, content string) {
	p.must(os.MkdirAll(filepath.Dir(name), 0o700))
	p.must(os.WriteFile(name, []byte(content), 0o600))
}

func (p *place) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) path(raw string) paths.Path {
	path, err := paths.Parse(raw)
	p.must(err)
	return path
}

func (p *place) stamp() Stamp {
	return Stamp{Call: events.CallID(fmt.Sprintf("01J%023d", p.n.Add(1))), Now: 1}
}

// do runs one operation in a workspace of its own.
func do[T any](p *place, op func(*Workspace) (T, error)) (T, error) {
	ws, err := p.ws.Open(context.Background(), "alice")
	p.must(err)
	defer ws.Close()
	return op(ws)
}

func (p *place) read(path string) (Content, error) {
	return do(p, func(ws *Workspace) (Content, error) { return ws.Read(p.path(path), 0, MaxContent) })
}

func (p *place) write(path, content string) (Written, error) {
	return do(p, func(ws *Workspace) (Written, error) { return ws.Write(p.stamp(), p.path(path), []byte(content)) })
}

// once runs change at the first step of that name.
func (p *place) once(name string, change func()) {
	done := false
	p.ws.step = func(step string) {
		if step == name && !done {
			done = true
			change()
		}
	}
}

func (p *place) secretUnchanged() {
	p.t.Helper()
	if got, err := os.ReadFile(p.out + "/secret.txt"); string(got) != canary+" and more" {
		p.t.Errorf("OUT/secret.txt is %q %v", got, err)
	}
	if all, err := os.ReadDir(p.out); len(all) != 1 {
		p.t.Errorf("OUT holds %v %v", all, err)
	}
}

func refusedAs(err error, rule string) bool {
	var r *tools.Refused
	return errors.As(err, &r) && r.Rule == rule && !strings.Contains(r.Reason, canary)
}

// anywhere lets a restore take from any place.
func anywhere(paths.Path) error { return nil }

// holds is everything in the workspace, but for empty folders of the trash.
func (p *place) holds() string {
	p.t.Helper()
	var all strings.Builder
	p.must(filepath.WalkDir(p.dir, func(name string, d fs.DirEntry, err error) error {
		p.must(err)
		text := ""
		switch {
		case d.IsDir():
			return nil
		case d.Type().IsRegular():
			raw, err := os.ReadFile(name)
			p.must(err)
			text = string(raw)
		default:
			text, err = os.Readlink(name)
			p.must(err)
		}
		all.WriteString(strings.TrimPrefix(name, p.dir) + " " + d.Type().String() + " " + text + "\n")
		return nil
	}))
	return all.String()
}

// anything finds every line.
func anything([]byte) []int { return []int{0, 0} }
