package storetest

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/trafficguard-go/trafficguard/limit"
)

func settleCases() []contract {
	return []contract{
		{"settle down", "A charge that turns out smaller gives the difference back at once.", settleDown},
		{"settle up", "A charge that turns out larger is charged in full.", settleUp},
		{"settle past the burst", "A charge may be settled past the burst: that debt is waited for, and nothing passes before it is paid.", settlePastBurst},
		{"settle late", "What time has given back is not given back again: a bucket that has been full since is not filled twice.", settleLate},
		{"settle up late", "An up-charge counts as of now, however long ago the grant was.", settleUpLate},
		{"settle the one charge", "A receipt corrects its own charge: never more than that is given back, whatever others were charged meanwhile.", settleOneCharge},
		{"settle after a reset", "On a key that was reset, a smaller charge gives nothing extra and a larger one is charged.", settleAfterReset},
		{"settle the own key", "A receipt corrects its own key only.", settleOwnKey},
		{"settle unchanged", "Settling to what was charged changes nothing.", settleUnchanged},
		{"settle out of range", "Settle returns limit.ErrCost for an actual cost below 0, and changes nothing.", settleOutOfRange},
		{"settle without a client", "Settle runs to its end though the context is already cancelled: the client may be gone.", settleWithoutClient},
	}
}

func settleDown(x *trial) {
	s := x.subject("down", limit.PerMinute(10))
	g := s.admit(8)
	s.settle(g, 3)
	s.left(7)
	g = s.admit(7)
	s.settle(g, 0)
	s.left(7)

	for _, l := range uneven() { // to the last fraction
		s := x.subject("down "+l.String(), l)
		s.admit(s.rule.Burst()/2 + 1)
		want := s.peek(s.rule.Burst())
		if n := s.rule.Burst() - s.rule.Burst()/2 - 1; n > 0 {
			s.settle(s.admit(n), 0)
		}
		if got := s.peek(s.rule.Burst()); got != want {
			x.Fatalf("%s: charged and given back: %+v, want as before: %+v", l, got, want)
		}
	}
}

func settleUp(x *trial) {
	s := x.subject("up", limit.PerMinute(10))
	s.settle(s.admit(1), 4)
	s.left(6)
	s.settle(s.admit(2), 6)
	s.left(0)
	s.refuse(1, 6*time.Second)
}

func settlePastBurst(x *trial) {
	s := x.subject("debt", limit.PerMinute(10))
	s.settle(s.admit(1), 25) // 25 tokens of 6s: 15 past the burst
	s.refuse(1, (15+1)*6*time.Second)
	x.clock.Advance(time.Minute)
	s.refuse(1, 36*time.Second)
	if v := s.peek(1); v.Full != 90*time.Second || v.Remaining != 0 {
		x.Fatalf("in debt: %+v, want 0 remaining and full in 1m30s", v)
	}
	x.clock.Advance(36*time.Second - time.Microsecond)
	s.refuse(1, time.Microsecond)
	x.clock.Advance(time.Microsecond)
	s.admit(1)
	s.refuse(1, 6*time.Second)

	s = x.subject("debt that is given back", limit.PerMinute(10))
	first, second := s.admit(5), s.admit(5)
	s.settle(first, 15) // owes 20
	s.settle(second, 0) // owes 15
	s.refuse(1, 36*time.Second)

	s = x.subject("endless debt", limit.PerMinute(10))
	s.settle(s.admit(1), math.MaxInt64)
	if g := s.take(1); g.OK || g.Wait < 365*24*time.Hour {
		x.Fatalf("settled to the largest number: %+v, want a wait of years", g.Verdict)
	}
}

func settleLate(x *trial) {
	s := x.subject("full since", limit.PerMinute(10))
	g := s.admit(10)
	x.clock.Advance(time.Minute)
	s.settle(g, 0)
	s.left(10)
	s.drain()
	s.refuse(1, 6*time.Second)

	s = x.subject("full since, then spent", limit.PerMinute(10))
	g = s.admit(4)
	x.clock.Advance(time.Hour)
	s.drain()
	s.settle(g, 0)
	s.refuse(1, 6*time.Second)

	s = x.subject("half grown back", limit.PerMinute(10))
	g = s.admit(10)
	x.clock.Advance(42 * time.Second) // time has given back 7
	s.admit(5)
	s.settle(g, 0) // only the 3 that time has not given back
	s.left(5)
}

func settleUpLate(x *trial) {
	s := x.subject("up late", limit.PerMinute(10))
	g := s.admit(2)
	x.clock.Advance(24 * time.Hour)
	s.settle(g, 9)
	s.left(3)
}

func settleOneCharge(x *trial) {
	s := x.subject("one of three", limit.PerMinute(10))
	first := s.admit(2)
	second := s.admit(3)
	s.admit(4)
	s.settle(first, 0)
	s.left(3)
	s.settle(second, 1)
	s.left(5)

	s = x.subject("a later charge", limit.PerMinute(10))
	first = s.admit(1)
	x.clock.Advance(3 * time.Second) // half of it is back
	s.admit(9)
	s.settle(first, 0) // the other half
	s.left(1)
	if v := s.peek(1); v.Full != time.Minute {
		x.Fatalf("only the later charge is left: %+v, want full in 1m after one more", v)
	}
}

func settleAfterReset(x *trial) {
	s := x.subject("reset", limit.PerMinute(10))
	down, up := s.admit(4), s.admit(1)
	if err := x.store.Reset(context.Background(), s.key); err != nil {
		x.Fatalf("Reset: %v", err)
	}
	s.settle(down, 0)
	s.left(10)
	s.settle(up, 3)
	s.left(8)
}

func settleOwnKey(x *trial) {
	s, other := x.subject("own", limit.PerMinute(10)), x.subject("other", limit.PerMinute(10))
	g := s.admit(5)
	other.admit(5)
	s.settle(g, 2)
	other.left(5)
	s.left(8)
	s.settle(other.admit(1), 5)
	other.left(0)
	s.left(8)
}

func settleUnchanged(x *trial) {
	s := x.subject("unchanged", limit.PerMinute(7))
	g := s.admit(3)
	x.clock.Advance(12_345_678 * time.Microsecond)
	before := s.peek(7)
	s.settle(g, 3)
	if after := s.peek(7); after != before {
		x.Fatalf("settled 3 to 3: %+v, want as before: %+v", after, before)
	}
}

func settleOutOfRange(x *trial) {
	s := x.subject("negative", limit.PerMinute(10))
	g := s.admit(5)
	for _, actual := range []int64{-1, math.MinInt64} {
		if err := x.store.Settle(context.Background(), g.receipt, actual); !errors.Is(err, limit.ErrCost) {
			x.Errorf("Settle to %d: %v, want limit.ErrCost", actual, err)
		}
	}
	s.left(5)
}

func settleWithoutClient(x *trial) {
	s := x.subject("gone", limit.PerMinute(10))
	g := s.admit(5)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := x.store.Settle(ctx, g.receipt, 1); err != nil {
		x.Fatalf("Settle with a cancelled context: %v", err)
	}
	s.left(9)
}
