package datadir

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/tlog"

	"gatebook/events"
)

// Head is the Merkle tree of the book as the engine last knew it. It is kept
// beside the stores, so that a store that was set back is found at the start.
type Head struct {
	Incarnation events.Incarnation `json:"incarnation"`
	// Size is the number of leaves, which is the last sequence.
	Size events.Seq `json:"size"`
	Root tlog.Hash  `json:"root"`
	// Time is the wall clock's at the writing, for people; nothing depends on it.
	Time events.Instant `json:"time"`
}

// WriteHead replaces the head file.
func (d *Dir) WriteHead(h Head) error {
	text, err := encodeHead(h)
	if err != nil {
		return fmt.Errorf("head: %w", err)
	}
	return WriteFile(d.Head(), text)
}

// ReadHead reads it strictly: bytes that WriteHead would not have written are
// [ErrDamaged]. The error wraps fs.ErrNotExist where there is no head yet.
func (d *Dir) ReadHead() (Head, error) {
	text, err := readSmall(d.Head())
	if err != nil {
		return Head{}, fmt.Errorf("head: %w", err)
	}
	var h Head
	if err := json.Unmarshal(text, &h, json.RejectUnknownMembers(true)); err != nil {
		return Head{}, fmt.Errorf("%w: %w", damaged(d.Head(), "not a head"), err)
	}
	again, err := encodeHead(h)
	if err != nil || !bytes.Equal(again, text) {
		return Head{}, damaged(d.Head(), "not written in the one form")
	}
	if _, err := events.ParseULID[events.Incarnation](string(h.Incarnation)); err != nil {
		return Head{}, fmt.Errorf("%w: %w", damaged(d.Head(), "no incarnation"), err)
	}
	return h, nil
}

func encodeHead(h Head) ([]byte, error) {
	text, err := json.Marshal(h)
	return append(text, '\n'), err
}
