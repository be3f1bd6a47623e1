package storetest

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/trafficguard-go/trafficguard/limit"
)

// uneven are limits whose tokens do not come in whole microseconds, or come very often or hardly ever.
func uneven() []limit.Limit {
	return []limit.Limit{
		limit.Per(6, time.Minute),
		limit.PerMinute(7),
		limit.Per(3, 1500*time.Millisecond),
		limit.Per(3, 10*time.Second),
		limit.Every(333_333 * time.Microsecond),
		limit.PerSecond(997).Burst(2000),
		limit.PerSecond(999_983),
		limit.PerDay(100_003),
		limit.Every(720 * time.Hour),
	}
}

func takeCases() []contract {
	return []contract{
		{"exact burst", "A fresh subject can spend its whole burst at once, and not one more.", exactBurst},
		{"exact wait", "The wait of a refusal is the time to the next admission to the microsecond: at it the request passes, a microsecond earlier it does not.", exactWait},
		{"remaining and full", "Remaining is what can be spent at this instant, Full the time until the bucket is full, rounded up to a microsecond.", remainingAndFull},
		{"refusals change nothing", "A refused request leaves no trace: neither the next admission nor the remaining quota depends on how many were refused.", refusalsChangeNothing},
		{"costs", "A request of cost n is worth n requests of cost 1, and is charged whole or not at all.", costs},
		{"cost above the burst", "A request that costs more than the burst can never pass: its wait is Never, and nothing is charged.", costAboveBurst},
		{"costs out of range", "Take and Peek return limit.ErrCost for a cost below 1, and charge nothing.", costsOutOfRange},
		{"peek", "Peek says what Take would say and changes nothing.", peekChangesNothing},
		{"reset", "Reset gives a subject its whole limit again, and touches no other.", reset},
	}
}

func exactBurst(x *trial) {
	for _, l := range uneven() {
		s := x.subject("burst "+l.String(), l)
		n := s.rule.Burst()
		if n > 100 { // the last hundred one by one
			s.admit(n - 100)
			n = 100
		}
		for i := n - 1; i >= 0; i-- {
			if g := s.admit(1); g.Remaining != i {
				x.Fatalf("%s: %d remain, want %d", l, g.Remaining, i)
			}
		}
		if g := s.take(1); g.OK || g.Remaining != 0 {
			x.Fatalf("%s: after the whole burst: %+v, must be refused with 0 remaining", l, g.Verdict)
		}
	}
}

func exactWait(x *trial) {
	for _, l := range uneven() {
		s := x.subject("wait "+l.String(), l)
		s.drain()
		for _, cost := range []int64{1, s.rule.Burst()/2 + 1, 1, 1} {
			g := s.take(cost)
			if g.OK || g.Wait <= 0 {
				x.Fatalf("%s, cost %d: %+v, must be refused with a wait", l, cost, g.Verdict)
			}
			x.clock.Advance(g.Wait - time.Microsecond)
			s.refuse(cost, time.Microsecond)
			x.clock.Advance(time.Microsecond)
			s.admit(cost)
		}
	}
}

func remainingAndFull(x *trial) {
	s := x.subject("six", limit.Per(6, time.Minute))
	for i, full := range []time.Duration{10, 20, 30, 40, 50, 60} {
		if g := s.admit(1); g.Remaining != int64(5-i) || g.Full != full*time.Second {
			x.Fatalf("request %d: %+v, want %d remaining and full in %ds", i+1, g.Verdict, 5-i, full)
		}
	}
	x.clock.Advance(4 * time.Second)
	if g := s.take(1); g.OK || g.Wait != 6*time.Second || g.Full != 56*time.Second || g.Remaining != 0 {
		x.Fatalf("4s later: %+v, want refused, wait 6s, full in 56s", g.Verdict)
	}
	x.clock.Advance(56 * time.Second)
	if v := s.peek(1); !v.OK || v.Remaining != 5 || v.Full != 10*time.Second {
		x.Fatalf("full again: %+v, want admitted, 5 remaining after it, full 10s after it", v)
	}

	third := x.subject("thirds", limit.Per(3, time.Second).Burst(2))
	if g := third.admit(1); g.Remaining != 1 || g.Full != 333_334*time.Microsecond {
		x.Fatalf("a third of a second: %+v, want 1 remaining and full in 333.334ms, rounded up", g.Verdict)
	}
	x.clock.Advance(333_333 * time.Microsecond)
	if v := third.peek(2); v.OK || v.Remaining != 1 || v.Wait != time.Microsecond {
		x.Fatalf("333.333ms later: %+v, want cost 2 refused with 1 remaining and a wait of 1µs", v)
	}
}

func refusalsChangeNothing(x *trial) {
	s := x.subject("steady", limit.Per(5, 10*time.Second))
	s.drain()
	passed := 0
	for range 60 { // a client that retries every half second for 30s
		x.clock.Advance(500 * time.Millisecond)
		if s.take(1).OK {
			passed++
		}
	}
	if passed != 15 {
		x.Fatalf("%d passed in 30s of retrying at 5 per 10s, want 15", passed)
	}

	s = x.subject("countdown", limit.Every(10*time.Second))
	s.drain()
	for i := range 100 {
		s.refuse(1, 10*time.Second-time.Duration(i)*100*time.Millisecond)
		x.clock.Advance(100 * time.Millisecond)
	}
	s.admit(1)
}

func costs(x *trial) {
	s := x.subject("costs", limit.PerMinute(60))
	for _, step := range []struct{ cost, remaining int64 }{{50, 10}, {7, 3}, {3, 0}} {
		if g := s.admit(step.cost); g.Remaining != step.remaining {
			x.Fatalf("cost %d: %d remain, want %d", step.cost, g.Remaining, step.remaining)
		}
	}
	s.refuse(20, 20*time.Second)
	x.clock.Advance(20*time.Second - time.Microsecond)
	s.refuse(20, time.Microsecond)
	s.left(19)
	s.admit(19)
	x.clock.Advance(time.Minute + time.Microsecond)
	s.left(60)
	s.admit(60)
}

func costAboveBurst(x *trial) {
	s := x.subject("dear", limit.Per(10, time.Minute))
	for _, cost := range []int64{11, 1 << 31, 1 << 53, math.MaxInt64} {
		s.refuse(cost, limit.Never)
		s.left(10)
	}
	s.admit(5)
	s.refuse(11, limit.Never)
	s.left(5)
	if v := s.peek(11); v.OK || v.Wait != limit.Never || v.Remaining != 5 {
		x.Fatalf("peek at cost 11 of a half used 10: %+v, want refused, Never, 5 remaining", v)
	}
}

func costsOutOfRange(x *trial) {
	s := x.subject("nothing", limit.Per(10, time.Minute))
	for _, cost := range []int64{0, -1, math.MinInt64} {
		if g, err := x.store.Take(context.Background(), s.request(cost)); !errors.Is(err, limit.ErrCost) {
			x.Errorf("Take of cost %d: %+v, %v, want limit.ErrCost", cost, g.Verdict, err)
		}
		if v, err := x.store.Peek(context.Background(), s.request(cost)); !errors.Is(err, limit.ErrCost) {
			x.Errorf("Peek at cost %d: %+v, %v, want limit.ErrCost", cost, v, err)
		}
	}
	s.left(10)
}

func peekChangesNothing(x *trial) {
	for _, l := range uneven() {
		s := x.subject("peek "+l.String(), l)
		for _, pause := range []time.Duration{0, 0, 17 * time.Microsecond, s.rule.Window() / 3, s.rule.Window()} {
			x.clock.Advance(pause)
			for _, cost := range []int64{s.rule.Burst() + 1, s.rule.Burst(), s.rule.Burst()/2 + 1, 1} {
				first, second := s.peek(cost), s.peek(cost)
				if got := s.take(cost).Verdict; first != got || second != got {
					x.Fatalf("%s, cost %d: Peek said %+v, then %+v, then Take said %+v", l, cost, first, second, got)
				}
			}
		}
	}
}

func reset(x *trial) {
	s, other := x.subject("reset", limit.PerMinute(5)), x.subject("other", limit.PerMinute(5))
	s.drain()
	other.admit(2)
	for range 2 { // the second time there is nothing to forget
		if err := x.store.Reset(context.Background(), s.key); err != nil {
			x.Fatalf("Reset: %v", err)
		}
		s.left(5)
	}
	other.left(3)
	s.drain()
	s.refuse(1, 12*time.Second)
}
