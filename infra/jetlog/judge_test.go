package jetlog

import (
	"errors"
	"slices"
	"testing"

	"gatebook/events"
	"gatebook/events/eventstest"
)

func TestJudge(t *testing.T) {
	ok := func(seq events.Seq) answer { return answer{came: true, seq: seq} }
	batch := func(seq events.Seq, count int) answer { return answer{came: true, seq: seq, count: count} }
	staged := answer{came: true, staged: true}
	refused := func(err error) answer { return answer{came: true, refused: err} }
	odd := answer{came: true, odd: events.ErrSettings}
	batchOf := func(n int) func(error, []answer, events.Seq) result {
		return func(cause error, answers []answer, after events.Seq) result {
			return judgeBatch(cause, answers, after, n)
		}
	}
	full, conflict := refused(events.ErrFull), refused(events.ErrConflict)
	for _, row := range []struct {
		name    string
		judge   func(error, []answer, events.Seq) result
		answers []answer
		want    result
	}{
		{"all", judgeSingles, []answer{ok(6), ok(7)}, result{stored: 2}},
		{"a prefix", judgeSingles, []answer{ok(6), full, conflict}, result{stored: 1, err: events.ErrFull}},
		{"none", judgeSingles, []answer{conflict, conflict}, result{err: events.ErrConflict}},
		{"a missing answer at the end", judgeSingles, []answer{ok(6), {}}, result{inDoubt: true, err: events.ErrUnavailable}},
		{"a missing answer before a stored one", judgeSingles, []answer{{}, ok(7)}, result{inDoubt: true, err: events.ErrUnavailable}},
		{"a missing answer behind a refused one", judgeSingles, []answer{conflict, {}}, result{inDoubt: true, err: events.ErrConflict}},
		{"stored behind a refused one", judgeSingles, []answer{ok(6), conflict, ok(8)}, result{inDoubt: true, err: events.ErrConflict}},
		{"stored elsewhere", judgeSingles, []answer{ok(9)}, result{inDoubt: true, err: events.ErrConflict}},
		{"another stream's answer", judgeSingles, []answer{ok(6), odd}, result{inDoubt: true, err: events.ErrSettings}},
		{"no acknowledgement", judgeSingles, []answer{staged}, result{inDoubt: true, err: events.ErrConflict}},
		{"a batch", batchOf(3), []answer{staged, batch(8, 3)}, result{stored: 3}},
		{"a batch of one", batchOf(1), []answer{batch(6, 1)}, result{stored: 1}},
		{"too few of a batch", batchOf(9), []answer{staged, batch(7, 2)}, result{inDoubt: true, err: events.ErrConflict}},
		{"a rejected batch", batchOf(2), []answer{staged, conflict}, result{err: events.ErrConflict}},
		{"a refused member says why", batchOf(2), []answer{full, refused(events.ErrUnavailable)}, result{err: events.ErrFull}},
		{"a commit without an answer", batchOf(2), []answer{staged, {}}, result{inDoubt: true, err: events.ErrUnavailable}},
		{"a member without an answer", batchOf(2), []answer{{}, batch(7, 2)}, result{stored: 2}},
		{"a part was not taken", batchOf(2), []answer{staged, refused(errIncomplete)}, result{err: events.ErrFull}},
		{"no room at the commit", batchOf(2), []answer{staged, full}, result{inDoubt: true, err: events.ErrFull}},
		{"stored elsewhere", batchOf(2), []answer{staged, batch(9, 2)}, result{inDoubt: true, err: events.ErrConflict}},
		{"another count", batchOf(2), []answer{staged, batch(7, 1)}, result{inDoubt: true, err: events.ErrConflict}},
		{"not committed", batchOf(2), []answer{staged, staged}, result{inDoubt: true, err: events.ErrConflict}},
		{"another stream's answer", batchOf(2), []answer{staged, odd}, result{inDoubt: true, err: events.ErrSettings}},
	} {
		got := row.judge(events.ErrUnavailable, row.answers, 5)
		sameErr := got.err == nil && row.want.err == nil || row.want.err != nil && errors.Is(got.err, row.want.err)
		if got.inDoubt != row.want.inDoubt || !got.inDoubt && got.stored != row.want.stored || !sameErr {
			t.Errorf("%s: %+v, want %+v", row.name, got, row.want)
		}
	}
}

func TestPlan(t *testing.T) {
	for _, row := range []struct {
		name  string
		sizes []int
		want  []int // records of each group; below zero: an atomic batch
	}{
		{"nothing", nil, nil},
		{"one", []int{1}, []int{1}},
		{"singles", []int{1, 1, 1, 1, 1, 1, 1, 1}, []int{8}},
		{"too many singles", []int{1, 1, 1, 1, 1, 1, 1, 1, 1}, []int{-9}},
		{"a decision of two", []int{1, 2}, []int{-3}},
		{"a decision is never split", []int{600, 500, 400, 101, 1000, 1}, []int{-600, -900, -101, -1000, 1}},
	} {
		groups, err := plan(eventstest.Decisions(t, 0, row.sizes...), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, g := range groups {
			n := len(g.records)
			if g.atomic {
				n = -n
			}
			got = append(got, n)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: groups %d, want %d", row.name, got, row.want)
		}
	}
}
