package pebblekv

import (
	"path/filepath"
	"testing"

	"gatebook/events"
	"gatebook/projections"
	"gatebook/projections/projectionstest"
	"gatebook/projections/rebuild"
)

// BenchmarkRebuild folds a busy book into a new store on disk, decoding
// included.
func BenchmarkRebuild(b *testing.B) {
	book := projectionstest.NewBook(b, projectionstest.Busy(1000))
	b.ReportAllocs()
	for b.Loop() {
		s := mustOpen(b, filepath.Join(b.TempDir(), "views"), Options{})
		fold(b, s, book, rebuild.Options{})
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(len(book)*b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkLive folds one call and its end per transaction, as an engine with
// one busy agent does, without decoding.
func BenchmarkLive(b *testing.B) {
	drafts := projectionstest.Busy(200)
	book := projectionstest.NewBook(b, drafts)
	for b.Loop() {
		s := mustOpen(b, filepath.Join(b.TempDir(), "views"), Options{})
		for i, d := range drafts {
			tx := s.Begin()
			rec := events.Recorded{Draft: d, Seq: book[i].Seq}
			if err := projections.Apply(tx, rec, book[i]); err != nil {
				b.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(len(book)*b.N)/b.Elapsed().Seconds(), "events/s")
}
