package projections_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"gatebook/events"
	"gatebook/events/eventstest"
	"gatebook/projections"
)

// script folds facts one after the other into one store.
type script struct {
	t     *testing.T
	store *mapStore
	seq   events.Seq
}

func newScript(t *testing.T) *script {
	s := &script{t: t, store: newMapStore()}
	s.must("", events.EngineStarted{Incarnation: eventstest.ID[events.Incarnation](0), Version: "test"})
	s.must("alice", events.AgentEnrolled{Role: "worker", Key: "UA"})
	s.must("bob", events.AgentEnrolled{Role: "worker", Key: "UB"})
	s.must("alice", events.ConversationOpened{Conversation: "C1", Channel: "chat"})
	s.must("alice", begun("R1", "C1", 1))
	return s
}

func begun(round events.RoundID, c events.ConversationID, handle int) events.RoundBegun {
	return events.RoundBegun{Round: round, Conversation: c, Channel: "chat", HandleHash: eventstest.Digest(handle), Timeout: 60_000_000}
}

func decided(call events.CallID, step int64, v events.Verdict) events.CallDecided {
	d := events.CallDecided{Call: call, Round: "R1", Conversation: "C1", Step: step, Verdict: v,
		Tool: events.ToolKey{Owner: "builtin", Name: "file.read"}}
	if step == 0 {
		d.Conversation = ""
	}
	return d
}

func completed(call events.CallID, s events.Status) events.CallCompleted {
	return events.CallCompleted{Call: call, Round: "R1", Status: s, Executor: events.ByEngine}
}

func (s *script) fold(a events.AgentID, e events.Event) error {
	d := eventstest.Draft(int(s.seq)+1, a, e)
	r := events.Record{Seq: s.seq + 1, ID: d.ID, Subject: "s", Body: []byte("b")}
	err := applyOne(s.store, d, r)
	if err == nil {
		s.seq++
	}
	return err
}

func (s *script) must(a events.AgentID, e events.Event) {
	s.t.Helper()
	if err := s.fold(a, e); err != nil {
		s.t.Fatalf("%s: %v", e.Kind(), err)
	}
}

func (s *script) read() projections.Snapshot { return s.store.Snapshot() }

// What cannot be so after what the views hold is damage, never ignored.
func TestDamage(t *testing.T) {
	type step struct {
		agent events.AgentID
		event events.Event
	}
	for name, c := range map[string]struct {
		given []step
		bad   step
	}{
		"end of an unknown call":                {nil, step{"alice", completed("X", events.StatusOK)}},
		"end of a call that has ended":          {[]step{{"alice", decided("X", 1, events.Allow)}, {"alice", completed("X", events.StatusOK)}}, step{"alice", completed("X", events.StatusUnknown)}},
		"end of a refused call":                 {[]step{{"alice", decided("X", 1, events.Deny)}}, step{"alice", completed("X", events.StatusOK)}},
		"end of another agent's call":           {[]step{{"alice", decided("X", 1, events.Allow)}}, step{"bob", completed("X", events.StatusOK)}},
		"end without a status":                  {[]step{{"alice", decided("X", 1, events.Allow)}}, step{"alice", completed("X", "")}},
		"end with an unknown status":            {[]step{{"alice", decided("X", 1, events.Allow)}}, step{"alice", completed("X", "staged")}},
		"call decided twice":                    {[]step{{"alice", decided("X", 1, events.Deny)}}, step{"alice", decided("X", 2, events.Deny)}},
		"step left out":                         {nil, step{"alice", decided("X", 2, events.Deny)}},
		"step of another agent's round":         {nil, step{"bob", decided("X", 1, events.Deny)}},
		"call allowed outside a round":          {nil, step{"alice", decided("X", 0, events.Allow)}},
		"call of nobody":                        {nil, step{"", decided("X", 0, events.Deny)}},
		"release of a call that was not staged": {[]step{{"alice", decided("X", 1, events.Allow)}}, step{"alice", events.CallReleased{Call: "X", Round: "R1"}}},
		"release twice": {[]step{{"alice", decided("X", 1, events.Stage)}, {"alice", events.ReviewRequested{Review: "V", Call: "X", Round: "R1"}},
			{"alice", events.ReviewApproved{Review: "V", Call: "X"}}, {"alice", events.CallReleased{Call: "X", Round: "R1"}}},
			step{"alice", events.CallReleased{Call: "X", Round: "R1"}}},
		"release without a review": {[]step{{"alice", decided("X", 1, events.Stage)}}, step{"alice", events.CallReleased{Call: "X", Round: "R1"}}},
		"release before an approval": {[]step{{"alice", decided("X", 1, events.Stage)}, {"alice", events.ReviewRequested{Review: "V", Call: "X", Round: "R1"}}},
			step{"alice", events.CallReleased{Call: "X", Round: "R1"}}},
		"release of what was refused": {[]step{{"alice", decided("X", 1, events.Stage)}, {"alice", events.ReviewRequested{Review: "V", Call: "X", Round: "R1"}},
			{"alice", events.ReviewRefused{Review: "V", Call: "X"}}}, step{"alice", events.CallReleased{Call: "X", Round: "R1"}}},
		"end of a call that waits": {[]step{{"alice", decided("X", 1, events.Stage)}, {"alice", events.ReviewRequested{Review: "V", Call: "X", Round: "R1"}}},
			step{"alice", completed("X", events.StatusCancelled)}},
		"review of other arguments": {[]step{{"alice", decided("X", 1, events.Stage)}}, step{"alice", events.ReviewRequested{Review: "V", Call: "X", Round: "R1", MAC: "other"}}},
		"approval of other arguments": {[]step{{"alice", decided("X", 1, events.Stage)}, {"alice", events.ReviewRequested{Review: "V", Call: "X", Round: "R1"}}},
			step{"alice", events.ReviewApproved{Review: "V", Call: "X", MAC: "other"}}},
		"review of an allowed call": {[]step{{"alice", decided("X", 1, events.Allow)}}, step{"alice", events.ReviewRequested{Review: "V", Call: "X", Round: "R1"}}},
		"two reviews of a call": {[]step{{"alice", decided("X", 1, events.Stage)}, {"alice", events.ReviewRequested{Review: "V", Call: "X", Round: "R1"}}},
			step{"alice", events.ReviewRequested{Review: "W", Call: "X", Round: "R1"}}},
		"review decided twice": {[]step{{"alice", decided("X", 1, events.Stage)}, {"alice", events.ReviewRequested{Review: "V", Call: "X", Round: "R1"}},
			{"alice", events.ReviewExpired{Review: "V", Call: "X"}}}, step{"alice", events.ReviewApproved{Review: "V", Call: "X"}}},
		"review of another agent": {[]step{{"alice", decided("X", 1, events.Stage)}, {"alice", events.ReviewRequested{Review: "V", Call: "X", Round: "R1"}}},
			step{"bob", events.ReviewApproved{Review: "V", Call: "X"}}},
		"round begun twice":               {nil, step{"alice", begun("R1", "C1", 2)}},
		"second open round":               {nil, step{"alice", begun("R2", "C1", 2)}},
		"handle of another round":         {[]step{{"bob", events.ConversationOpened{Conversation: "C2"}}}, step{"bob", begun("R2", "C2", 1)}},
		"round in another's conversation": {nil, step{"bob", begun("R2", "C1", 2)}},
		"round in a closed conversation":  {[]step{{"bob", events.ConversationOpened{Conversation: "C2"}}, {"bob", events.ConversationClosed{Conversation: "C2"}}}, step{"bob", begun("R2", "C2", 2)}},
		"round of a released agent":       {[]step{{"bob", events.ConversationOpened{Conversation: "C2"}}, {"bob", events.AgentReleased{}}}, step{"bob", begun("R2", "C2", 2)}},
		"end of an unknown round":         {nil, step{"alice", events.RoundEnded{Round: "R9", End: events.RoundFailed}}},
		"end of an ended round":           {[]step{{"alice", events.RoundEnded{Round: "R1", End: events.RoundFailed}}}, step{"alice", events.RoundEnded{Round: "R1", End: events.RoundCompleted}}},
		"round ended as nothing":          {nil, step{"alice", events.RoundEnded{Round: "R1"}}},
		"taint of an unknown round":       {nil, step{"alice", events.RoundTainted{Round: "R9"}}},
		"conversation opened twice":       {nil, step{"alice", events.ConversationOpened{Conversation: "C1"}}},
		"conversation closed twice":       {[]step{{"alice", events.ConversationClosed{Conversation: "C1"}}}, step{"alice", events.ConversationClosed{Conversation: "C1"}}},
		"profile of a stranger":           {nil, step{"carol", events.ProfileSet{Profile: "owner"}}},
		"released id given again":         {[]step{{"bob", events.AgentReleased{}}}, step{"bob", events.AgentEnrolled{Role: "worker"}}},
		"child of another parent":         {[]step{{"kid", enrolledBy("alice")}}, step{"kid", events.ChildDeclared{Parent: "bob"}}},
		"policy for no child":             {nil, step{"bob", events.ChildDeclared{Parent: "alice"}}},
		"child taken over":                {[]step{{"kid", enrolledBy("alice")}}, step{"kid", enrolledBy("bob")}},
		"child set free":                  {[]step{{"kid", enrolledBy("alice")}}, step{"kid", enrolledBy("")}},
		"agent made a child":              {nil, step{"bob", enrolledBy("alice")}},
		"child of a stranger":             {nil, step{"kid", enrolledBy("carol")}},
		"child revoked by another":        {[]step{{"kid", enrolledBy("alice")}}, step{"kid", events.ChildRevoked{Parent: "bob"}}},
		"child revoked twice":             {[]step{{"kid", enrolledBy("alice")}, {"kid", events.ChildRevoked{Parent: "alice"}}}, step{"kid", events.ChildRevoked{Parent: "alice"}}},
		"revoked id given again":          {[]step{{"kid", enrolledBy("alice")}, {"kid", events.ChildRevoked{Parent: "alice"}}}, step{"kid", enrolledBy("alice")}},
		"round caused for a stranger":     {[]step{{"bob", events.ConversationOpened{Conversation: "C2"}}}, step{"bob", causedBy("R1")}},
		"round caused by another's": {[]step{{"kid", enrolledBy("bob")}, {"kid", events.ConversationOpened{Conversation: "C2"}}},
			step{"kid", causedBy("R1")}},
		"engine of another incarnation": {nil, step{"", events.EngineStarted{Incarnation: "OTHER"}}},
		"engine without an incarnation": {nil, step{"", events.EngineStarted{}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			for _, g := range c.given {
				s.must(g.agent, g.event)
			}
			before := fingerprint(t, s.store)
			err := s.fold(c.bad.agent, c.bad.event)
			var at *projections.EventError
			if !errors.Is(err, projections.ErrFold) || !errors.As(err, &at) || at.Seq != s.seq+1 {
				t.Fatalf("got %v", err)
			}
			same(t, "fingerprint", fingerprint(t, s.store), before)
		})
	}
}

func enrolledBy(parent events.AgentID) events.AgentEnrolled {
	return events.AgentEnrolled{Role: "worker", Parent: parent, Key: "UK"}
}

func causedBy(round events.RoundID) events.RoundBegun {
	r := begun("R2", "C2", 2)
	r.CausedBy = round
	return r
}

func TestChildLives(t *testing.T) {
	s := newScript(t)
	s.must("kid", enrolledBy("alice"))
	s.must("kid", events.ChildDeclared{Parent: "alice", Call: "X", Allow: "reading", Deny: "writes"})
	s.must("kid", events.ConversationOpened{Conversation: "C2"})
	s.must("kid", causedBy("R1"))
	round, _, err := projections.RoundByID(s.read(), "R2")
	ok(t, err)
	same(t, "cause", round.CausedBy, events.RoundID("R1"))
	row := func() projections.AgentRow {
		row, _, err := projections.AgentByID(s.read(), "kid")
		ok(t, err)
		return row
	}
	same(t, "policy", []string{row().ChildAllow, row().ChildDeny}, []string{"reading", "writes"})
	s.must("kid", events.ChildDeclared{Parent: "alice", Call: "Y"})
	same(t, "policy", []string{row().ChildAllow, row().ChildDeny}, []string{"", ""})
	s.must("kid", events.ProfileSet{Profile: "work"})
	s.must("kid", events.ChildRevoked{Parent: "alice", Call: "Z"})
	same(t, "released", row().Released, true)
	same(t, "longtime", row().Longtime, "")
}

func TestJobLast(t *testing.T) {
	s := newScript(t)
	last := func() events.Instant {
		at, _, err := projections.JobLast(s.read(), "nightly")
		ok(t, err)
		return at
	}
	same(t, "before", last(), events.Instant(0))
	s.must("", events.JobMissed{Job: "nightly"})
	same(t, "missed", last(), eventstest.Time(int(s.seq)))
	s.must("bob", events.ConversationOpened{Conversation: "C2"})
	r := begun("R2", "C2", 2)
	r.Job = "nightly"
	s.must("bob", r)
	same(t, "begun", last(), eventstest.Time(int(s.seq)))
}

func TestBookBeginsWithEngineStarted(t *testing.T) {
	s := &script{t: t, store: newMapStore()}
	if err := s.fold("alice", events.AgentEnrolled{Role: "worker"}); !errors.Is(err, projections.ErrFold) {
		t.Fatalf("got %v", err)
	}
}

func TestStateFollowsEngineEvents(t *testing.T) {
	s := newScript(t)
	s.must("", events.CatalogLoaded{Digest: "d1", ApprovedBy: "ada", Widens: true})
	s.must("", events.PhaseChanged{Phase: 2})
	s.must("", events.ClockJumped{})
	st := state(t, s.store)
	same(t, "state", st, projections.State{
		Seq: s.seq, Incarnation: eventstest.ID[events.Incarnation](0), Writer: eventstest.ID[events.WriterID](0),
		Catalog: "d1", ApprovedBy: "ada", Phase: 2, Time: eventstest.Time(int(s.seq)),
		LastEvent: eventstest.ID[events.EventID](int(s.seq)), ClockHeld: true, Shape: 8,
	})
	s.must("", events.ClockJumped{Accepted: true})
	same(t, "clock held", state(t, s.store).ClockHeld, false)
}

func TestRoundAndConversationLive(t *testing.T) {
	s := newScript(t)
	s.must("alice", events.ProfileSet{Profile: "owner"})
	s.must("alice", decided("X", 1, events.Stage))
	s.must("alice", events.RoundTainted{Round: "R1", Call: "X"})
	s.must("alice", events.ReviewRequested{Review: "V", Call: "X", Round: "R1"})
	s.must("alice", events.ReviewApproved{Review: "V", Call: "X"})
	s.must("alice", events.CallReleased{Call: "X", Round: "R1"})
	r := s.read()
	conversation, _, err := projections.ConversationByID(r, "C1")
	ok(t, err)
	same(t, "conversation", conversation, projections.ConversationRow{
		Conversation: "C1", Agent: "alice", Channel: "chat", Tainted: true, OpenRound: "R1", Seq: s.seq - 3,
	})
	open, err := projections.Rounds(r, projections.RoundFilter{OpenOnly: true, Agent: "alice"})
	ok(t, err)
	same(t, "open rounds", len(open.Rows), 1)
	call, _, err := projections.CallByID(r, "X")
	ok(t, err)
	same(t, "released", call.Released, eventstest.Time(int(s.seq)))
	same(t, "channel", call.Channel, events.ChannelID("chat"))

	s.must("alice", events.RoundEnded{Round: "R1", End: events.RoundCompleted})
	s.must("alice", completed("X", events.StatusOK)) // a staged call outlives its round
	s.must("alice", decided("Y", 2, events.Deny))    // and a late one is still a step
	s.must("alice", events.AgentReleased{})
	r = s.read()
	conversation, _, err = projections.ConversationByID(r, "C1")
	ok(t, err)
	same(t, "open round", conversation.OpenRound, events.RoundID(""))
	open, err = projections.Rounds(r, projections.RoundFilter{OpenOnly: true})
	ok(t, err)
	same(t, "open rounds", len(open.Rows), 0)
	receipt, _, err := projections.ReceiptByRound(r, "R1")
	ok(t, err)
	same(t, "receipt", receipt.ByStatus, []projections.Count{{Name: "denied", N: 1}, {Name: "ok", N: 1}})
	due, err := projections.Due(r, 1<<62, 10)
	ok(t, err)
	same(t, "due", len(due), 0)
	alice, _, err := projections.AgentByID(r, "alice")
	ok(t, err)
	same(t, "longtime", alice.Longtime, "")
	same(t, "released", alice.Released, true)
}

// Refused calls name tools as they like; the receipt stays small and right.
func TestReceiptIsBounded(t *testing.T) {
	s := newScript(t)
	const calls = projections.MaxReceiptTools + 30
	for i := range calls {
		d := decided(events.CallID(fmt.Sprint("X", i)), int64(i+1), events.NotFound)
		d.Tool.Name = fmt.Sprintf("made-up-%d", i)
		s.must("alice", d)
	}
	receipt, _, err := projections.ReceiptByRound(s.read(), "R1")
	ok(t, err)
	same(t, "tools", len(receipt.ByTool), projections.MaxReceiptTools+1)
	for _, c := range receipt.ByTool {
		if c.Tool == projections.Other {
			same(t, "others", c.N, int64(30))
		}
	}
}

func TestArgumentPreviewIsCutBetweenRunes(t *testing.T) {
	s := newScript(t)
	d := decided("X", 1, events.Deny)
	d.Arguments.Text = events.Plain(strings.Repeat("a", events.MaxPreview-1) + "é and more")
	s.must("alice", d)
	row, _, err := projections.CallByID(s.read(), "X")
	ok(t, err)
	same(t, "preview", row.ArgsPreview.Text, strings.Repeat("a", events.MaxPreview-1))
}

// A row of another shape is a broken store, never a row of zeros.
func TestForeignRow(t *testing.T) {
	s := newScript(t)
	tx := s.store.Begin()
	ok(t, tx.Set([]byte{1}, []byte{0x81, 0x01}))
	ok(t, tx.Commit())
	if _, err := projections.LoadState(s.read()); !errors.Is(err, projections.ErrShape) {
		t.Fatalf("got %v", err)
	}
	err := s.fold("alice", events.ProfileSet{})
	var at *projections.EventError
	if !errors.Is(err, projections.ErrStore) || errors.As(err, &at) {
		t.Fatalf("got %v", err)
	}
}

// Views that another program folded are not read, whatever their rows decode to.
func TestForeignShape(t *testing.T) {
	s := newScript(t)
	st := state(t, s.store)
	for _, shape := range []int{0, st.Shape - 1, st.Shape + 1} {
		st.Shape = shape
		raw, err := cbor.Marshal(st)
		ok(t, err)
		tx := s.store.Begin()
		ok(t, errors.Join(tx.Set([]byte{1}, raw), tx.Commit()))
		if _, err := projections.LoadState(s.read()); !errors.Is(err, projections.ErrShape) || !errors.Is(err, projections.ErrStore) {
			t.Errorf("shape %d: got %v", shape, err)
		}
	}
	same(t, "state of empty views", state(t, newMapStore()), projections.State{})
}

// A round counts the calls of a tool that were allowed, but for those that the
// tool itself refused: they did nothing.
func TestUsed(t *testing.T) {
	s := newScript(t)
	read, write := events.ToolKey{Owner: "builtin", Name: "file.read"}, events.ToolKey{Owner: "builtin", Name: "file.write"}
	used := func(tool events.ToolKey) int64 {
		t.Helper()
		row, _, err := projections.RoundByID(s.read(), "R1")
		ok(t, err)
		return row.UsedOf(tool)
	}
	step := int64(0)
	call := func(id events.CallID, tool events.ToolKey, v events.Verdict) {
		step++
		d := decided(id, step, v)
		d.Tool = tool
		s.must("alice", d)
	}
	for i, v := range []events.Verdict{events.Deny, events.Reject, events.NotFound} {
		call(events.CallID(fmt.Sprint("no", i)), write, v)
	}
	same(t, "refused", used(write), int64(0))
	call("a", write, events.Allow)
	same(t, "allowed counts before it ends", used(write), int64(1))
	call("b", read, events.Allow)
	call("c", write, events.Allow)
	same(t, "two", used(write), int64(2))
	same(t, "another tool", used(read), int64(1))
	same(t, "another owner", used(events.ToolKey{Owner: "mcp", Name: "file.write"}), int64(0))
	s.must("alice", completed("a", events.StatusDenied))
	same(t, "denied by the tool", used(write), int64(1))
	for i, status := range []events.Status{events.StatusOK, events.StatusError, events.StatusUnknown, events.StatusCancelled, events.StatusExpired} {
		id := events.CallID(fmt.Sprint("end", i))
		call(id, write, events.Allow)
		s.must("alice", completed(id, status))
		same(t, string(status), used(write), int64(2+i))
	}
	same(t, "the other tool still", used(read), int64(1))
}
