package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"gatebook/events"
	"gatebook/infra/jetlog"
	"gatebook/infra/pebblekv"
	"gatebook/projections/rebuild"
	"gatebook/scripts/harness"
)

// rebuild folds the book that the engine of calls-256 left into new views, and
// reads it without doing anything as the yardstick. The engine must have ended.
func (b *bench) rebuild(ctx context.Context, folder string) error {
	s, conn, err := harness.StartServer(filepath.Join(folder, "nats"))
	if err != nil {
		return fmt.Errorf("open the book: %w", err)
	}
	defer func() { _ = harness.Shutdown(s) }() // nothing was written
	book, err := jetlog.Open(ctx, conn, jetlog.Config{})
	if err != nil {
		return err
	}
	defer collectLess()()
	fold := row{Name: "rebuild", Unit: "events/s", Better: higher}
	read := row{Name: "rebuild-read", Unit: "events/s", Better: higher}
	for i := range b.opt.runs + 1 {
		if i == 1 && b.opt.runs == 1 {
			break // a short run is the first one
		}
		raw, n, err := readBook(ctx, book)
		if err != nil {
			return err
		}
		if n < b.report.events {
			return fmt.Errorf("the book holds %d events, and the calls that were answered are %d", n, b.report.events)
		}
		folded, err := foldBook(ctx, book, filepath.Join(b.dir, fmt.Sprintf("rebuilt-%d", i)))
		if err != nil {
			return err
		}
		if i == 0 && b.opt.runs > 1 {
			continue // to get warm
		}
		fold.Runs, read.Runs = append(fold.Runs, perSecond(n, folded)), append(read.Runs, perSecond(n, raw))
		fold.Details = map[string]int64{"events": n}
		b.note("rebuild of %d events: %s, only read: %s", n, folded.Round(time.Millisecond), raw.Round(time.Millisecond))
	}
	fold.beside(read.Name, read.Unit, read.Runs)
	fold.target("at least 40,000 events/s", median(fold.Runs) >= 40_000)
	b.report.add(fold)
	b.report.add(read)
	return nil
}

// collectLess makes the garbage collector run as often as in the program, where GOGC does
// not say how often, and gives what undoes it.
func collectLess() (undo func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	was := debug.SetGCPercent(400)
	return func() { debug.SetGCPercent(was) }
}

func readBook(ctx context.Context, book *jetlog.Log) (time.Duration, int64, error) {
	began, n := time.Now(), int64(0)
	for _, err := range book.Read(ctx, 1) {
		if err != nil {
			return 0, 0, err
		}
		n++
	}
	return time.Since(began), n, nil
}

// foldBook gives how long it takes until new views are on the disk.
func foldBook(ctx context.Context, book *jetlog.Log, dir string) (took time.Duration, err error) {
	views, err := pebblekv.Open(dir, pebblekv.Options{Log: func(string) {}})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, views.Close(), os.RemoveAll(dir)) }()
	began := time.Now()
	if err := rebuild.Fold(ctx, book, events.Codec{}, views, rebuild.Options{}); err != nil {
		return 0, err
	}
	err = views.Sync()
	return time.Since(began), err
}
