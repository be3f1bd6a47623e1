package memory_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/memory"
	"github.com/trafficguard-go/trafficguard/store/storetest"
)

func BenchmarkStore(b *testing.B) {
	storetest.BenchmarkRateStore(b, func(testing.TB) store.RateStore { return memory.New() })
}

// A floor is the least that a limiter in memory can be: a token bucket in a map under a mutex. Its arithmetic is in floating
// point, it keeps the text of its keys, and it never forgets. It is what the store is compared with.
type floor struct {
	mu      sync.Mutex
	buckets map[string]*bucket
	start   time.Time
	rate    float64 // tokens a nanosecond
	burst   float64
}

type bucket struct {
	tokens float64
	last   time.Duration
}

func newFloor(rate, burst float64) *floor {
	return &floor{buckets: make(map[string]*bucket), start: time.Now(), rate: rate, burst: burst}
}

func (f *floor) take(key string) bool {
	now := time.Since(f.start)
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.buckets[key]
	if b == nil {
		b = &bucket{tokens: f.burst, last: now}
		f.buckets[key] = b
	}
	if now > b.last {
		b.tokens = min(f.burst, b.tokens+float64(now-b.last)*f.rate)
		b.last = now
	}
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// BenchmarkTake compares the store with the floor, at 1 and at 1,000,000 subjects that are known and admitted.
func BenchmarkTake(b *testing.B) {
	for _, tc := range []struct {
		keys  int
		limit limit.Limit
		rate  float64 // the same, for the floor
		burst float64
	}{
		{1, limit.PerSecond(1_000_000).Burst(1_000_000_000), 1e-3, 1e9},
		{1_000_000, limit.PerDay(1000), 1000 / float64(24*time.Hour), 1000}, // slow, so that all stay live
	} {
		names, rule := make([]string, tc.keys), compiled(b, tc.limit)
		for i := range names {
			names[i] = key(i).Subject
		}
		b.Run(strconv.Itoa(tc.keys)+" keys/floor", func(b *testing.B) {
			f := newFloor(tc.rate, tc.burst)
			benchmarkTake(b, names, func(name string) {
				if !f.take(name) {
					b.Error("refused")
				}
			})
		})
		b.Run(strconv.Itoa(tc.keys)+" keys/memory", func(b *testing.B) {
			s := memory.New()
			benchmarkTake(b, names, func(name string) {
				r := store.Request{Key: store.Key{Policy: "api-per-user", Kind: "value:user_id", Subject: name}, Rule: rule, Cost: 1}
				if g, err := s.Take(context.Background(), r); err != nil || !g.OK {
					b.Error("refused", err)
				}
			})
		})
	}
}

// benchmarkTake goes through the names in the order in which they lie in memory, because the text of a request has just been
// read. What the limiter keeps lies in another order.
func benchmarkTake(b *testing.B, names []string, take func(name string)) {
	for _, i := range rand.Perm(len(names)) {
		take(names[i])
	}
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			take(names[i%len(names)])
		}
	})
	b.Run("parallel", func(b *testing.B) {
		var starts atomic.Int64
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := int(starts.Add(1)) * len(names) / 3; pb.Next(); i++ {
				take(names[i%len(names)])
			}
		})
	})
}

// BenchmarkNewSubjects takes for a subject never seen each time.
func BenchmarkNewSubjects(b *testing.B) {
	r := compiled(b, limit.PerHour(10))
	text := make([]byte, 0, 32)
	name := func(i int) string {
		text = strconv.AppendInt(text[:0], int64(i), 10)
		return string(text)
	}
	b.Run("floor", func(b *testing.B) {
		f := newFloor(10/float64(time.Hour), 10)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			f.take(name(i))
		}
	})
	b.Run("memory", func(b *testing.B) {
		s := memory.New(memory.MaxKeys(1 << 30))
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := s.Take(context.Background(), store.Request{Key: store.Key{Policy: "p", Kind: "k", Subject: name(i)}, Rule: r, Cost: 1}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkFull takes for new subjects while the store is full of others.
func BenchmarkFull(b *testing.B) {
	s := memory.New(memory.MaxKeys(1<<16), memory.OnOverflow(func(store.Key) {}))
	requests := subjects(b, 1<<18, limit.PerHour(10))
	for _, r := range requests[:1<<17] {
		if _, err := s.Take(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := s.Take(context.Background(), requests[1<<17+i&(1<<17-1)]); err != nil {
			b.Fatal(err)
		}
	}
}

func subjects(tb testing.TB, n int, l limit.Limit) []store.Request {
	r := compiled(tb, l)
	requests := make([]store.Request, n)
	for i := range requests {
		requests[i] = store.Request{Key: key(i), Rule: r, Cost: 1}
	}
	return requests
}

func key(i int) store.Key {
	return store.Key{Policy: "api-per-user", Kind: "value:user_id", Subject: "user-" + strconv.Itoa(i)}
}

func compiled(tb testing.TB, l limit.Limit) *limit.Rule {
	tb.Helper()
	r, err := l.Compile()
	if err != nil {
		tb.Fatal(err)
	}
	return r
}
