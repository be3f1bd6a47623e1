//go:build !race

package policies_test

import (
	"net/http"
	"testing"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/policies"
	"github.com/trafficguard-go/trafficguard/resolver"
)

// TestEmbeddedPathDoesNotAllocate asserts what the README promises.
func TestEmbeddedPathDoesNotAllocate(t *testing.T) {
	plenty := limit.PerSecond(1_000_000)
	for name, p := range map[string]guard.GuardPolicy{
		"header":    policies.UserRateLimit(plenty, user),
		"client IP": policies.UserRateLimit(plenty, resolver.ClientIP()),
		"value":     policies.UserRateLimit(plenty, resolver.Value("user_id"), policies.Named("api")),
		"else":      policies.UserRateLimit(plenty, resolver.Query("none"), policies.Else(plenty, user)),
		"plans": policies.UserRateLimit(plenty, user, policies.Plans(resolver.Value("user_id"), map[string]limit.Limit{
			"pro": plenty, "free": plenty})),
	} {
		x := exchange("GET", "/", "ann")
		x.Values["user_id"] = "pro"
		chain := new(guard.TrafficGuard).Chain(p, p, p)
		next := func() (int, error) { return http.StatusOK, nil }
		if n := testing.AllocsPerRun(1000, func() {
			if rej, _ := chain.Do(x, next); rej != nil {
				t.Fatal(rej)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations a request, want 0", name, n)
		}
	}
}

func TestQuotaHeadersTakeThreeAllocationsAtMost(t *testing.T) {
	for _, format := range []guard.HeaderFormat{policies.IETF, policies.RateLimitHeaders, policies.XRateLimit, policies.XRateLimitEpoch} {
		p := policies.UserRateLimit(limit.PerSecond(1_000_000), user, policies.Headers(format), policies.Named("api"))
		chain := new(guard.TrafficGuard).Chain(p, p)
		x := exchange("GET", "/", "ann")
		next := func() (int, error) { return http.StatusOK, nil }
		if n := testing.AllocsPerRun(1000, func() {
			clear(x.ResponseHeader())
			_, _ = chain.Do(x, next)
		}); n > 3 {
			t.Errorf("format %d: %v allocations a request, want 3 at most", format, n)
		}
	}
}
