package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"gatebook/events"
	"gatebook/infra/jetlog"
	"gatebook/scripts/harness"
)

// prove asks verify and rebuild about the folder that the engine left, and looks for
// every answer in the book.
func (s *soak) prove(ctx context.Context, c *crew) error {
	var verified struct {
		OK     bool       `json:"ok"`
		Events events.Seq `json:"events"`
		Root   string     `json:"root"`
		Damage string     `json:"damage"`
	}
	if err := s.gatebook(ctx, "verify", &verified); err != nil {
		return err
	}
	var rebuilt struct {
		Events events.Seq `json:"events"`
		Root   string     `json:"root"`
		Equal  bool       `json:"equal"`
		Why    string     `json:"why"`
	}
	if err := s.gatebook(ctx, "rebuild", &rebuilt); err != nil {
		return err
	}
	switch {
	case !verified.OK:
		return fmt.Errorf("verify: %s", verified.Damage)
	case !rebuilt.Equal:
		return fmt.Errorf("the views are not what rebuild makes: %s", rebuilt.Why)
	case verified.Events != rebuilt.Events || verified.Root != rebuilt.Root:
		return fmt.Errorf("verify sees %d events with root %s, rebuild %d with %s", verified.Events, verified.Root, rebuilt.Events, rebuilt.Root)
	}
	ends, n, err := s.readEnds(ctx)
	if err != nil {
		return err
	}
	if n != verified.Events {
		return fmt.Errorf("the book holds %d events, verify saw %d", n, verified.Events)
	}
	var all []answered
	for _, a := range c.agents {
		all = append(all, a.answers...)
	}
	return missing(all, ends)
}

// gatebook runs a command on the folder and reads its answer.
func (s *soak) gatebook(ctx context.Context, command string, answer any) error {
	cmd := exec.CommandContext(ctx, s.binary, command, "--json", "--dir", s.folder.Path)
	cmd.Env = s.environ()
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("gatebook %s: %w: %s%s", command, err, out, complaint.Bytes())
	}
	if err := json.Unmarshal(out, answer); err != nil {
		return fmt.Errorf("gatebook %s: %w", command, err)
	}
	return nil
}

// readEnds reads how each call of the book ended, and counts its events. A second
// end of a call is an error.
func (s *soak) readEnds(ctx context.Context) (ends map[events.CallID]events.Status, n events.Seq, err error) {
	server, conn, err := harness.StartServer(filepath.Join(s.folder.Path, "nats"))
	if err != nil {
		return nil, 0, fmt.Errorf("open the book: %w", err)
	}
	defer func() { err = errors.Join(err, harness.Shutdown(server)) }()
	book, err := jetlog.Open(ctx, conn, jetlog.Config{})
	if err != nil {
		return nil, 0, err
	}
	ends = map[events.CallID]events.Status{}
	for record, err := range book.Read(ctx, 1) {
		if err != nil {
			return nil, n, err
		}
		one, err := events.Codec{}.Decode(record)
		if err != nil {
			return nil, n, err
		}
		n++
		id, status, ok := endOf(one.Event)
		if !ok {
			continue
		}
		if before, twice := ends[id]; twice {
			return nil, n, fmt.Errorf("call %s ended twice in the book: %s and %s", id, before, status)
		}
		ends[id] = status
	}
	return ends, n, nil
}

// endOf is the call that a fact ends.
func endOf(fact events.Event) (events.CallID, events.Status, bool) {
	switch fact := fact.(type) {
	case events.CallDecided:
		status, final := fact.Verdict.Final()
		return fact.Call, status, final
	case events.CallCompleted:
		return fact.Call, fact.Status, true
	}
	return "", "", false
}

// missing compares what was answered with what the book says.
func missing(all []answered, ends map[events.CallID]events.Status) error {
	var found []error
	wrong := 0
	seen := make(map[events.CallID]bool, len(all))
	note := func(format string, a ...any) {
		if wrong++; wrong <= 5 {
			found = append(found, fmt.Errorf(format, a...))
		}
	}
	for _, one := range all {
		switch status, there := ends[one.id]; {
		case seen[one.id]:
			note("call %s was the answer to two requests", one.id)
		case !there:
			note("call %s was answered %q and has no end in the book", one.id, one.status)
		case status != one.status:
			note("call %s was answered %q and ended as %q in the book", one.id, one.status, status)
		}
		seen[one.id] = true
	}
	if wrong > len(found) {
		found = append(found, fmt.Errorf("and %d more", wrong-len(found)))
	}
	return errors.Join(found...)
}
