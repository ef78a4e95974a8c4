package jetlog

import (
	"testing"

	"gatebook/events"
	"gatebook/events/eventstest"
)

func benchAppend(b *testing.B, sizes ...int) {
	l := openLog(b, connect(b, startServer(b, nil)), making())
	decisions := eventstest.Decisions(b, 0, sizes...)
	n := 0
	for _, size := range sizes {
		n += size
	}
	after := events.Seq(0)
	b.ResetTimer()
	for b.Loop() {
		mustAppend(b, l, after, decisions)
		after += events.Seq(n)
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkAppendOne(b *testing.B)       { benchAppend(b, 1) }
func BenchmarkAppend8Singles(b *testing.B)  { benchAppend(b, 1, 1, 1, 1, 1, 1, 1, 1) }
func BenchmarkAppendBatch9(b *testing.B)    { benchAppend(b, 9) }
func BenchmarkAppendBatch100(b *testing.B)  { benchAppend(b, 100) }
func BenchmarkAppendBatch1000(b *testing.B) { benchAppend(b, 1000) }

func benchRead(b *testing.B, records int) {
	l := openLog(b, connect(b, startServer(b, nil)), making())
	const batches = 50
	for i := range batches {
		mustAppend(b, l, events.Seq(1000*i), eventstest.Decisions(b, 1000*i, 1000))
	}
	b.ReportAllocs()
	b.ResetTimer()
	n := 0
	for b.Loop() {
		for _, err := range l.Read(b.Context(), events.Seq(1000*batches-records+1)) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkRead(b *testing.B)    { benchRead(b, 50_000) }
func BenchmarkReadOne(b *testing.B) { benchRead(b, 1) }
