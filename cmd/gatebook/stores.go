package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"gatebook/events"
	"gatebook/handlers/integrity"
	"gatebook/infra/datadir"
	"gatebook/infra/jetlog"
	"gatebook/infra/pebblekv"
	"gatebook/projections"
	"gatebook/projections/rebuild"
)

// stores are the book and its views, opened and compared.
type stores struct {
	dir         *datadir.Dir
	incarnation events.Incarnation
	views       *pebblekv.Store
	live        *rebuild.Live // views, for a running engine, which may exchange them
	folder      string        // of the views
	fresh       bool          // folder is new and not in use before adopt
	aside       string        // a folder of views that did not open, for adopt to set aside
	warnings    []string
	rebuilt     string // why the views were built anew; empty where they were not

	mu   sync.Mutex
	log  *jetlog.Log
	head integrity.Head // as last written
}

// openStores opens the book and the views, compares them with each other and
// with the head, and folds what the views lack. Views that are new are in use
// only after adopt.
func openStores(ctx context.Context, cfg nodeConfig, b *bus) (_ *stores, err error) {
	s := &stores{dir: cfg.dir}
	defer func() {
		if err != nil {
			_ = s.close()
		}
	}()
	if s.incarnation, err = cfg.dir.ReadIncarnation(); err != nil {
		return nil, fmt.Errorf("the folder has no incarnation: %w", err)
	}
	if s.head, err = headOf(cfg.dir); err != nil {
		return nil, err
	}
	if err := s.openViews(cfg); err != nil {
		return nil, err
	}
	empty := s.empty()
	if empty && s.head.Size > 0 && s.rebuilt == "" {
		s.rebuild("the views were gone")
	}
	if s.head.Size == 0 && !empty {
		s.warnings = append(s.warnings, "the folder has no head: nothing could be compared with how far the book last went")
	}
	if err := s.openLog(ctx, b, s.head.Size == 0 && empty); err != nil {
		return nil, err
	}
	_, err = s.catchUp(ctx, cfg)
	if errors.Is(err, projections.ErrStore) && !s.fresh {
		// They open, but rows are missing or do not decode.
		if err = s.replaceViews(cfg, err); err == nil {
			_, err = s.catchUp(ctx, cfg)
		}
	}
	if err != nil {
		return nil, err // s is closed
	}
	return s, nil
}

func (s *stores) headNow() integrity.Head {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head
}

func (s *stores) setHead(h integrity.Head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.head = h
}

func (s *stores) empty() bool {
	tip, err := integrity.Tip(s.views)
	return err == nil && tip.Size == 0
}

// openLog opens the book; only a folder that never had one gets a new one.
func (s *stores) openLog(ctx context.Context, b *bus, fresh bool) error {
	log, err := jetlog.Open(ctx, b.book(), jetlog.Config{Create: fresh, Incarnation: s.incarnation})
	if errors.Is(err, jetlog.ErrNoStream) {
		return &integrity.Damage{Seq: 1, Reason: "the book is gone: its store is empty and the head or the views have seen events"}
	}
	if err != nil {
		return err
	}
	state, err := log.State(ctx)
	if err != nil && !errors.Is(err, events.ErrGap) {
		return errors.Join(err, log.Close())
	}
	if state.Incarnation != s.incarnation {
		_ = log.Close()
		return &integrity.Damage{Reason: fmt.Sprintf("the book is another one: its incarnation is %s, the folder's is %s",
			events.Quote(string(state.Incarnation)), s.incarnation)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = log
	return nil
}

// catchUp compares, folds, and compares the tree with the head: before the fold
// where the views have come so far, so that a start that is refused folds nothing. It
// says how long the fold alone took.
func (s *stores) catchUp(ctx context.Context, cfg nodeConfig) (took time.Duration, err error) {
	if err := s.compare(ctx, cfg); err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := fold(ctx, s.book(), s.views, cfg.progress); err != nil {
		return 0, err
	}
	took = time.Since(begun)
	snap := s.views.Snapshot()
	defer snap.Close()
	return took, integrity.CheckRoot(snap, s.head)
}

// compare is the check of a start, before anything is folded.
func (s *stores) compare(ctx context.Context, cfg nodeConfig) error {
	snap := s.views.Snapshot()
	defer snap.Close()
	err := integrity.Check(ctx, s.book(), snap, s.head, cfg.verify, func(done, of events.Seq) { cfg.progress("verify", done, of) })
	if err != nil {
		return err
	}
	known, err := projections.LoadState(snap)
	if err != nil || known.Seq < s.head.Size {
		return err
	}
	return integrity.CheckRoot(snap, s.head)
}

// fold folds what the views lack; an event that cannot be folded is evidence of
// damage.
func fold(ctx context.Context, book events.Log, views projections.Store, progress func(what string, done, of events.Seq)) error {
	state, err := book.State(ctx)
	if err != nil {
		return err
	}
	err = rebuild.Fold(ctx, book, events.Codec{}, views, rebuild.Options{
		Progress: func(at events.Seq) { progress("fold", at, state.Last) },
	})
	var bad *projections.EventError
	if errors.As(err, &bad) {
		return &integrity.Damage{Seq: bad.Seq, Reason: bad.Error()}
	}
	if errors.Is(err, events.ErrGap) || errors.Is(err, projections.ErrOrder) {
		return &integrity.Damage{Reason: err.Error()}
	}
	return err
}

// reopen opens the book again after a restart of its server, with the checks of
// a start.
func (s *stores) reopen(ctx context.Context, b *bus) error {
	s.mu.Lock()
	old := s.log
	s.mu.Unlock()
	_ = old.Close()
	if err := s.openLog(ctx, b, false); err != nil {
		return err
	}
	snap := s.views.Snapshot()
	defer snap.Close()
	return integrity.Check(ctx, s.book(), snap, s.headNow(), false, nil)
}

// book is the log as it is now.
func (s *stores) book() events.Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log
}

// currentBook is a log that is always the one of now.
type currentBook struct{ s *stores }

func (c currentBook) Append(ctx context.Context, after events.Seq, d [][]events.Record) error {
	return c.s.book().Append(ctx, after, d)
}

func (c currentBook) Ahead(after events.Seq, d [][]events.Record) { c.s.book().Ahead(after, d) }

func (c currentBook) Read(ctx context.Context, from events.Seq) iter.Seq2[events.Record, error] {
	return c.s.book().Read(ctx, from)
}

func (c currentBook) State(ctx context.Context) (events.LogState, error) {
	return c.s.book().State(ctx)
}

// The views live in a folder of their own below views/; the file CURRENT names
// the one in use, so that a rebuilt one takes over in one step.

func viewsPointer(dir *datadir.Dir) string { return filepath.Join(dir.Views(), "CURRENT") }

// viewsFolder is the folder in use; the error wraps fs.ErrNotExist where there is
// none yet, and datadir.ErrDamaged where the file names none.
func viewsFolder(dir *datadir.Dir) (string, error) {
	raw, err := os.ReadFile(viewsPointer(dir))
	if err != nil {
		return "", err
	}
	name, ended := strings.CutSuffix(string(raw), "\n")
	if !ended || filepath.Base(name) != name || !strings.HasPrefix(name, "db-") {
		return "", fmt.Errorf("%w: %s names no view folder", datadir.ErrDamaged, viewsPointer(dir))
	}
	return filepath.Join(dir.Views(), name), nil
}

// newViews opens a new view database, which is in use once useViews has named it.
func newViews(dir *datadir.Dir, opt pebblekv.Options) (*pebblekv.Store, string, error) {
	id, err := newULID[events.EventID](time.Now(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	folder := filepath.Join(dir.Views(), "db-"+string(id))
	if err := os.MkdirAll(dir.Views(), 0o700); err != nil {
		return nil, "", err
	}
	if err := datadir.WriteFile(unfinished(folder), nil); err != nil {
		return nil, "", err
	}
	views, err := pebblekv.Open(folder, opt)
	if err != nil {
		return nil, "", errors.Join(err, removeViews(folder))
	}
	return views, folder, nil
}

// unfinished is a file that is there while its view folder is being built, so
// that what a killed process leaves is told from views that were set aside.
func unfinished(folder string) string {
	return filepath.Join(filepath.Dir(folder), "building-"+filepath.Base(folder))
}

func removeViews(folder string) error {
	return errors.Join(os.RemoveAll(folder), os.RemoveAll(unfinished(folder)))
}

// removeUnfinished removes the view folders that no process finished, and files. Where it
// cannot be read which folder is in use it removes none.
func removeUnfinished(dir *datadir.Dir) error {
	half, err := filepath.Glob(filepath.Join(dir.Views(), ".new-*"))
	for _, file := range half {
		err = errors.Join(err, os.Remove(file))
	}
	files, badly := filepath.Glob(filepath.Join(dir.Views(), "building-db-*"))
	err = errors.Join(err, badly)
	current, unread := viewsFolder(dir)
	switch {
	case errors.Is(unread, datadir.ErrDamaged): // who opens the views says so
		return err
	case unread != nil && !errors.Is(unread, fs.ErrNotExist):
		return errors.Join(err, unread)
	}
	for _, file := range files {
		folder := filepath.Join(dir.Views(), strings.TrimPrefix(filepath.Base(file), "building-"))
		if folder == current { // adopted, and then killed
			err = errors.Join(err, os.Remove(file))
			continue
		}
		err = errors.Join(err, removeViews(folder))
	}
	return err
}

// useViews makes the folder the one in use.
func useViews(dir *datadir.Dir, folder string) error {
	return datadir.WriteFile(viewsPointer(dir), []byte(filepath.Base(folder)+"\n"))
}

func viewsOptions(cfg nodeConfig) pebblekv.Options {
	return pebblekv.Options{
		Log:  func(text string) { cfg.log("warn", "views: "+firstLine(text)) },
		Full: func() { untilSpace(cfg.stop, cfg.dir) },
		Room: func() bool { return room(cfg.dir) == nil },
	}
}

// openViews opens the views. In the place of a database that does not open comes
// a new one, to be folded from the book; the old one stays as it is until the new
// one is adopted.
func (s *stores) openViews(cfg nodeConfig) error {
	if err := removeUnfinished(cfg.dir); err != nil {
		cfg.log("warn", "what a killed process left: "+err.Error())
	}
	folder, err := viewsFolder(cfg.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, datadir.ErrDamaged):
		s.rebuild("the views were not found: " + err.Error())
	case err != nil:
		return err
	case !exists(folder):
		s.rebuild("the views were gone")
	default:
		s.folder = folder
		s.views, err = pebblekv.Open(folder, viewsOptions(cfg))
		if !errors.Is(err, pebblekv.ErrDamaged) {
			return err
		}
		s.aside = folder
		why := "the view database did not open: " + err.Error()
		if errors.Is(err, projections.ErrShape) {
			why = "the views are those of another version of the program"
		}
		s.rebuild(why)
	}
	s.views, s.folder, err = newViews(cfg.dir, viewsOptions(cfg))
	s.fresh = err == nil
	return err
}

// replaceViews takes new views in the place of open ones that cannot be read.
func (s *stores) replaceViews(cfg nodeConfig, why error) error {
	s.rebuild("the view database cannot be read: " + why.Error())
	s.aside = s.folder
	err := s.views.Close()
	if err != nil {
		cfg.log("warn", "the old views: "+err.Error())
	}
	s.views, s.folder, err = newViews(cfg.dir, viewsOptions(cfg))
	s.fresh = err == nil
	return err
}

func (s *stores) rebuild(why string) {
	s.rebuilt = why
	s.warnings = append(s.warnings, why+"; they were built anew from the book")
}

// adopt puts new views in use, once they are proven, and sets those aside that
// did not open. They are never deleted.
func (s *stores) adopt() error {
	if !s.fresh {
		return nil
	}
	err := s.views.Sync()
	if err == nil {
		err = useViews(s.dir, s.folder)
	}
	if err != nil {
		return err
	}
	s.fresh = false
	_ = os.Remove(unfinished(s.folder)) // they are in use; the next start removes what is left of this
	if s.aside == "" {
		return nil
	}
	return pebblekv.SetAside(s.aside, filepath.Base(s.folder))
}

func (s *stores) close() error {
	var errs []error
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	if s.views != nil {
		errs = append(errs, s.views.Close())
	}
	if s.fresh {
		errs = append(errs, removeViews(s.folder))
	}
	return errors.Join(errs...)
}

// newULID makes an id outside of the loop.
func newULID[T events.ULIDForm](now time.Time, entropy io.Reader) (T, error) {
	u, err := ulid.New(ulid.Timestamp(now), entropy)
	if err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return T(u.String()), nil
}

// checkpoint is how far the views are; 0 where that cannot be read.
func (s *stores) checkpoint() events.Seq {
	snap := s.live.Snapshot()
	defer snap.Close()
	state, err := projections.LoadState(snap)
	if err != nil {
		return 0
	}
	return state.Seq
}

// alertsAfter are the alerts above a sequence, a page of them.
func (s *stores) alertsAfter(at events.Seq) ([]projections.AlertRow, error) {
	snap := s.live.Snapshot()
	defer snap.Close()
	return projections.Alerts(snap, at, 0)
}
