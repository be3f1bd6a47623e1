package guardtest

import (
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/guard"
)

// minutely is a quota with remaining left, told in format.
func minutely(format guard.HeaderFormat, remaining int64) guard.Quota {
	return guard.Quota{Format: format, Limit: 100, Remaining: remaining, Window: time.Minute, Reset: 34*time.Second + 1}
}

// showing returns a spy that admits and shows q.
func showing(name string, q guard.Quota) *Spy {
	return &Spy{Name: name, Decision: guard.Decision{Quota: q}}
}

// wantHeaders fails the test unless h has exactly one line of each of the fields of want; "" stands for none.
func wantHeaders(t *testing.T, h http.Header, want map[string]string) {
	t.Helper()
	for name, value := range want {
		var lines []string
		if value != "" {
			lines = []string{value}
		}
		if got := h.Values(name); !slices.Equal(got, lines) {
			t.Errorf("%s is %q, not %q", name, got, lines)
		}
	}
}

var headerCases = []adapterCase{
	{
		"Retry-After",
		"Retry-After is in whole seconds, rounded up, at least 1, on every 429 and 503 except where waiting cannot help",
		func(t *testing.T, a Adapter) {
			for _, c := range []struct {
				code guard.Code
				wait time.Duration
				want string
			}{
				{guard.RateLimitExceeded, 0, "1"},
				{guard.RateLimitExceeded, time.Millisecond, "1"},
				{guard.RateLimitExceeded, time.Second, "1"},
				{guard.RateLimitExceeded, 1200 * time.Millisecond, "2"},
				{guard.RateLimitExceeded, 24 * time.Hour, "86400"},
				{guard.Overloaded, 0, "1"},
				{guard.CostExceedsLimit, guard.Never, ""},
				{guard.InvalidRequest, 0, ""},
			} {
				spy := &Spy{Decision: guard.Decision{Rejection: &guard.Rejection{Code: c.code, Wait: c.wait}}}
				rec := get(a.one(nil, says("", nil), spy))
				if got := rec.Result().Header.Get("Retry-After"); got != c.want {
					t.Errorf("%s after %s: Retry-After is %q, not %q", c.code, c.wait, got, c.want)
				}
			}
		},
	},
	{
		"spread",
		"a spread wait is never shorter than the true one",
		func(t *testing.T, a Adapter) {
			rej := &guard.Rejection{Code: guard.Overloaded, Wait: 2 * time.Second, Spread: 3 * time.Second}
			h := a.one(nil, says("", nil), &Spy{Decision: guard.Decision{Rejection: rej}})
			for range 100 {
				s, err := strconv.Atoi(get(h).Result().Header.Get("Retry-After"))
				if err != nil || s < 2 || s > 5 {
					t.Fatalf("Retry-After is %d (%v), not within 2 and 5", s, err)
				}
			}
		},
	},
	{
		"challenge",
		"a 401 carries the challenge of its policy",
		func(t *testing.T, a Adapter) {
			rej := &guard.Rejection{Code: guard.ClientUnidentified, Challenge: `Bearer realm="shop"`}
			rec := get(a.one(nil, says("", nil), &Spy{Decision: guard.Decision{Rejection: rej}}))
			wantHeaders(t, rec.Result().Header, map[string]string{"WWW-Authenticate": `Bearer realm="shop"`, "Retry-After": ""})
		},
	},
	{
		"quota admitted",
		"an admitted request tells the quota in the format that its policy chose, seconds rounded up",
		func(t *testing.T, a Adapter) {
			for format, want := range map[guard.HeaderFormat]map[string]string{
				guard.NoHeaders: {"RateLimit": "", "RateLimit-Policy": "", "RateLimit-Limit": "", "X-RateLimit-Limit": ""},
				guard.IETFDraft11: {
					"RateLimit": `"api";r=42;t=35`, "RateLimit-Policy": `"api";q=100;w=60`, "RateLimit-Limit": "",
				},
				guard.RateLimitHeaders: {
					"RateLimit-Limit": "100", "RateLimit-Remaining": "42", "RateLimit-Reset": "35", "RateLimit": "",
				},
				guard.XRateLimit: {
					"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "42", "X-RateLimit-Reset": "35", "RateLimit-Limit": "",
				},
			} {
				rec := get(a.one(nil, says("", nil), showing("api", minutely(format, 42))))
				wantHeaders(t, rec.Result().Header, want)
			}
		},
	},
	{
		"quota epoch",
		"the epoch format tells the reset as seconds since 1970",
		func(t *testing.T, a Adapter) {
			earliest := time.Now().Unix() + 35
			rec := get(a.one(nil, says("", nil), showing("api", minutely(guard.XRateLimitEpoch, 42))))
			got, err := strconv.ParseInt(rec.Result().Header.Get("X-RateLimit-Reset"), 10, 64)
			if err != nil || got < earliest || got > time.Now().Unix()+35 {
				t.Errorf("X-RateLimit-Reset is %d (%v), not %d", got, err, earliest)
			}
		},
	},
	{
		"quota concurrent",
		"a quota of requests at a time says so, and has neither a window nor a reset",
		func(t *testing.T, a Adapter) {
			q := guard.Quota{Format: guard.IETFDraft11, Concurrent: true, Limit: 20, Remaining: 5}
			rec := get(a.one(nil, says("", nil), showing("pool", q)))
			wantHeaders(t, rec.Result().Header, map[string]string{
				"RateLimit": `"pool";r=5`, "RateLimit-Policy": `"pool";q=20;qu="concurrent-requests"`,
			})
		},
	},
	{
		"quota of several",
		"of several policies the tightest is shown, wherever in the chain it stands",
		func(t *testing.T, a Adapter) {
			loose, tight := showing("loose", minutely(guard.IETF, 99)), showing("tight", minutely(guard.IETF, 1))
			for _, spies := range [][]*Spy{{loose, tight}, {tight, loose}, {loose, tight, {Name: "silent"}}} {
				rec := get(a.one(nil, says("", nil), policies(spies...)...))
				wantHeaders(t, rec.Result().Header, map[string]string{
					"RateLimit": `"tight";r=1;t=35`, "RateLimit-Policy": `"tight";q=100;w=60`,
				})
			}
		},
	},
	{
		"quota of group and route",
		"of the quotas of a group and of a route the tighter is shown, once",
		func(t *testing.T, a Adapter) {
			loose, tight := showing("loose", minutely(guard.IETF, 99)), showing("tight", minutely(guard.IETF, 1))
			for _, nested := range [][2]*Spy{{loose, tight}, {tight, loose}} {
				h := a.Mount(App{
					TrafficGuard: new(guard.TrafficGuard), Group: policies(nested[0]),
					Routes: []Route{{
						Method: http.MethodGet, Pattern: item, Policies: policies(nested[1]), Handler: says("", nil),
					}},
				})
				wantHeaders(t, get(h).Result().Header, map[string]string{
					"RateLimit": `"tight";r=1;t=35`, "RateLimit-Policy": `"tight";q=100;w=60`,
				})
			}
		},
	},
	{
		"quota refused",
		"a refusal shows the quota of the policy that refused, with nothing left until its Retry-After",
		func(t *testing.T, a Adapter) {
			tight := showing("tight", minutely(guard.IETF, 1))
			denies := refusing("denies")
			denies.Decision.Quota = minutely(guard.IETF, 50)
			denies.Decision.Rejection.Wait = 1500 * time.Millisecond
			want := map[string]string{
				"RateLimit": `"denies";r=0;t=2`, "RateLimit-Policy": `"denies";q=100;w=60`, "Retry-After": "2",
			}
			wantHeaders(t, get(a.one(nil, says("", nil), tight, denies)).Result().Header, want)

			h := a.Mount(App{
				TrafficGuard: new(guard.TrafficGuard), Group: policies(tight),
				Routes: []Route{{Method: http.MethodGet, Pattern: item, Policies: policies(denies), Handler: says("", nil)}},
			})
			wantHeaders(t, get(h).Result().Header, want)
		},
	},
}
