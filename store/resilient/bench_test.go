package resilient

import (
	"context"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/memory"
)

// BenchmarkTake compares a decision with and without the decorator, on a primary that answers at once and on one in Redis, and
// of the fallback while the circuit is open. "budget" is a context that ends before the deadline would.
func BenchmarkTake(b *testing.B) {
	down := newScripted()
	down.set(errDown)
	degraded := New(down, quiet(), Fallback(memory.New(), 2))
	spent := request(b, "spent", limit.PerDay(2))
	takeFrom(b, degraded, spent, true)
	awaitOpen(b, degraded, spent)
	redis := openRedis(b, shared.URL(), patient)
	for _, bench := range []struct {
		name   string
		store  store.RateStore
		budget bool
	}{
		{"memory/bare", memory.New(), false},
		{"memory/primary", New(memory.New(), quiet(), Timeout(patient)), false},
		{"memory/primary, budget", New(memory.New(), quiet(), Timeout(2*time.Hour)), true},
		{"memory/fallback", degraded, false},
		{"redis/bare", redis, false},
		{"redis/primary", New(redis, quiet(), Timeout(patient)), false},
	} {
		b.Run(bench.name, func(b *testing.B) {
			ctx := context.Background()
			if bench.budget {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Hour)
				defer cancel()
			}
			r := request(b, "a", limit.PerSecond(1_000_000).Burst(100_000_000))
			b.Run("serial", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := bench.store.Take(ctx, r); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("parallel", func(b *testing.B) {
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if _, err := bench.store.Take(ctx, r); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		})
	}
}
