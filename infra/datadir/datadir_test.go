package datadir

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"gatebook/events"
)

const incarnation = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

// TestMain is also the other engine of TestLockOfAnotherProcess.
func TestMain(m *testing.M) {
	if path := os.Getenv("GATEBOOK_TEST_LOCK"); path != "" {
		d, err := Open(path, false)
		if err == nil {
			err = d.Lock()
		}
		fmt.Println("lock:", err)
		io.Copy(io.Discard, os.Stdin) // until it is killed
		return
	}
	os.Exit(m.Run())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T) *Dir {
	t.Helper()
	d, err := Open(filepath.Join(t.TempDir(), "data"), true)
	must(t, err)
	return d
}

// TestOpenRefuses is O-E19: what is not taken for a data folder.
func TestOpenRefuses(t *testing.T) {
	rows := []struct {
		name   string
		make   func(t *testing.T) string
		create bool
		want   error
		says   string
	}{
		{"O-E19 nats-io/nats-server#5935 empty setting", func(*testing.T) string { return "" }, true, ErrPath, "no folder is named"},
		{"O-E19 folder readable by everybody", func(t *testing.T) string { return mode(t, 0o755) }, true, ErrNotPrivate, "chmod 700"},
		{"O-E19 folder that the group may enter", func(t *testing.T) string { return mode(t, 0o710) }, false, ErrNotPrivate, "chmod 700"},
		{"O-E19 read-only folder", func(t *testing.T) string { return mode(t, 0o500) }, true, ErrNotPrivate, "may write"},
		{"O-E19 link to a folder readable by everybody", func(t *testing.T) string {
			link := filepath.Join(t.TempDir(), "link")
			must(t, os.Symlink(mode(t, 0o755), link))
			return link
		}, true, ErrNotPrivate, "chmod 700"},
		{"missing and not to be made", func(t *testing.T) string { return filepath.Join(t.TempDir(), "none") }, false, fs.ErrNotExist, "/none"},
		{"a file", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "file")
			must(t, os.WriteFile(path, nil, 0o700))
			return path
		}, false, ErrPath, "not a folder"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			_, err := Open(row.make(t), row.create)
			if !errors.Is(err, row.want) || !strings.Contains(err.Error(), row.says) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func mode(t *testing.T, m fs.FileMode) string {
	path := t.TempDir()
	must(t, os.Chmod(path, m))
	return path
}

// TestRelativePath is O-E19: the path is resolved once.
func TestRelativePath(t *testing.T) {
	base := t.TempDir()
	t.Chdir(base)
	must(t, os.Mkdir("real", 0o700))
	must(t, os.Symlink("real", "link"))
	d, err := Open("link", true)
	must(t, err)
	t.Chdir(t.TempDir())
	must(t, d.WriteAddress("127.0.0.1:4222"))
	if _, err := os.Stat(filepath.Join(base, "real", "address")); err != nil {
		t.Fatal(err)
	}
}

// TestModes: everything in the folder is the owner's alone, whatever the umask.
func TestModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	d := open(t)
	must(t, d.WriteAddress("127.0.0.1:4222"))
	must(t, d.MakeBallast(4096))
	must(t, d.Lock())
	defer d.Unlock()
	must(t, filepath.WalkDir(d.Path(), func(path string, e fs.DirEntry, err error) error {
		must(t, err)
		info, err := e.Info()
		must(t, err)
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	}))
	for _, p := range []string{d.Keys(), d.Nats(), d.Views(), d.Blobs(), d.Agents()} {
		if info, err := os.Stat(p); err != nil || !info.IsDir() {
			t.Errorf("%s: %v", p, err)
		}
	}
	if filepath.Dir(d.Catalog()) != d.Path() {
		t.Errorf("the catalog is at %s", d.Catalog())
	}
	_, err := Open(d.Path(), true)
	must(t, err)
}

// TestLockOfAnotherProcess is O-E16 (nats-by-example#121, interactEM#478): a
// second engine on one folder is refused with the first one's process, readers
// are not, and the lock ends with the process.
func TestLockOfAnotherProcess(t *testing.T) {
	d := open(t)
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), "GATEBOOK_TEST_LOCK="+d.Path())
	in, err := other.StdinPipe()
	must(t, err)
	defer in.Close()
	out, err := other.StdoutPipe()
	must(t, err)
	must(t, other.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "lock: <nil>\n" {
		t.Fatalf("the other engine said %q, %v", line, err)
	}
	err = d.Lock()
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", other.Process.Pid)) {
		t.Fatalf("got %v", err)
	}
	reader, err := Open(d.Path(), false)
	must(t, err)
	if _, err := reader.ReadHead(); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a reader got %v", err)
	}
	must(t, other.Process.Kill())
	_ = other.Wait()
	must(t, d.Lock())
	must(t, d.Unlock())
}

// TestLockInOneProcess: two openings of one folder exclude each other too.
func TestLockInOneProcess(t *testing.T) {
	d := open(t)
	again, err := Open(d.Path(), false)
	must(t, err)
	must(t, d.Unlock()) // without a lock: nothing
	must(t, d.Lock())
	for _, other := range []*Dir{d, again} {
		if err := other.Lock(); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
			t.Fatalf("got %v", err)
		}
	}
	must(t, d.Unlock())
	must(t, again.Lock())
	must(t, again.Unlock())
}

// TestHead: what is written is read, in one form; other bytes are refused.
func TestHead(t *testing.T) {
	d := open(t)
	rapid.Check(t, func(t *rapid.T) {
		h := Head{
			Incarnation: incarnation,
			Size:        events.Seq(rapid.Uint64().Draw(t, "size")),
			Time:        events.Instant(rapid.Int64Range(0, 1<<52).Draw(t, "time")),
		}
		copy(h.Root[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "root"))
		if err := d.WriteHead(h); err != nil {
			t.Fatal(err)
		}
		if got, err := d.ReadHead(); err != nil || got != h {
			t.Fatalf("got %+v, %v, want %+v", got, err, h)
		}
	})
	must(t, d.WriteHead(Head{Incarnation: incarnation, Size: 7}))
	good, err := os.ReadFile(d.Head())
	must(t, err)
	for name, bad := range map[string]string{
		"empty":          "",
		"cut":            string(good[:len(good)/2]),
		"no end of line": strings.TrimSpace(string(good)),
		"two values":     string(good) + string(good),
		"unknown field":  strings.Replace(string(good), `{`, `{"more":1,`, 1),
		"other case":     strings.Replace(string(good), `"size"`, `"Size"`, 1),
		"twice":          strings.Replace(string(good), `"size":7`, `"size":7,"size":8`, 1),
		"spaces":         strings.Replace(string(good), `:7`, `: 7`, 1),
		"no incarnation": strings.Replace(string(good), incarnation, "", 1),
		"too large":      string(good) + strings.Repeat(" ", maxSmallFile),
	} {
		must(t, os.WriteFile(d.Head(), []byte(bad), 0o600))
		if h, err := d.ReadHead(); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: got %+v, %v", name, h, err)
		}
	}
}

// TestSmallFiles: address and incarnation.
func TestSmallFiles(t *testing.T) {
	d := open(t)
	for name, read := range map[string]func() error{
		"address":     func() error { _, err := d.ReadAddress(); return err },
		"incarnation": func() error { _, err := d.ReadIncarnation(); return err },
	} {
		if err := read(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("no %s: got %v", name, err)
		}
		for _, bad := range []string{"", "x\n", "127.0.0.1:1", incarnation} {
			must(t, os.WriteFile(d.in(name), []byte(bad), 0o600))
			if err := read(); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s %q: got %v", name, bad, err)
			}
		}
	}
	must(t, d.WriteAddress("[::1]:4222"))
	must(t, d.WriteIncarnation(incarnation))
	if got, err := d.ReadAddress(); err != nil || got != "[::1]:4222" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := d.ReadIncarnation(); err != nil || got != incarnation {
		t.Errorf("got %q, %v", got, err)
	}
	if d.WriteAddress("nowhere") == nil || d.WriteIncarnation("x") == nil {
		t.Error("a wrong value was written")
	}
}

// TestWriteFileFails: a failed replacement leaves the old file and no other.
func TestWriteFileFails(t *testing.T) {
	d := open(t)
	target := d.in("target")
	must(t, os.Mkdir(target, 0o700))
	must(t, os.WriteFile(filepath.Join(target, "x"), nil, 0o600))
	before, err := os.ReadDir(d.Path())
	must(t, err)
	if err := WriteFile(target, []byte("new")); err == nil {
		t.Fatal("a folder was replaced")
	}
	after, err := os.ReadDir(d.Path())
	must(t, err)
	if len(after) != len(before) {
		t.Errorf("left behind: %v", after)
	}
}

// TestBallast: real blocks, kept where it is right, and nothing left behind where
// there is no room.
func TestBallast(t *testing.T) {
	d := open(t)
	const size = 3<<20 + 5
	must(t, d.MakeBallast(size))
	info, err := os.Stat(d.Ballast())
	must(t, err)
	if blocks := info.Sys().(*syscall.Stat_t).Blocks * 512; info.Size() != size || blocks < size {
		t.Fatalf("size %d, on disk %d", info.Size(), blocks)
	}
	must(t, d.MakeBallast(size))
	if again, err := os.Stat(d.Ballast()); err != nil || !os.SameFile(info, again) {
		t.Error("a right ballast was made again")
	}
	if err := d.MakeBallast(1 << 60); err == nil {
		t.Error("there was room for an exabyte")
	}
	if _, err := os.Stat(d.in(".new-ballast")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
	if d.MakeBallast(0) == nil {
		t.Error("a ballast of nothing was made")
	}
	f, err := os.Create(d.in("filled"))
	must(t, err)
	defer f.Close()
	must(t, fill(f, size))
	if info, err := f.Stat(); err != nil || info.Size() != size {
		t.Errorf("filled %v, %v", info.Size(), err)
	}
	free, total, err := d.Free()
	if err != nil || free == 0 || total < free {
		t.Errorf("free %d of %d, %v", free, total, err)
	}
}
