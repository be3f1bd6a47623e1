package guard_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/trafficguard-go/trafficguard/guard"
)

// admits is a policy with hooks of its own that do nothing.
type admits struct{ n int }

func (*admits) Supports(guard.Exchange) bool { return true }

func (a *admits) Before(context.Context, guard.Exchange) (guard.Decision, error) {
	return guard.Decision{State: &a.n}, nil
}

func (*admits) After(context.Context, guard.Exchange, guard.Decision, guard.Outcome) error {
	return nil
}

func BenchmarkChain(b *testing.B) {
	for _, n := range []int{0, 1, 3, 8} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			policies := make([]guard.GuardPolicy, n)
			for i := range policies {
				policies[i] = new(admits)
			}
			c, x := chain(policies...), exchange()
			b.ReportAllocs()
			for b.Loop() {
				_, _ = c.Do(x, func() (int, error) { return 200, nil })
			}
		})
	}
	b.Run("refused", func(b *testing.B) {
		c, x := chain(&turns{}), exchange()
		b.ReportAllocs()
		for b.Loop() {
			_, _ = c.Do(x, func() (int, error) { return 200, nil })
		}
	})
}

// turns is a policy that turns every request away.
type turns struct{ guard.Base }

func (turns) Before(context.Context, guard.Exchange) (guard.Decision, error) {
	return guard.Decision{Rejection: &guard.Rejection{Code: guard.RateLimitExceeded}}, nil
}
