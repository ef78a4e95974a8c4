package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gatebook/events"
	"gatebook/handlers/engine"
	"gatebook/handlers/health"
	"gatebook/handlers/install"
	"gatebook/handlers/integrity"
	"gatebook/handlers/people"
	"gatebook/handlers/upstream"
	"gatebook/infra/config"
	"gatebook/infra/datadir"
	"gatebook/policy"
)

func (a *App) doctorCommand() *cobra.Command {
	var accept bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say how the engine is, or what its folder shows where none runs",
		Long: `Ask the running engine how it is. Where none runs, say what the data folder shows.
The exit code is 0 healthy, 1 trouble, 3 no engine runs, 4 evidence of damage.

After a jump of the clock, engine time goes on by elapsed time, and expiry waits;
--accept-clock, for operators, takes the wall clock again.

  gatebook doctor --json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if accept {
				if err := a.acceptClock(cmd.Context()); err != nil {
					return err
				}
			}
			d, err := a.diagnose(cmd.Context())
			if err != nil {
				return err
			}
			if a.flags.json {
				err = a.printJSON(d)
			} else {
				err = a.printDiagnosis(d)
			}
			if err == nil {
				err = d.verdict()
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&accept, "accept-clock", false, "take the wall clock again after a jump")
	return cmd
}

func (a *App) acceptClock(ctx context.Context) error {
	c, err := a.reader("control")
	if err != nil {
		return err
	}
	defer c.close()
	var done engine.Done
	if err := c.ask(ctx, "clock.accept", people.ActRequest{}, &done); err != nil {
		return err
	}
	what := "the clock was not held; nothing changed"
	if done.Changed {
		what = fmt.Sprintf("the wall clock is accepted (event %d)", done.Seq)
	}
	fmt.Fprintln(a.Err, "gatebook: "+what)
	return nil
}

// diagnosis is what doctor finds.
type diagnosis struct {
	Running bool `json:"running"`
	// Engine is what the running engine says of itself.
	Engine *people.HealthAnswer `json:"engine,omitzero"`
	Folder folderState          `json:"folder"`
	// Troubles, Damage and Notes are for people; the first two decide the exit code.
	Troubles []string `json:"troubles"`
	Damage   []string `json:"damage"`
	Notes    []string `json:"notes"`
}

// diagnose looks at the folder and asks the engine.
func (a *App) diagnose(ctx context.Context) (*diagnosis, error) {
	dir, err := a.folder()
	if err != nil {
		return nil, err
	}
	d := &diagnosis{Troubles: []string{}, Damage: []string{}, Notes: []string{}}
	asked := a.askHealth(ctx, d)
	d.readFolder(dir, toolNames(a.Extra))
	switch {
	case len(d.Damage) > 0 && d.Running:
		d.note("stop the engine; %s", a.afterDamage())
	case len(d.Damage) > 0:
		d.note("%s", a.afterDamage())
	}
	if asked == nil {
		return d, nil
	}
	// The address may be an old one, where by now somebody else listens: whether
	// an engine runs on this folder is the lock's to say.
	held, err := locked(dir)
	if err == nil && held && !errors.Is(asked, errUnreachable) {
		err = asked
	}
	if err != nil {
		return nil, err
	}
	if held {
		d.note("an engine holds the folder and does not answer: %v", asked)
		return d, nil
	}
	d.note("no engine answers: %v", asked)
	if len(d.Damage) == 0 && d.Folder.Head != nil {
		d.note("doctor reads no event; whether the book is whole: %s", a.command("verify"))
	}
	return d, nil
}

func (a *App) askHealth(ctx context.Context, d *diagnosis) error {
	c, err := a.reader("view")
	if err != nil {
		return err
	}
	defer c.close()
	var h people.HealthAnswer
	if err := c.ask(ctx, "health", struct{}{}, &h); err != nil {
		return err
	}
	d.Engine = &h
	damage := string(health.Damage) + ": "
	for _, t := range h.Troubles {
		if why, ok := strings.CutPrefix(t, damage); ok {
			d.Damage = append(d.Damage, why)
		} else {
			d.Troubles = append(d.Troubles, t)
		}
	}
	if h.Damage != "" && len(d.Damage) == 0 {
		d.Damage = append(d.Damage, h.Damage)
	}
	if h.ClockHeld {
		d.trouble("the clock jumped and is held: %s", a.command("doctor --accept-clock"))
	}
	for _, w := range h.Warnings {
		if strings.HasPrefix(w, warnStays) {
			w = warnStays // the faults of today's file are told beside it
		}
		d.Notes = append(d.Notes, w)
	}
	var file people.CatalogAnswer
	if err := c.ask(ctx, "catalog", struct{}{}, &file); err != nil {
		return err
	}
	if file.Fault == "" && file.File != file.InForce {
		d.note("the catalog file differs from the catalog in force: %s", a.command("catalog diff"))
	}
	d.Running = true
	return nil
}

func (d *diagnosis) note(format string, args ...any) {
	d.Notes = append(d.Notes, fmt.Sprintf(format, args...))
}

func (d *diagnosis) trouble(format string, args ...any) {
	d.Troubles = append(d.Troubles, fmt.Sprintf(format, args...))
}

func (d *diagnosis) damaged(format string, args ...any) {
	d.Damage = append(d.Damage, fmt.Sprintf(format, args...))
}

// verdict is the exit code as an error; what it says is printed already.
func (d *diagnosis) verdict() error {
	switch {
	case len(d.Damage) > 0:
		return errors.Join(errSaid, integrity.ErrDamage)
	case !d.Running:
		return errors.Join(errSaid, errUnreachable)
	case len(d.Troubles) > 0 || !d.Engine.OK:
		return errSaid
	}
	return nil
}

func (a *App) printDiagnosis(d *diagnosis) error {
	rows := [][]string{{"state", d.state()}}
	if h := d.Engine; h != nil {
		scrub := "not begun"
		if h.ScrubOf > 0 {
			scrub = fmt.Sprintf("%d of %d events", h.ScrubDone, h.ScrubOf)
		}
		rows = append(rows, []string{"version", h.Version}, []string{"last event", fmt.Sprintf("%d, %s", h.Seq, a.when(h.Time))},
			[]string{"root", orDash(h.Root)}, []string{"catalog in force", orDash(string(h.Catalog))},
			[]string{"phase", fmt.Sprint(h.Phase)}, []string{"clock held", yesNo(h.ClockHeld)}, []string{"calls that wait for a person", fmt.Sprint(h.Waiting)}, []string{"scrubbed", scrub},
			[]string{"writer", string(h.Writer)},
			[]string{"process", fmt.Sprintf("%d goroutines, %s of heap in use", h.Process.Goroutines, sizeText(h.Process.HeapBytes))})
		for _, d := range h.Alerts {
			rows = append(rows, []string{"alerts to " + d.Name, a.toldRow(d)})
		}
		for _, s := range h.Servers {
			rows = append(rows, []string{"server " + s.Server, serverRow(s)})
		}
		for _, s := range h.Installed {
			rows = append(rows, []string{"approved " + string(s.Kind), installedRow(s)})
		}
		if b := h.Telegram; b != nil {
			rows = append(rows, []string{"telegram", "last polled " + a.when(b.Polled) + orNothing("; ", cmp.Or(b.Polling, b.Failure))})
		}
	}
	rows = append(rows, a.folderRows(d.Folder)...)
	for _, more := range []struct {
		name  string
		texts []string
	}{{"damage", d.Damage}, {"trouble", d.Troubles}, {"note", d.Notes}} {
		for _, t := range more.texts {
			for i, line := range strings.Split(t, "\n") {
				if i > 0 {
					line = "  " + line
				}
				rows = append(rows, []string{more.name, line})
			}
		}
	}
	return a.table([]string{"WHAT", "VALUE"}, rows)
}

func (d *diagnosis) state() string {
	switch {
	case len(d.Damage) > 0:
		return "evidence of damage"
	case !d.Running:
		return "no engine runs"
	case len(d.Troubles) > 0 || !d.Engine.OK:
		return "trouble"
	}
	return "healthy"
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// folderRows are the rows of what the folder shows.
func (a *App) folderRows(f folderState) [][]string {
	head := "none"
	if f.Head != nil {
		head = fmt.Sprintf("%d events, root %s, %s", f.Head.Size, f.Head.Root, a.when(f.Head.Time))
	}
	catalog := orDash(string(f.CatalogFile))
	if f.CatalogFault != "" {
		catalog = "not valid, see trouble"
	}
	return [][]string{
		{"folder", f.Path}, {"incarnation", orDash(string(f.Incarnation))}, {"address", orDash(f.Address)},
		{"head", head}, {"catalog file", catalog},
		{"sizes", fmt.Sprintf("book %s, views %s, blobs %s", sizeText(f.BookBytes), sizeText(f.ViewsBytes), sizeText(f.BlobsBytes))},
		{"free", fmt.Sprintf("%s of %s; the engine stops below %s", sizeText(f.FreeBytes), sizeText(f.TotalBytes), sizeText(f.ReserveBytes))},
		{"ballast", sizeText(f.BallastBytes)},
	}
}

// sizeText prints a size for people.
func sizeText(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size {
			return fmt.Sprintf("%d.%d %s", n/u.size, n%u.size*10/u.size, u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// headState is the head as doctor shows it.
type headState struct {
	Size events.Seq     `json:"size"`
	Root string         `json:"root"`
	Time events.Instant `json:"time"`
}

// folderState is what a data folder shows without its stores being opened.
type folderState struct {
	Path        string             `json:"path"`
	Incarnation events.Incarnation `json:"incarnation,omitzero"`
	Address     string             `json:"address,omitzero"` // of the last engine
	Head        *headState         `json:"head,omitzero"`
	// CatalogFile is the digest of the file, CatalogFault why there is none.
	CatalogFile  events.Digest `json:"catalog_file,omitzero"`
	CatalogFault string        `json:"catalog_fault,omitzero"`
	BookBytes    int64         `json:"book_bytes"`
	ViewsBytes   int64         `json:"views_bytes"`
	BlobsBytes   int64         `json:"blobs_bytes"`
	FreeBytes    int64         `json:"free_bytes"`
	TotalBytes   int64         `json:"total_bytes"`
	ReserveBytes int64         `json:"reserve_bytes"`
	BallastBytes int64         `json:"ballast_bytes"`
}

// readFolder fills in what the files say; what contradicts itself is damage.
func (d *diagnosis) readFolder(dir *datadir.Dir, extra []string) {
	f := &d.Folder
	f.Path = dir.Path()
	var err error
	if f.Incarnation, err = dir.ReadIncarnation(); err != nil {
		d.small(err, "incarnation")
	}
	if f.Address, err = dir.ReadAddress(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.small(err, "address")
	}
	d.readHead(dir)
	d.readKeys(dir)
	if c, _, err := config.Load(dir.Catalog(), extra...); err != nil {
		f.CatalogFault = err.Error()
		d.trouble("the catalog file is not valid%s", strings.TrimPrefix(": "+err.Error(), ": the catalog is not valid"))
	} else if compiled, err := policy.Compile(c, extra...); err == nil {
		f.CatalogFile = compiled.Digest()
	}
	for size, path := range map[*int64]string{&f.BookBytes: dir.Nats(), &f.ViewsBytes: dir.Views(), &f.BlobsBytes: dir.Blobs()} {
		if *size, err = folderSize(path); err != nil {
			d.note("%v", err)
		}
	}
	free, total, err := dir.Free()
	if err != nil {
		d.note("%v", err)
	}
	f.FreeBytes, f.TotalBytes, f.ReserveBytes = int64(free), int64(total), int64(watermark(total))
	if info, err := os.Lstat(dir.Ballast()); err == nil {
		f.BallastBytes = info.Size()
	}
}

// small notes a small file that cannot be read; one with other content than its
// writer's is evidence.
func (d *diagnosis) small(err error, what string) {
	switch {
	case errors.Is(err, datadir.ErrDamaged):
		d.damaged("%v", err)
	case errors.Is(err, fs.ErrNotExist):
		d.note("the folder has no %s", what)
	default:
		d.note("%v", err)
	}
}

func (d *diagnosis) readHead(dir *datadir.Dir) {
	h, err := dir.ReadHead()
	if errors.Is(err, fs.ErrNotExist) && d.Folder.Address == "" {
		return // no engine ever ran
	}
	if err != nil {
		d.small(err, "head")
		return
	}
	f := &d.Folder
	f.Head = &headState{Size: h.Size, Root: h.Root.String(), Time: h.Time}
	switch {
	case f.Incarnation == "":
		d.damaged("the folder has a head and no incarnation")
	case f.Incarnation != h.Incarnation:
		d.damaged("the head is of incarnation %s, the folder of %s", h.Incarnation, f.Incarnation)
	}
	// A start or verify that found no book leaves empty folders.
	if size, err := folderSize(dir.Nats()); h.Size > 0 && size == 0 && err == nil {
		d.damaged("the book is gone: the head knows %d events (first sequence in doubt: 1)", h.Size)
	}
}

// readKeys looks for secrets that are missing or that others may reach.
func (d *diagnosis) readKeys(dir *datadir.Dir) {
	if _, err := macKey(dir); err != nil {
		d.trouble("%v", err)
	}
	_ = filepath.WalkDir(dir.Keys(), func(path string, e fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = e.Info()
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			d.trouble("%v", err)
		case path == filepath.Join(dir.Keys(), "mac"): // looked at already
		case e.IsDir() && info.Mode().Perm()&0o077 != 0:
			d.trouble("others may enter the folder of keys %s, mode %04o: chmod 700 %[1]s", shellWord(path), info.Mode().Perm())
		case !e.IsDir() && !info.Mode().IsRegular():
			d.trouble("%s is not a file of its own, and is not taken as a key", events.Quote(path))
		case !e.IsDir() && info.Mode().Perm()&0o077 != 0:
			d.trouble("others may reach the key %s, mode %04o: chmod 600 %[1]s", shellWord(path), info.Mode().Perm())
		}
		return nil
	})
}

// locked says whether an engine holds the folder.
func locked(dir *datadir.Dir) (bool, error) {
	err := dir.Lock()
	if errors.Is(err, datadir.ErrLocked) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, dir.Unlock()
}

// toldRow is how it stands with one destination of alerts.
func (a *App) toldRow(d people.Destination) string {
	text := fmt.Sprintf("%d delivered, %d given up, %d wait", d.Delivered, d.GivenUp, d.Waiting)
	if d.Failure != "" {
		text += fmt.Sprintf("; last failure %s: %s", a.when(d.Failed), d.Failure)
	}
	return text
}

// serverRow is how it stands with one server of the catalog.
func serverRow(s upstream.Status) string {
	text := s.State
	switch {
	case s.State == "running":
		text += fmt.Sprintf(", %d tools", s.Tools)
		if s.Trusted {
			text += ", trusted"
		}
		if s.ReadOnly {
			text += ", as for phase 1"
		}
	case s.Asset != "" && s.Failure == "":
		text += ", asset " + string(s.Asset)
	}
	return text + orNothing("; ", s.Failure) + orNothing("; not offered: ", strings.Join(s.Left, "; "))
}

// installedRow is how it stands with the folder of one kind of what was proposed.
func installedRow(s install.Status) string {
	text := fmt.Sprintf("%d in %s", s.Installed, s.Folder) + orNothing("; ", s.Problem)
	if s.Strangers > 0 {
		text += fmt.Sprintf("; %d more that nobody approved: %s", s.Strangers, strings.Join(s.Foreign, ", "))
	}
	return text
}

func orNothing(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}
