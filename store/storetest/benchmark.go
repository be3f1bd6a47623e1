package storetest

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
)

// BenchmarkRateStore measures the store that open opens, on real time. It opens one for each benchmark; what must be
// closed afterwards belongs in Cleanup. Compare numbers of one run only.
func BenchmarkRateStore(b *testing.B, open func(tb testing.TB) store.RateStore) {
	const many = 10_000
	one := func(b *testing.B) (store.RateStore, store.Request) { return open(b), requests(1, generous())[0] }
	b.Run("take", func(b *testing.B) {
		s, r := one(b)
		b.ReportAllocs()
		for b.Loop() {
			take(b, s, r)
		}
	})
	b.Run("take parallel", func(b *testing.B) {
		s, r := one(b)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				take(b, s, r)
			}
		})
	})
	b.Run("take 10000 keys parallel", func(b *testing.B) {
		s, rs := open(b), requests(many, generous())
		var start atomic.Int64
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := int(start.Add(many / 7)); pb.Next(); i++ {
				take(b, s, rs[i%many])
			}
		})
	})
	b.Run("refused", func(b *testing.B) {
		s, r := open(b), requests(1, limit.Every(24*time.Hour))[0]
		take(b, s, r)
		b.ReportAllocs()
		for b.Loop() {
			take(b, s, r)
		}
	})
	b.Run("peek", func(b *testing.B) {
		s, r := one(b)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Peek(context.Background(), r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("take and settle", func(b *testing.B) {
		s, r := one(b)
		b.ReportAllocs()
		for b.Loop() {
			if err := s.Settle(context.Background(), take(b, s, r).Receipt(r), 0); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// generous is a limit that no benchmark reaches.
func generous() limit.Limit { return limit.PerSecond(1_000_000).Burst(1_000_000_000) }

// requests returns n requests of as many subjects that no other run uses.
func requests(n int, l limit.Limit) []store.Request {
	r, err := l.Compile()
	if err != nil {
		panic(err)
	}
	run := strconv.FormatInt(time.Now().UnixNano(), 36)
	rs := make([]store.Request, n)
	for i := range rs {
		rs[i] = store.Request{Key: store.Key{Policy: "benchmark", Kind: "run:" + run, Subject: "user-" + strconv.Itoa(i)}, Rule: r, Cost: 1}
	}
	return rs
}

func take(b *testing.B, s store.RateStore, r store.Request) store.Grant {
	g, err := s.Take(context.Background(), r)
	if err != nil {
		b.Error(err) // not Fatal: it may run in a goroutine of RunParallel
	}
	return g
}
