package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"gatebook/infra/datadir"
	"gatebook/scripts/harness"
)

// sample is one look at the engine. Sizes are bytes.
type sample struct {
	AtMS        int64 `json:"at_ms"` // since the load began
	Memory      int64 `json:"memory_bytes"`
	Heap        int64 `json:"heap_bytes"` // in use at the last garbage collection
	Goroutines  int64 `json:"goroutines"`
	Descriptors int64 `json:"descriptors"`
	Book        int64 `json:"book_bytes"`
	Views       int64 `json:"views_bytes"`
	Blobs       int64 `json:"blobs_bytes"`
	Agents      int64 `json:"agents_bytes"` // their folders
	// Rate is calls a second, P99 the microseconds that 99 of 100 took at most, both
	// since the sample before.
	Rate int64 `json:"calls_per_second"`
	P99  int64 `json:"p99_us"`
}

// sampler looks at one engine. It belongs to one goroutine.
type sampler struct {
	engine *harness.Engine
	dir    *datadir.Dir
	person *nats.Conn
	views  string // what the subjects of its questions begin with
	crew   *crew
	began  time.Time
	last   time.Time
}

func newSampler(f *harness.Folder, e *harness.Engine, c *crew) (*sampler, error) {
	dir, err := datadir.Open(e.Folder, false)
	if err != nil {
		return nil, err
	}
	person, views, err := f.Reader(e)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &sampler{engine: e, dir: dir, person: person, views: views, crew: c, began: now, last: now}, nil
}

func (s *sampler) close() { s.person.Close() }

// take measures. An engine that is not well is an error.
func (s *sampler) take(ctx context.Context) (sample, error) {
	took := s.crew.latencies()
	now := time.Now()
	m := sample{AtMS: now.Sub(s.began).Milliseconds(), P99: harness.Quantile(took, 99).Microseconds()}
	m.Rate = int64(float64(len(took)) / now.Sub(s.last).Seconds())
	s.last = now
	resident, _, err := s.engine.Resident()
	if err != nil {
		return m, err
	}
	m.Memory = resident << 10
	if m.Descriptors, err = s.engine.Descriptors(); err != nil {
		return m, err
	}
	var health struct {
		OK       bool     `json:"ok"`
		Troubles []string `json:"troubles"`
		Damage   string   `json:"damage"`
		Process  struct {
			Goroutines int64 `json:"goroutines"`
			HeapBytes  int64 `json:"heap_bytes"`
		} `json:"process"`
	}
	if err := harness.Ask(ctx, s.person, s.views+"health", struct{}{}, &health); err != nil {
		return m, err
	}
	if !health.OK || health.Damage != "" {
		return m, fmt.Errorf("the engine is in trouble: %q %s", health.Troubles, health.Damage)
	}
	m.Goroutines, m.Heap = health.Process.Goroutines, health.Process.HeapBytes
	for size, path := range map[*int64]string{
		&m.Book: s.dir.Nats(), &m.Views: s.dir.Views(), &m.Blobs: s.dir.Blobs(), &m.Agents: filepath.Join(s.dir.Path(), "agents"),
	} {
		if *size, err = sizeOf(path); err != nil {
			return m, err
		}
	}
	return m, nil
}

// sizeOf is the size of all files below a folder; what goes away meanwhile is not
// counted.
func sizeOf(path string) (size int64, err error) {
	err = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				size += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return size, err
}
