package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"gatebook/events"
	"gatebook/infra/datadir"
	"gatebook/infra/jetlog"
	"gatebook/infra/pebblekv"
	"gatebook/projections/rebuild"
	"gatebook/scripts/harness"
)

// bigRows are the rows that need the big book.
var bigRows = []string{"rebuild-1m", "views-size", "page-1m", "totals-1m", "start-1m", "idle-memory"}

// bigRuns is how often what takes a minute is done at most.
const bigRuns = 3

// big measures what depends on how large a book is.
func (b *bench) big(ctx context.Context) error {
	b.note("writing a book of %d events", b.opt.events)
	began := time.Now()
	folder, err := b.bigBook(ctx, "big", b.opt.events)
	if err != nil {
		return err
	}
	b.note("that took %s; the first start folds it", time.Since(began).Round(time.Second))
	e, err := harness.StartWithin(ctx, bigStart, b.binary, folder, demoEngine...)
	if err == nil {
		err = e.Stop()
	}
	if err != nil {
		return err
	}
	if b.opt.wants("rebuild-1m", "views-size") {
		if err := b.rebuildBig(ctx, folder); err != nil {
			return err
		}
	}
	if b.opt.wants("page-1m", "totals-1m") {
		if err := b.queries(folder, began); err != nil {
			return err
		}
	}
	if b.opt.wants("start-1m", "idle-memory") {
		return b.startBig(ctx, folder)
	}
	return nil
}

// rebuildBig folds the big book into new views, beside only reading it, and lays their
// bytes beside those of the book.
func (b *bench) rebuildBig(ctx context.Context, folder string) (err error) {
	store := filepath.Join(folder, "nats")
	s, conn, err := harness.StartServer(store)
	if err != nil {
		return fmt.Errorf("open the book: %w", err)
	}
	defer func() { err = errors.Join(err, harness.Shutdown(s)) }()
	book, err := jetlog.Open(ctx, conn, jetlog.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, book.Close()) }()
	defer collectLess()()
	fold := row{Name: "rebuild-1m", Unit: "events/s", Better: higher, Details: map[string]int64{}}
	read := row{Name: "rebuild-1m-read", Unit: "events/s", Better: higher}
	size := row{Name: "views-size", Unit: "KiB", Better: lower}
	var bookSize []int64
	for i := range min(b.opt.runs, bigRuns) {
		raw, n, err := readBook(ctx, book)
		if err != nil {
			return err
		}
		views, folded, err := foldAndMeasure(ctx, book, filepath.Join(b.dir, fmt.Sprintf("rebuilt-big-%d", i)))
		if err != nil {
			return err
		}
		kept, err := bytesIn(store)
		if err != nil {
			return err
		}
		fold.Runs, read.Runs = append(fold.Runs, perSecond(n, folded)), append(read.Runs, perSecond(n, raw))
		size.Runs, bookSize = append(size.Runs, views>>10), append(bookSize, kept>>10)
		fold.Details["events"] = n
		b.note("rebuild of %d events: %s, only read: %s; %d MiB of views, %d MiB of book",
			n, folded.Round(time.Millisecond), raw.Round(time.Millisecond), views>>20, kept>>20)
	}
	fold.beside(read.Name, read.Unit, read.Runs)
	fold.target("at least 60,000 events/s", median(fold.Runs) >= 60_000)
	size.beside("book", "KiB", bookSize)
	size.target("at most 1.2 times the book", size.Ratio <= 1.2)
	for _, r := range []row{fold, read, size} {
		if b.opt.wants(fold.Name) && r.Name != size.Name || b.opt.wants(size.Name) && r.Name == size.Name {
			b.report.add(r)
		}
	}
	return nil
}

// foldAndMeasure gives how long it takes until new views are on the disk, and how many
// bytes they are once they are closed.
func foldAndMeasure(ctx context.Context, book *jetlog.Log, dir string) (size int64, took time.Duration, err error) {
	views, err := pebblekv.Open(dir, pebblekv.Options{Log: func(string) {}, Room: func() bool { return true }})
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	err = rebuild.Fold(ctx, book, events.Codec{}, views, rebuild.Options{})
	if err == nil {
		err = views.Sync()
	}
	took = time.Since(began)
	if err = errors.Join(err, views.Close()); err == nil {
		// An Open removes the logs that Pebble keeps to write over them, some of
		// tens of MiB, whatever the views are.
		if views, err = pebblekv.Open(dir, pebblekv.Options{Log: func(string) {}, Room: func() bool { return true }}); err == nil {
			err = views.Close()
		}
	}
	if err == nil {
		size, err = bytesIn(dir)
	}
	return size, took, errors.Join(err, os.RemoveAll(dir))
}

const (
	// bigStart is how long the first start, which folds everything, may take.
	bigStart = 15 * time.Minute
	// settleTime is how long an engine is left alone before its memory is read.
	settleTime = 5 * time.Second
)

// startBig is how long the binary takes until it is ready, beside the start of a server
// alone on the same store and that of the binary on a folder whose book is empty, and what
// it then holds without anything to do.
func (b *bench) startBig(ctx context.Context, folder string) error {
	ready := row{Name: "start-1m", Unit: "ms", Better: lower, Details: map[string]int64{}}
	idle := row{Name: "idle-memory", Unit: "KiB", Better: lower}
	var alone, empty, guard, more []int64
	for i := range min(b.opt.runs, bigRuns) + 1 {
		began := time.Now()
		s, _, err := harness.StartServer(filepath.Join(folder, "nats"))
		if err != nil {
			return err
		}
		server := time.Since(began)
		if err := harness.Shutdown(s); err != nil {
			return err
		}
		before, err := b.startEmpty(ctx, i)
		if err != nil {
			return err
		}
		copied, err := guardTime(folder)
		if err != nil {
			return err
		}
		began = time.Now()
		e, err := harness.StartWithin(ctx, bigStart, b.binary, folder, demoEngine...)
		if err != nil {
			return err
		}
		took := time.Since(began)
		held := int64(0)
		if b.opt.wants(idle.Name) {
			held, err = b.idle(ctx, e)
		}
		if err := errors.Join(err, e.Stop()); err != nil {
			return err
		}
		if i == 0 {
			continue // to get warm
		}
		ready.Runs, alone = append(ready.Runs, took.Milliseconds()), append(alone, server.Milliseconds())
		empty, guard, idle.Runs = append(empty, before.Milliseconds()), append(guard, copied.Milliseconds()), append(idle.Runs, held)
		more = append(more, (took - server - before - copied).Milliseconds())
		b.note("ready after %s, the server alone %s, with an empty book %s, a copy of the book %s; %d MiB idle", took.Round(time.Millisecond),
			server.Round(time.Millisecond), before.Round(time.Millisecond), copied.Round(time.Millisecond), held>>10)
	}
	ready.beside("server-start", "ms", alone)
	ready.Details["empty_ms"], ready.Details["guard_ms"], ready.Details["more_ms"] = median(empty), median(guard), median(more)
	ready.target("the views add at most 0.5 s to the server alone, an engine with an empty book and the copy that guards the book", median(more) <= 500)
	idle.target("under 300 MiB", median(idle.Runs) < 300<<10)
	for _, r := range []row{ready, idle} {
		if b.opt.wants(r.Name) {
			b.report.add(r)
		}
	}
	return nil
}

// startEmpty is how long the binary takes on a copy of the folder that has no calls.
func (b *bench) startEmpty(ctx context.Context, i int) (time.Duration, error) {
	folder, err := b.folder.CopyTo(b.dir, fmt.Sprintf("empty-%d", i))
	if err != nil {
		return 0, err
	}
	began := time.Now()
	e, err := harness.Start(ctx, b.binary, folder, demoEngine...)
	if err != nil {
		return 0, err
	}
	took := time.Since(began)
	return took, errors.Join(e.Stop(), os.RemoveAll(folder))
}

// guardTime is how long the copy of the store takes that a start makes before the server
// opens it, and its removal.
func guardTime(folder string) (time.Duration, error) {
	dir, err := datadir.Open(folder, false)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	g, err := dir.GuardBook(0, math.MaxUint64)
	if err == nil {
		err = g.Drop()
	}
	return time.Since(began), err
}

// idle is what an engine holds when it has had nothing to do for a while: the check of
// the book that follows a start has come to its end.
func (b *bench) idle(ctx context.Context, e *harness.Engine) (int64, error) {
	conn, views, err := b.folder.Reader(e)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	for checked := false; ; {
		timer := time.NewTimer(settleTime)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return 0, ctx.Err()
		}
		if checked {
			break
		}
		var health struct {
			Done events.Seq `json:"scrub_done"`
			Of   events.Seq `json:"scrub_of"`
		}
		if err := harness.Ask(ctx, conn, views+"health", struct{}{}, &health); err != nil {
			return 0, err
		}
		checked = health.Of > 0 && health.Done >= health.Of
	}
	now, _, err := e.Resident()
	return now, err
}
