//go:build !race

package guard_test

import (
	"context"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/guard"
)

// holds is a policy that keeps state from Before to After, as those of the module do.
type holds struct {
	guard.Base
	state int
	quota guard.Quota
	needs guard.Requirement
}

func (h *holds) Before(context.Context, guard.Exchange) (guard.Decision, error) {
	return guard.Decision{State: &h.state, Quota: h.quota}, nil
}

func (h *holds) After(_ context.Context, _ guard.Exchange, d guard.Decision, _ guard.Outcome) error {
	*d.State.(*int)++
	return nil
}

func (h *holds) Requires() guard.Requirement { return h.needs }

// holding returns n policies.
func holding(n int) []guard.GuardPolicy {
	list := make([]guard.GuardPolicy, n)
	for i := range list {
		list[i] = new(holds)
	}
	return list
}

func TestAllocationsOfAChain(t *testing.T) {
	quota := guard.Quota{Format: guard.IETF, Limit: 100, Remaining: 42, Window: time.Minute, Reset: time.Second}
	triple := guard.Quota{Format: guard.XRateLimitEpoch, Limit: 100, Remaining: 42, Reset: time.Second}
	for name, c := range map[string]struct {
		tg       *guard.TrafficGuard
		policies []guard.GuardPolicy
		want     float64
	}{
		"none":     {policies: nil, want: 0},
		"one":      {policies: holding(1), want: 0},
		"three":    {policies: holding(3), want: 0},
		"eight":    {policies: holding(8), want: 0},
		"nine":     {policies: holding(9), want: 1},
		"marked":   {policies: []guard.GuardPolicy{guard.FailClosed(new(holds))}, want: 0},
		"status":   {policies: []guard.GuardPolicy{&holds{needs: guard.RequireStatus | guard.RequireLatency}}, want: 0},
		"observed": {tg: &guard.TrafficGuard{Observe: func(context.Context, guard.Event) {}}, policies: holding(3), want: 0},
		"IETF":     {policies: []guard.GuardPolicy{&holds{quota: quota}}, want: 2},
		"triple":   {policies: []guard.GuardPolicy{&holds{quota: triple}}, want: 2},
		"tightest": {policies: []guard.GuardPolicy{&holds{quota: quota}, &holds{quota: quota}, &holds{quota: triple}}, want: 2},
	} {
		chain, x := c.tg.Chain(c.policies...), exchange()
		got := testing.AllocsPerRun(1000, func() {
			clear(x.Response.Header())
			_, _ = chain.Do(x, func() (int, error) { return 200, nil })
		})
		if got != c.want {
			t.Errorf("%s: %v allocations, want %v", name, got, c.want)
		}
	}
}
