package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/oklog/ulid/v2"

	"gatebook/events"
	"gatebook/infra/datadir"
	"gatebook/infra/jetlog"
	"gatebook/scripts/harness"
)

const (
	bigAgents = 50 // of those of the folder, who work in the big book
	bigTools  = 10
	bigDay    = 24 * time.Hour
	// bigRounds is how many rounds an agent has in an hour.
	bigRounds = 4
	// One of rareRounds rounds is of another visitor, with another profile, than all
	// others.
	rareRounds     = 50
	rareName       = "rare"
	usualPrincipal = "guest"
)

// bigBook makes a data folder with a book of about n events of the last 24 hours, as
// an engine would have written them: the folder's own first events, then the rounds
// and calls of 50 agents with ten tools. Half as many are calls. A first start of the
// binary makes the views.
func (b *bench) bigBook(ctx context.Context, name string, n int64) (folder string, err error) {
	if folder, err = b.folder.CopyTo(b.dir, name); err != nil {
		return "", err
	}
	dir, err := datadir.Open(folder, false)
	if err != nil {
		return "", err
	}
	inc, err := dir.ReadIncarnation()
	if err != nil {
		return "", err
	}
	first, err := eventsIn(ctx, dir.Nats())
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.RemoveAll(dir.Nats()), os.RemoveAll(dir.Views()), os.Remove(dir.Head())); err != nil {
		return "", err
	}
	s, conn, err := harness.StartServer(dir.Nats())
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, harness.Shutdown(s)) }()
	book, err := jetlog.Open(ctx, conn, jetlog.Config{Create: true, Incarnation: inc, Timeout: bound})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, book.Close()) }()
	return folder, writeBook(ctx, book, newWork(first, n))
}

// eventsIn reads the events of a store.
func eventsIn(ctx context.Context, store string) (all []events.Recorded, err error) {
	s, conn, err := harness.StartServer(store)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, harness.Shutdown(s)) }()
	book, err := jetlog.Open(ctx, conn, jetlog.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, book.Close()) }()
	for r, err := range book.Read(ctx, 1) {
		if err != nil {
			return nil, err
		}
		rec, err := events.Decode(r)
		if err != nil {
			return nil, err
		}
		all = append(all, rec)
	}
	return all, nil
}

// writeBook appends all that w gives, in full batches. The next is encoded meanwhile.
func writeBook(ctx context.Context, book *jetlog.Log, w *work) error {
	type full struct {
		decisions [][]events.Record
		err       error
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	batches := make(chan full, 2)
	go func() { // ends with ctx or with the work
		defer close(batches)
		for {
			decisions, err := w.batch()
			if len(decisions) == 0 && err == nil {
				return
			}
			select {
			case batches <- full{decisions, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	after := events.Seq(0)
	for b := range batches {
		err := b.err
		if err == nil {
			err = book.Append(ctx, after, b.decisions)
		}
		if err != nil {
			stop()
			for range batches {
			}
			return fmt.Errorf("write the big book after event %d: %w", after, err)
		}
		after += events.Seq(len(b.decisions))
	}
	return ctx.Err()
}

// work makes the events of the big book, always the same but for the times.
type work struct {
	first   []events.Recorded
	left    int64 // events to come
	step    time.Duration
	now     time.Time
	meta    events.Meta // that all events share
	random  *rand.Rand
	bytes   *rand.ChaCha8
	ids     ulid.MonotonicReader
	each    int64 // calls of a round
	workers []*busyAgent
	pending *events.Draft // the end of a call that runs
	out     [][]events.Record
	err     error
}

// busyAgent is an agent at work.
type busyAgent struct {
	id           events.AgentID
	conversation events.ConversationID
	round        events.RoundID
	steps        int64
	who, profile string // of the round
}

func newWork(first []events.Recorded, n int64) *work {
	seed := [32]byte{1}
	w := &work{
		first: first, left: n, step: bigDay / time.Duration(n+int64(len(first))+1), now: time.Now().Add(-bigDay),
		random: rand.New(rand.NewPCG(1, 2)), bytes: rand.NewChaCha8(seed), ids: ulid.Monotonic(rand.NewChaCha8([32]byte{2}), 0),
		each: max(10, n/2/(bigAgents*24*bigRounds)),
	}
	for i := range bigAgents {
		w.workers = append(w.workers, &busyAgent{id: harness.AgentID(i)})
	}
	return w
}

func bigID[T events.ULIDForm](w *work) T {
	id, err := ulid.New(ulid.Timestamp(w.now), w.ids)
	if err != nil {
		w.err = errors.Join(w.err, err)
	}
	return T(id.String())
}

func (w *work) digest() string {
	var raw [32]byte
	_, _ = w.bytes.Read(raw[:]) // it never fails
	return hex.EncodeToString(raw[:])
}

// batch gives the next events, as many as one atomic batch holds; none at the end.
func (w *work) batch() ([][]events.Record, error) {
	w.out = nil
	for _, rec := range w.first {
		w.meta.Writer, w.meta.Catalog = rec.Writer, rec.Catalog
		w.meta.Actor, w.meta.Cause = rec.Actor, ""
		w.write(rec.Agent, rec.Event)
	}
	if len(w.first) > 0 {
		last := w.first[len(w.first)-1]
		w.meta = events.Meta{Writer: last.Writer, Catalog: last.Catalog}
		w.first = nil
		return w.out, w.err
	}
	for w.err == nil && w.left > 0 && len(w.out) < events.MaxBatchEvents-8 {
		w.call(w.workers[w.random.IntN(len(w.workers))])
	}
	if w.left <= 0 && len(w.out) == 0 {
		return nil, w.err
	}
	if w.left <= 0 {
		w.finish()
	}
	return w.out, w.err
}

// finish ends what is open, so that a start has nothing to do but to start.
func (w *work) finish() {
	w.complete()
	for _, a := range w.workers {
		if a.round != "" && len(w.out) < events.MaxBatchEvents {
			w.end(a)
		}
	}
}

func (w *work) write(agent events.AgentID, e events.Event) {
	w.now = w.now.Add(w.step)
	meta := w.meta
	meta.ID, meta.Time, meta.Agent = bigID[events.EventID](w), events.InstantOf(w.now), agent
	r, err := events.Encode(events.Draft{Meta: meta, Event: e})
	w.err = errors.Join(w.err, err)
	w.out = append(w.out, []events.Record{r})
	w.left--
}

func (w *work) end(a *busyAgent) {
	w.meta.Actor = events.Actor{Kind: events.ActorChannel, ID: string(harness.ChannelID)}
	w.write(a.id, events.RoundEnded{Round: a.round, End: events.RoundCompleted})
	a.round, a.steps = "", 0
}

func (w *work) begin(a *busyAgent) {
	w.meta.Actor = events.Actor{Kind: events.ActorChannel, ID: string(harness.ChannelID)}
	if a.conversation == "" {
		a.conversation = bigID[events.ConversationID](w)
		w.write(a.id, events.ConversationOpened{Conversation: a.conversation, Channel: harness.ChannelID})
	}
	a.round, a.who, a.profile = bigID[events.RoundID](w), usualPrincipal, "bench"
	if w.random.IntN(rareRounds) == 0 {
		a.who, a.profile = rareName, rareName
	}
	w.write(a.id, events.RoundBegun{
		Round: a.round, Conversation: a.conversation, Channel: harness.ChannelID, HandleHash: events.Digest(w.digest()),
		Principal: events.Principal{ID: a.who, Kind: events.PrincipalUser}, Sender: events.Plain("bench"),
		Effective: a.profile, Task: events.Plain("go through the reports of the quarter and say what changed"),
		Model: events.Model{Name: "large-1", Known: "claimed"}, Timeout: events.Micros(time.Hour / time.Microsecond),
	})
}

// call is one call, after which the one before it ends.
func (w *work) call(a *busyAgent) {
	if a.round != "" && a.steps >= w.each {
		w.complete()
		w.end(a)
	}
	if a.round == "" {
		w.begin(a)
	}
	a.steps++
	d := w.decided(a)
	w.meta.Actor = events.Actor{Kind: events.ActorAgent, ID: string(a.id)}
	w.write(a.id, d)
	w.complete()
	if d.Verdict == events.Allow {
		w.pending = &events.Draft{Meta: events.Meta{Agent: a.id}, Event: w.completed(d)}
	}
}

func (w *work) complete() {
	if w.pending != nil {
		w.meta.Actor = events.Engine()
		w.write(w.pending.Agent, w.pending.Event)
		w.pending = nil
	}
}

func (w *work) decided(a *busyAgent) events.CallDecided {
	tool := w.random.IntN(bigTools)
	args := fmt.Sprintf(`{"path":"reports/2026/quarter-%d/summary-%d.md","offset":0,"limit":65536}`, w.random.IntN(4), w.random.IntN(5000))
	d := events.CallDecided{
		Call: bigID[events.CallID](w), Round: a.round, Conversation: a.conversation, Step: a.steps, Key: fmt.Sprintf("call-%d", a.steps),
		Tool: events.ToolKey{Owner: "builtin", Name: fmt.Sprintf("demo.tool%d", tool)}, Definition: events.DigestOf([]byte{byte(tool)}),
		Arguments: events.Arguments{Text: events.Plain(args), Size: int64(len(args)), MAC: events.MAC(w.digest())},
		Verdict:   events.Allow, Tier: events.ReadOnly, Profile: a.profile,
		Principal: events.Principal{ID: a.who, Kind: events.PrincipalUser},
		Facts: events.CallFacts{
			Phase: 2, Role: "bench", RoleVersion: 1, SessionProfile: "bench", RoundOpen: true, HandleMatched: true, Used: a.steps / bigTools,
		},
	}
	switch n := w.random.IntN(100); {
	case n < 8:
		d.Verdict, d.Layer, d.Rule, d.Reason = events.Deny, events.LayerRole, "grants", "the role bench does not grant this tool"
	case n < 10:
		d.Verdict, d.Layer, d.Rule, d.Reason = events.NotFound, events.LayerTool, "known", "there is no tool of that name"
	}
	return d
}

func (w *work) completed(d events.CallDecided) events.CallCompleted {
	e := events.CallCompleted{
		Call: d.Call, Round: d.Round, Status: events.StatusOK, Duration: events.Micros(200 + w.random.IntN(5000)), Executor: events.ByEngine,
		Result: events.Result{
			Size: int64(500 + w.random.IntN(4000)), MAC: events.MAC(w.digest()),
			Preview: events.Plain(fmt.Sprintf(`{"path":"summary.md","size":%d,"text":"# Summary of the quarter\n\nRevenue grew by %d; costs did not."}`,
				w.random.IntN(4000), w.random.IntN(1000))),
		},
	}
	if w.random.IntN(100) < 4 {
		e.Status, e.Error, e.Result = events.StatusError, "no such file: summary.md", events.Result{}
	}
	return e
}

// bytesIn is the size of all files below a folder.
func bytesIn(folder string) (sum int64, err error) {
	err = filepath.WalkDir(folder, func(_ string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}
