package guard_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/guard/guardtest"
)

// quotaHeaders returns the headers of a request that a policy called name admitted.
func quotaHeaders(name string, q guard.Quota) http.Header {
	x := guardtest.NewExchange(httptest.NewRequest(http.MethodGet, "/", nil))
	_ = x.Serve(chain(&guardtest.Spy{Name: name, Decision: guard.Decision{Quota: q}}), http.NotFoundHandler())
	return x.Response.Result().Header
}

var parameter = regexp.MustCompile(`^;([a-z*][a-z0-9_.*-]*)=(-?[0-9]{1,15}|"(?:[ !#-\[\]-~]|\\["\\])*")`)

// parseItem takes an Item of RFC 9651 apart: a String with parameters that are Integers or Strings.
func parseItem(s string) (name string, params map[string]string, err error) {
	quoted := regexp.MustCompile(`^"((?:[ !#-\[\]-~]|\\["\\])*)"`).FindStringSubmatch(s)
	if quoted == nil {
		return "", nil, errors.New("no String at the beginning")
	}
	params, rest := map[string]string{}, s[len(quoted[0]):]
	for rest != "" {
		p := parameter.FindStringSubmatch(rest)
		if p == nil {
			return "", nil, fmt.Errorf("no parameter: %q", rest)
		}
		params[p[1]], rest = p[2], rest[len(p[0]):]
	}
	return quoted[1], params, nil
}

func TestParseItem(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{``, `a`, `"a`, `"é"`, `"a";R=1`, `"a";r=1.5`, `"a";r=1234567890123456`, `"a", "b"`, `"a";r=`, `"a"b"`} {
		if _, _, err := parseItem(bad); err == nil {
			t.Errorf("the test takes %s for an Item", bad)
		}
	}
}

func FuzzQuotaFields(f *testing.F) {
	f.Add("api", int64(100), int64(42), int64(time.Minute), int64(35*time.Second), false)
	f.Add("", int64(0), int64(-1), int64(0), int64(0), true)
	f.Add("api", int64(100), int64(42), int64(0), int64(0), false)
	f.Add("a b;q=1, \tc", int64(1)<<62, int64(1)<<62, int64(1)<<62, int64(1)<<62, false)
	f.Add(`"quoted"`, int64(1), int64(1), int64(1), int64(-1), false)
	f.Add("größe", int64(1), int64(1), int64(1), int64(1), false)
	f.Add(strings.Repeat("x", 64), int64(1), int64(1), int64(1), int64(1), true)
	f.Fuzz(func(t *testing.T, name string, limit, remaining, window, reset int64, concurrent bool) {
		q := guard.Quota{
			Format: guard.IETF, Concurrent: concurrent, Limit: limit, Remaining: remaining,
			Window: time.Duration(window), Reset: time.Duration(reset),
		}
		var h http.Header
		if recovered(func() { h = quotaHeaders(name, q) }) != nil {
			return // the name was refused where the route was mounted
		}
		want := name
		if name == "" {
			want = "Spy"
		}
		for field, keys := range map[string][]string{"RateLimit": {"r", "t"}, "RateLimit-Policy": {"q", "qu", "w"}} {
			got, params, err := parseItem(h.Get(field))
			if err != nil || got != want || len(h.Values(field)) != 1 {
				t.Fatalf("%s: %q is not an Item for %q: %v", field, h.Values(field), want, err)
			}
			for key, value := range params {
				n, err := strconv.ParseInt(value, 10, 64)
				if key == "qu" && value == `"concurrent-requests"` && concurrent {
					continue
				}
				if err != nil || n < 0 || !slices.Contains(keys, key) || key == "w" && n == 0 {
					t.Errorf("%s: %q has the parameter %s=%s", field, h.Get(field), key, value)
				}
			}
		}
	})
}

func TestOneFieldLineForEachFormat(t *testing.T) {
	t.Parallel()
	for _, format := range []guard.HeaderFormat{guard.IETFDraft11, guard.RateLimitHeaders, guard.XRateLimit, guard.XRateLimitEpoch} {
		h := quotaHeaders("api", guard.Quota{Format: format, Limit: 10, Remaining: 1, Window: time.Second, Reset: time.Second})
		for name, lines := range h {
			if len(lines) != 1 || http.CanonicalHeaderKey(name) != name {
				t.Errorf("format %d: %s is %q", format, name, lines)
			}
		}
	}
}

func TestAppendingToAQuotaFieldDoesNotSpill(t *testing.T) {
	t.Parallel()
	// The values of several fields lie in one slice: an application that adds a line must not write into the
	// next field.
	for format, fields := range map[guard.HeaderFormat][2]string{
		guard.RateLimitHeaders: {"RateLimit-Limit", "RateLimit-Remaining"}, guard.IETFDraft11: {"RateLimit", "RateLimit-Policy"},
	} {
		x := exchange()
		q := guard.Quota{Format: format, Limit: 10, Remaining: 1, Reset: time.Second}
		_ = x.Serve(chain(&guardtest.Spy{Name: "api", Decision: guard.Decision{Quota: q}}), handlerThatDoesNothing)
		h := x.Response.Header() // the very map
		next := h.Get(fields[1])
		h.Add(fields[0], "added")
		if got := h.Values(fields[1]); !slices.Equal(got, []string{next}) || next == "" {
			t.Errorf("%s was %q and is %q", fields[1], next, got)
		}
	}
}

// nested returns the headers of a request that outer and inner admitted in two chains.
func nested(outer, inner guard.Quota) http.Header {
	x := exchange()
	_, _ = chain(&guardtest.Spy{Name: "outer", Decision: guard.Decision{Quota: outer}}).Do(x, func() (int, error) {
		_ = x.Serve(chain(&guardtest.Spy{Name: "inner", Decision: guard.Decision{Quota: inner}}), http.NotFoundHandler())
		return 0, nil
	})
	return x.Response.Result().Header
}

func TestTighterQuotaOfTwoChains(t *testing.T) {
	t.Parallel()
	for format, field := range map[guard.HeaderFormat]string{
		guard.IETFDraft11: "RateLimit", guard.RateLimitHeaders: "RateLimit-Remaining",
		guard.XRateLimit: "X-RateLimit-Remaining", guard.XRateLimitEpoch: "X-RateLimit-Remaining",
	} {
		tight := guard.Quota{Format: format, Limit: 5, Remaining: 2, Reset: time.Second}
		loose := guard.Quota{Format: format, Limit: 50, Remaining: 20, Reset: time.Second}
		for _, h := range []http.Header{nested(tight, loose), nested(loose, tight)} {
			if got := h.Values(field); len(got) != 1 || got[0] != "2" && !strings.Contains(got[0], "r=2;") {
				t.Errorf("format %d: %s is %q", format, field, got)
			}
		}
	}
}

func TestForeignQuotaFieldsAreReplaced(t *testing.T) {
	t.Parallel()
	for _, foreign := range [][]string{{"nonsense"}, {`"a";r=x`}, {`"a"`, `"b"`}, {""}} {
		x := exchange()
		x.Response.Header()["Ratelimit"] = foreign
		_ = x.Serve(chain(&guardtest.Spy{Name: "api", Decision: guard.Decision{
			Quota: guard.Quota{Format: guard.IETF, Limit: 5, Remaining: 2, Reset: time.Second},
		}}), http.NotFoundHandler())
		if got := x.Response.Result().Header.Values("RateLimit"); !slices.Equal(got, []string{`"api";r=2;t=1`}) {
			t.Errorf("after %q the field is %q", foreign, got)
		}
	}
}

func TestOfEqualRemainingsTheLaterResetIsShown(t *testing.T) {
	t.Parallel()
	spies := []*guardtest.Spy{}
	for name, reset := range map[string]time.Duration{"soon": time.Second, "later": time.Hour} {
		spies = append(spies, &guardtest.Spy{Name: name, Decision: guard.Decision{
			Quota: guard.Quota{Format: guard.IETF, Limit: 5, Reset: reset},
		}})
	}
	x := exchange()
	_ = x.Serve(chain(spies[0], spies[1]), http.NotFoundHandler())
	if got := x.Response.Result().Header.Get("RateLimit"); got != `"later";r=0;t=3600` {
		t.Errorf("RateLimit is %s", got)
	}
}
