//go:build !race

package limit_test

import (
	"testing"

	"github.com/trafficguard-go/trafficguard/limit"
)

func TestDecisionsDoNotAllocate(t *testing.T) {
	r := compiled(t, limit.PerMinute(7))
	var s limit.State
	var v limit.Verdict
	now := int64(epoch)
	if n := testing.AllocsPerRun(1000, func() {
		s, v = r.Take(s, now, 1)
		s = r.Settle(s, now, s, 1, 2)
		v = r.Verdict(r.Debt(s, now), 1, false)
		now += 1_000_000
	}); n != 0 {
		t.Errorf("%v allocations, want none; the last verdict is %+v", n, v)
	}
}
