//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/people"
)

// smallVolume names, for the process that may mount, the folder to mount on.
const smallVolume = "GATEBOOK_TEST_VOLUME"

// onSmallVolume runs a test on a volume of 64 MiB: the test starts itself again
// in a mount namespace of its own. Where that is refused the test is skipped.
func onSmallVolume(t *testing.T, run func(volume string)) {
	t.Helper()
	if volume := os.Getenv(smallVolume); volume != "" {
		err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		if err == nil {
			err = unix.Mount("tmpfs", volume, "tmpfs", 0, "size=64m,mode=0700")
		}
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
			t.Skipf("needs a mount namespace: mount: %v", err)
		}
		check(t, err)
		run(volume)
		return
	}
	self, err := os.Executable()
	check(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), smallVolume+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if _, reason, skipped := strings.Cut(string(out), "needs a mount namespace: "); skipped {
		reason, _, _ = strings.Cut(reason, "\n")
		t.Skip("needs a mount namespace: " + reason)
	}
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit):
		t.Skipf("needs a mount namespace: %v", err)
	case err != nil:
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// fill leaves no byte of a volume free, and gives the way back.
func fill(t *testing.T, volume string) (empty func()) {
	t.Helper()
	path := filepath.Join(volume, "filler")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	check(t, err)
	var st unix.Statfs_t
	check(t, unix.Fstatfs(int(f.Fd()), &st))
	if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(st.Bavail)*st.Bsize); err != nil && !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	check(t, f.Close())
	return func() { check(t, os.Remove(path)) }
}

// visitor is an agent that comes back where its connection was cut.
type visitor struct {
	h     *house
	round roundFile
	c     *client
}

// ask gives an answer, or none where the engine did not give one.
func (v *visitor) ask(ctx context.Context, tool, args string) (engine.CallAnswer, bool) {
	if v.c == nil || v.c.conn.IsClosed() {
		var err error
		if v.c, err = v.h.app.agent("alice"); err != nil {
			v.c = nil
			return engine.CallAnswer{}, false
		}
	}
	// A call that ran while its end could not be written is not answered for now.
	ctx, stop := context.WithTimeout(ctx, 7*time.Second)
	defer stop()
	a, err := v.c.call(ctx, v.round, "", tool, args)
	return a, err == nil
}

// degraded is an answer that says that nothing was done.
func degraded(a engine.CallAnswer) bool {
	return a.Verdict == events.Deny && a.Layer == events.LayerEngine && a.Rule == "degraded"
}

// readable asks what people ask, which is answered whatever the disk does: the
// calls so far, and that the disk is the trouble. (Where the bus is restarting
// they ask again.)
func readable(t *testing.T, h *house, calls int) bool {
	t.Helper()
	c, err := h.app.reader("view")
	if err != nil {
		return false
	}
	defer c.close()
	var audit people.AuditAnswer
	var health people.HealthAnswer
	err = errors.Join(c.ask(t.Context(), "audit", people.AuditRequest{}, &audit), c.ask(t.Context(), "health", struct{}{}, &health))
	return err == nil && len(audit.Calls) >= calls && !health.OK && strings.Contains(strings.Join(health.Troubles, " "), "disk: the volume")
}

// O-E18 kyma#14475: a full disk denies every call and loses nothing; after space
// is back the same process goes on, without repair.
func TestDiskFull(t *testing.T) {
	t.Parallel() // it mostly waits
	onSmallVolume(t, func(volume string) {
		h := newHouse(t, volume, nil, "alice")
		p := h.start()
		v := &visitor{h: h, round: h.begin("alice")}
		known := map[events.CallID]events.Status{}
		ask := func(tool, args string) engine.CallAnswer {
			a, ok := v.ask(t.Context(), tool, args)
			if ok && a.Call != "" && a.State == engine.StateFinal {
				known[a.Call] = a.Status
			}
			return a
		}
		for range 5 {
			if a := ask("file.write", `{"path":"a.txt","content":"abc"}`); a.Status != events.StatusOK {
				t.Fatalf("before: %+v", a)
			}
		}
		for range 2 {
			empty := fill(t, volume)
			// The disk is full before the engine looks at it: a write of the book fails.
			waitFor(t, "a call is denied as degraded", func() bool { return degraded(ask("demo.none", "{}")) })
			for range 5 {
				if a := ask("file.write", `{"path":"b.txt","content":"abc"}`); a.Status == events.StatusOK {
					t.Errorf("on a full disk: %+v", a)
				}
			}
			waitFor(t, "people read, and health names the disk", func() bool { return readable(t, h, 5) })
			empty()
			waitFor(t, "a call is allowed again", func() bool {
				return p.gone() || ask("file.write", `{"path":"c.txt","content":"abc"}`).Status == events.StatusOK
			})
			if p.gone() {
				t.Fatalf("the engine ended: %v", p.err)
			}
		}
		p.stop()
		if !strings.Contains(p.said.String(), "the bus restarts") {
			t.Error("no write of the book failed")
		}
		intact(t, h, known)
	})
}

// intact compares what was answered with the book, and the book with its views.
func intact(t *testing.T, h *house, known map[events.CallID]events.Status) {
	t.Helper()
	n := h.node(true)
	defer func() { check(t, n.close()) }()
	book := livesIn(facts(t, n.stores.book()))
	for id, status := range known {
		if ends := book.ends[id]; len(ends) != 1 || ends[0] != status {
			t.Errorf("call %s was answered %s, the book has %v", id, status, ends)
		}
	}
	for id := range book.decided {
		if len(book.ends[id]) != 1 {
			t.Errorf("call %s has the ends %v", id, book.ends[id])
		}
	}
	t.Logf("%d calls answered, %d in the book", len(known), len(book.decided))
	sameAsRebuilt(t, n)
}

// O-B06 cockroach#167495: an engine that starts on a full disk gives up its
// ballast, denies every call, lets people read, and becomes ready by itself once
// there is space.
func TestStartOnFullDisk(t *testing.T) {
	t.Parallel() // it mostly waits
	onSmallVolume(t, func(volume string) {
		h := newHouse(t, volume, withoutDemo, "alice")
		h.command = []string{"serve"}
		p := h.start()
		v := &visitor{h: h, round: h.begin("alice")}
		list := func() engine.CallAnswer {
			a, _ := v.ask(t.Context(), "file.list", "{}")
			return a
		}
		if a := list(); a.Status != events.StatusOK {
			t.Fatalf("before: %+v", a)
		}
		p.stop()
		empty := fill(t, volume)
		p = h.start()
		if !strings.Contains(p.said.String(), "the ballast file was deleted") {
			t.Error("the engine does not say how it could start")
		}
		fill(t, volume) // what the start has given back to the volume
		waitFor(t, "a call is denied as degraded", func() bool { return degraded(list()) })
		waitFor(t, "people read, and health names the disk", func() bool { return readable(t, h, 1) })
		empty()
		waitFor(t, "a call is allowed again", func() bool { return p.gone() || list().Status == events.StatusOK })
		if p.gone() {
			t.Fatalf("the engine ended: %v", p.err)
		}
		p.stop()
		intact(t, h, nil)
	})
}

// A stop on a full disk comes to its end: what the views could not write is
// folded at the next start.
func TestStopOnFullDisk(t *testing.T) {
	t.Parallel() // it mostly waits
	onSmallVolume(t, func(volume string) {
		h := newHouse(t, volume, nil, "alice")
		p := h.start()
		v := &visitor{h: h, round: h.begin("alice")}
		a, _ := v.ask(t.Context(), "demo.none", "{}")
		if a.Status != events.StatusOK {
			t.Fatalf("before: %+v", a)
		}
		empty := fill(t, volume)
		waitFor(t, "a call is denied as degraded", func() bool {
			a, _ := v.ask(t.Context(), "file.list", "{}")
			return degraded(a)
		})
		check(t, p.cmd.Process.Signal(os.Interrupt))
		waitFor(t, "the engine ends", p.gone)
		if strings.Contains(p.said.String(), "goroutine ") {
			t.Errorf("the engine panicked:\n%s", p.said)
		}
		empty()
		h.start().stop() // ends what ran then as unknown
		intact(t, h, map[events.CallID]events.Status{a.Call: a.Status})
	})
}

// withoutDemo leaves the demonstration's tools out of a catalog, for an engine
// that does not have them.
func withoutDemo(catalog string) string {
	return strings.NewReplacer(", demo.wait, demo.none", "", "      - tool: demo.wait\n", "", "      - tool: demo.none\n", "").Replace(catalog)
}
