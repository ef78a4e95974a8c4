package views_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/handlers/engine"
	"gatebook/handlers/integrity"
	"gatebook/handlers/views"
	"gatebook/infra/pebblekv"
	"gatebook/projections"
	"gatebook/projections/projectionstest"
	"gatebook/projections/rebuild"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openStore(t *testing.T) *pebblekv.Store {
	t.Helper()
	s, err := pebblekv.Open("views", pebblekv.Options{FS: vfs.NewMem()})
	check(t, err)
	return s
}

func fold(t *testing.T, s projections.Store, book projectionstest.Book) {
	t.Helper()
	check(t, rebuild.Fold(t.Context(), book, events.Codec{}, s, rebuild.Options{}))
}

// bench is a builder and what it works on. Its loop is still, and hands over at once.
type bench struct {
	t      *testing.T
	drafts []events.Draft
	book   projectionstest.Book
	old    *pebblekv.Store
	live   *rebuild.Live
	head   integrity.Head
	room   error
	// pause, where not nil, runs when the loop pauses; last is where the loop then is.
	pause     func()
	last      events.Seq
	forgetErr error

	mu                       sync.Mutex
	adopted, dropped, forgot int
	alerts                   []string
	damage                   []error
}

func newBench(t *testing.T) *bench {
	drafts := projectionstest.Busy(2)
	b := &bench{t: t, drafts: drafts, book: projectionstest.NewBook(t, drafts), old: openStore(t)}
	fold(t, b.old, b.book)
	b.live = rebuild.NewLive(b.old)
	var err error
	b.head, err = integrity.Tip(b.old)
	check(t, err)
	b.last = b.head.Size
	return b
}

// Submit is the loop's.
func (b *bench) Submit(_ context.Context, c engine.Command) error {
	switch c := c.(type) {
	case *engine.Exchange:
		if b.pause != nil {
			b.pause()
		}
		c.Done(c.Switch(b.last))
	case engine.Note:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.alerts = append(b.alerts, c.Fact.(events.AlertRaised).Alert)
	}
	return nil
}

func (b *bench) build() (views.Building, error) {
	store := openStore(b.t)
	count := func(n *int) {
		b.mu.Lock()
		defer b.mu.Unlock()
		*n++
	}
	return views.Building{
		Store: store, Name: "new",
		Adopt:  func(bool) (string, error) { count(&b.adopted); return "old", nil },
		Drop:   func() error { count(&b.dropped); return store.Close() },
		Forget: func(string) error { count(&b.forgot); return b.forgetErr },
	}, nil
}

// source is the bench's book as it is now.
type source struct{ b *bench }

func (s source) Read(ctx context.Context, from events.Seq) iter.Seq2[events.Record, error] {
	return s.b.book.Read(ctx, from)
}

// run rebuilds once.
func (b *bench) run() views.Status {
	b.t.Helper()
	builder := views.New(views.Config{
		Book: source{b}, Live: b.live, Head: func() integrity.Head { return b.head }, Build: b.build, Loop: b,
		Damaged: func(err error) { b.damage = append(b.damage, err) }, Room: func() error { return b.room }, Now: time.Now,
	})
	ctx, stop := context.WithCancel(b.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		builder.Run(ctx)
	}()
	check(b.t, builder.Start())
	for builder.Status().Working() {
		timer := time.NewTimer(time.Millisecond)
		<-timer.C
	}
	stop()
	<-ended
	check(b.t, b.live.Close())
	return builder.Status()
}

// changeRow makes a row that no book gives.
func (b *bench) changeRow() {
	tx := b.old.Begin()
	check(b.t, errors.Join(tx.Set([]byte{3, 'x'}, []byte("x")), tx.Commit()))
}

// Whatever ends a rebuild before the exchange, the old views stay in use and the new
// ones are dropped.
func TestOldViewsStay(t *testing.T) {
	for name, row := range map[string]struct {
		spoil  func(*bench)
		why    string
		damage bool
	}{
		"the book does not extend the head": {func(b *bench) { b.head.Root[0]++ }, "root", true},
		"the volume has no room":            {func(b *bench) { b.room = errors.New("the volume is full") }, "the volume is full", false},
		"the book ends before the loop":     {func(b *bench) { b.last += 5 }, "the new views end at", false},
		"an event does not decode":          {func(b *bench) { b.book[40].Body = []byte("{") }, "", true},
		"the book ends before the views":    {func(b *bench) { b.book = b.book[:len(b.book)-3] }, "the book ends at", true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			row.spoil(b)
			s := b.run()
			if s.State != views.Failed || s.Damage != row.damage || !strings.Contains(s.Failure, row.why) {
				t.Errorf("status %+v", s)
			}
			if (len(b.damage) == 1) != row.damage {
				t.Errorf("the engine was told of damage %q", b.damage)
			}
			if b.adopted != 0 || b.dropped != 1 || b.forgot != 0 || len(b.alerts) != 0 {
				t.Errorf("adopted %d, dropped %d, forgot %d, alerts %v", b.adopted, b.dropped, b.forgot, b.alerts)
			}
		})
	}
}

// Views that are not what the book says are an alert, also where they stay in use.
func TestUnequalIsAnAlert(t *testing.T) {
	b := newBench(t)
	b.changeRow()
	b.last += 5
	if s := b.run(); s.State != views.Failed || len(b.alerts) != 1 {
		t.Errorf("status %+v, alerts %v", s, b.alerts)
	}
}

// New views are in use, and what became of the old ones is said.
func TestNewViewsAreUsed(t *testing.T) {
	for name, row := range map[string]struct {
		spoil   func(*bench)
		equal   bool
		why     string
		trouble string
	}{
		"equal":             {func(*bench) {}, true, "", ""},
		"a row was changed": {(*bench).changeRow, false, "fingerprint", ""},
		"they do not go":    {func(b *bench) { b.forgetErr = errors.New("the folder stays") }, true, "", "the folder stays"},
		"changed, no close": {func(b *bench) { b.changeRow(); b.old.Snapshot() }, false, "fingerprint", "snapshots"},
		"the tree is another": {func(b *bench) {
			more := eventstest.Encode(b.t, eventstest.Draft(len(b.book)+1000, "", events.PhaseChanged{Phase: 1}))
			other := eventstest.Draft(len(b.book)+1000, "", events.PhaseChanged{Phase: 2})
			more.Seq = events.Seq(len(b.book) + 1)
			b.last = more.Seq
			b.pause = func() {
				tx := b.live.Begin()
				r := eventstest.Encode(b.t, other)
				check(b.t, projections.Apply(tx, events.Recorded{Draft: other, Seq: more.Seq}, r))
				check(b.t, tx.Commit())
				b.book = append(b.book, more)
			}
		}, false, "their tree was another one", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			row.spoil(b)
			s := b.run()
			if s.State != views.Done || s.Result == nil {
				t.Fatalf("status %+v", s)
			}
			r := *s.Result
			if !r.Compared || r.Equal != row.equal || !strings.Contains(r.Why, row.why) || !strings.Contains(r.Trouble, row.trouble) || (row.trouble == "") != (r.Trouble == "") {
				t.Errorf("result %+v", r)
			}
			alerts, kept := 1, "old"
			if row.equal {
				alerts, kept = 0, ""
			}
			if b.adopted != 1 || b.dropped != 0 || len(b.alerts) != alerts || r.Kept != kept {
				t.Errorf("adopted %d, dropped %d, alerts %v, kept %q", b.adopted, b.dropped, b.alerts, r.Kept)
			}
		})
	}
}
