package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trafficguard-go/trafficguard/limit"
)

const goroutines = 64

func concurrentCases() []contract {
	return []contract{
		{"concurrent burst", "Of concurrent requests exactly as many are admitted as the limit allows.", concurrentBurst},
		{"concurrent settlements", "Concurrent settlements are all counted, and each once.", concurrentSettlements},
	}
}

// together runs f in many goroutines at once and waits for them.
func together(f func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range goroutines {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			f(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

func concurrentBurst(x *trial) {
	s := x.subject("hot", limit.PerHour(100))
	for round := range 3 {
		var charged atomic.Int64
		together(func(i int) {
			for n := range 6 {
				cost := int64(1 + (i+n)%3)
				g, err := x.store.Take(context.Background(), s.request(cost))
				if err != nil {
					x.Errorf("Take: %v", err)
				}
				if g.OK {
					charged.Add(cost)
				}
			}
		})
		// Requests of cost 1 come last and often enough to fill what the dearer ones leave.
		for range 2 {
			if s.take(1).OK {
				charged.Add(1)
			}
		}
		if charged.Load() != 100 {
			x.Fatalf("round %d: %d charged by %d goroutines at one instant, the burst is 100", round+1, charged.Load(), goroutines)
		}
		s.refuse(1, 36*time.Second)
		x.clock.Advance(time.Hour)
	}
}

func concurrentSettlements(x *trial) {
	s := x.subject("settled", limit.PerHour(1000))
	var spent atomic.Int64
	together(func(i int) {
		for n := range 4 {
			cost, actual := int64(3), int64((i+n)%6) // to 0..5: down, unchanged and up
			g, err := x.store.Take(context.Background(), s.request(cost))
			if err != nil || !g.OK {
				x.Errorf("Take of cost %d: %+v, %v, must pass", cost, g.Verdict, err)
				return
			}
			if err := x.store.Settle(context.Background(), g.Receipt(s.request(cost)), actual); err != nil {
				x.Errorf("Settle: %v", err)
			}
			spent.Add(actual)
		}
	})
	s.left(1000 - spent.Load())
}
