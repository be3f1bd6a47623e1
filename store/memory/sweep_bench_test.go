package memory_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store/memory"
	"github.com/trafficguard-go/trafficguard/store/storetest"
)

// BenchmarkSweep measures the requests that sweep 2,000,000 subjects away, which are full again or, in the second case, nearly all
// live: each request here comes so late after the one before that it sweeps.
func BenchmarkSweep(b *testing.B) {
	const subjectsKept = 2_000_000
	run := func(b *testing.B, l limit.Limit, later time.Duration) {
		requests := subjects(b, subjectsKept, l)
		for b.Loop() {
			b.StopTimer()
			clock := storetest.NewClock()
			s := memory.New(memory.Clock(clock.Now))
			for _, r := range requests {
				if _, err := s.Take(context.Background(), r); err != nil {
					b.Fatal(err)
				}
			}
			clock.Advance(later)
			b.StartTimer()
			var took []time.Duration
			for range 256 {
				start := time.Now()
				if _, err := s.Take(context.Background(), requests[0]); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
				clock.Advance(100 * time.Millisecond)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(s.Len()), "kept")
		}
	}
	b.Run(strconv.Itoa(subjectsKept)+" full again", func(b *testing.B) { run(b, limit.PerMinute(1), 2*time.Minute) })
	b.Run(strconv.Itoa(subjectsKept)+" live", func(b *testing.B) { run(b, limit.PerHour(1), 2*time.Minute) })
}
