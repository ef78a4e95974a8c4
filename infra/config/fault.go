package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gatebook/events"
	"gatebook/policy"
)

// Fault is one thing wrong in a catalog file. Line and Col count from 1.
type Fault struct {
	File      string
	Line, Col int
	Text      string
}

func (f *Fault) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", events.Escape(f.File), f.Line, f.Col, f.Text)
}

// joined is an error that wraps policy.ErrCatalog and every fault; nil for none.
func joined(faults []*Fault) error { return listed(policy.ErrCatalog, faults) }

// listed is an error that wraps cause and every fault, in the order of the file.
func listed(cause error, faults []*Fault) error {
	if len(faults) == 0 {
		return nil
	}
	slices.SortStableFunc(faults, func(a, b *Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	all := make([]error, len(faults))
	for i, f := range faults {
		all[i] = f
	}
	return fmt.Errorf("%w:\n%w", cause, errors.Join(all...))
}

// place is a line and a column.
type place struct{ line, col int }

// located turns the faults of policy.Compile into faults with a place: that of
// their path, or of the nearest part above it that is written in the file.
func located(file string, places map[string]place, err error) error {
	var faults []*Fault
	for _, f := range faultsOf(err) {
		at := place{1, 1}
		for path := f.Path; path != ""; path = path[:max(0, strings.LastIndexByte(path, '.'))] {
			if p, ok := places[path]; ok {
				at = p
				break
			}
		}
		faults = append(faults, &Fault{File: file, Line: at.line, Col: at.col, Text: f.Error()})
	}
	if faults == nil {
		return err
	}
	return joined(faults)
}

func faultsOf(err error) []*policy.Fault {
	var out []*policy.Fault
	switch e := err.(type) { // one step only: the tree is walked here
	case *policy.Fault:
		out = append(out, e)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			out = append(out, faultsOf(inner)...)
		}
	}
	return out
}
