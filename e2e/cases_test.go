package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/policies"
	"github.com/trafficguard-go/trafficguard/resolver"
	"github.com/trafficguard-go/trafficguard/store/memory"
)

// A clock is the embedded store's time in tests that must not wait.
type clock struct{ now atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.now.Store(time.Date(2030, 1, 2, 3, 4, 5, 678_000, time.UTC).UnixNano())
	return c
}

func (c *clock) time() time.Time         { return time.Unix(0, c.now.Load()) }
func (c *clock) advance(d time.Duration) { c.now.Add(int64(d)) }

// on keeps a policy's state in an embedded store that runs on c.
func (c *clock) on() policies.SharedOption {
	return policies.InStore(memory.New(memory.Clock(c.time)))
}

var user = resolver.Header("X-User-Id")

func want(t *testing.T, rule string, got, want []int) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s\n got %v\nwant %v", rule, got, want)
	}
}

func TestRetryAfterIsEnough(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		clk := newClock()
		p := policies.UserRateLimit(limit.PerSecond(10).Burst(1), user, clk.on())
		c := serve(t, mount(nil, "GET", "/x", ok, p))
		ann := header("X-User-Id", "ann")
		want(t, "the second of two at once is refused", c.statuses(2, "GET", ann), []int{200, 429})
		a := c.send("GET", "/x", ann)
		if got := a.header.Get("Retry-After"); got != "1" {
			t.Errorf("a wait of 100 ms is told as %q, want 1: whole seconds, rounded up, never 0", got)
		}
		clk.advance(time.Second)
		want(t, "waiting that long is enough", c.statuses(1, "GET", ann), []int{200})
	})
}

// gate is a policy that refuses while it is shut.
type gate struct {
	guard.Base
	shut   atomic.Bool
	code   guard.Code // "": overloaded
	status int
}

func (g *gate) Before(context.Context, guard.Exchange) (guard.Decision, error) {
	if g.shut.Load() {
		return guard.Decision{Rejection: &guard.Rejection{Code: cmp.Or(g.code, guard.Overloaded), Status: g.status}}, nil
	}
	return guard.Decision{}, nil
}

func TestLaterRefusalCostsNothing(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		g := new(gate)
		p := policies.UserRateLimit(limit.PerHour(10), user, policies.Headers(policies.RateLimitHeaders), newClock().on())
		c := serve(t, mount(nil, "GET", "/x", ok, p, g))
		ann := header("X-User-Id", "ann")
		g.shut.Store(true)
		want(t, "the gate refuses", c.statuses(9, "GET", ann), slices.Repeat([]int{503}, 9))
		g.shut.Store(false)
		if got := c.send("GET", "/x", ann).header.Get("RateLimit-Remaining"); got != "9" {
			t.Errorf("after nine requests that got no service and one that did, %s of 10 remain, want 9", got)
		}
	})
}

// TestRefusedGuessesAreCharged has a limit stand before a check of its own: a refund would make guessing free.
func TestRefusedGuessesAreCharged(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		perIP := policies.UserRateLimit(limit.PerHour(5), resolver.ClientIP(), newClock().on())
		perUser := policies.UserRateLimit(limit.PerHour(100), resolver.BodyField("user"), newClock().on())
		for name, tc := range map[string]struct {
			later  guard.GuardPolicy
			body   string
			status int
		}{
			"a check of the application's": {&gate{code: "wrong_key", status: 401}, `{"user":"ann"}`, 401},
			"a malformed request":          {perUser, `{"user":`, 400},
			"an unidentified client":       {perUser, `{}`, 401},
		} {
			if err := perIP.Reset(t.Context(), policies.Target{
				Subject: resolver.Subject{Kind: "ip", Value: "127.0.0.1"}, Route: guard.Route{Method: "POST", Pattern: "/x"},
			}); err != nil {
				t.Fatal(err)
			}
			if g, ok := tc.later.(*gate); ok {
				g.shut.Store(true)
			}
			c := serve(t, mount(nil, "POST", "/x", ok, perIP, tc.later))
			want(t, name, c.statuses(7, "POST", body(tc.body)),
				[]int{tc.status, tc.status, tc.status, tc.status, tc.status, 429, 429})
		}
	})
}

func TestBodyReachesTheHandler(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		var length atomic.Int64
		handler := func(w http.ResponseWriter, r *http.Request) {
			length.Store(r.ContentLength)
			ok(w, r)
		}
		p := policies.UserRateLimit(limit.PerHour(2), resolver.BodyField("user"), policies.AdmitUnidentified())
		c := serve(t, mount(nil, "POST", "/x", handler, p, p))
		const text = ` {"user":"u1","x":"é","n":9007199254740993} `
		if a := c.send("POST", "/x", body(text)); a.status != 200 || a.body != text || length.Load() != int64(len(text)) {
			t.Errorf("known length: %d, %d bytes announced, body %q", a.status, length.Load(), a.body)
		}
		chunked := func(r *http.Request) { body(`{"user":"u2"}`)(r); r.ContentLength = -1 }
		if a := c.send("POST", "/x", chunked); a.body != `{"user":"u2"}` || length.Load() != -1 {
			t.Errorf("chunked: %d, %d bytes announced, body %q", a.status, length.Load(), a.body)
		}
		if a := c.send("POST", "/x"); a.status != 200 || a.body != "" {
			t.Errorf("no body: %d %q", a.status, a.body)
		}
		if a := c.send("POST", "/x", header("Content-Type", "application/json")); a.status != 200 || a.body != "" {
			t.Errorf("empty body with a content type: %d %q", a.status, a.body)
		}
		want(t, "a refusal after the body was read leaves the connection usable",
			c.statuses(3, "POST", body(`{"user":"u1"}`)), []int{429, 429, 429})
	})
}

func TestBigIntegersAreDifferentPeople(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		p := policies.UserRateLimit(limit.PerHour(1), resolver.BodyField("user"))
		c := serve(t, mount(nil, "POST", "/x", ok, p))
		got := []int{
			c.send("POST", "/x", body(`{"user":9007199254740992}`)).status,
			c.send("POST", "/x", body(`{"user":9007199254740993}`)).status,
			c.send("POST", "/x", body(`{"user":9007199254740992}`)).status,
			c.send("POST", "/x", body(`{"user":"9007199254740993"}`)).status,
		}
		want(t, "ids above 2^53 stay apart; a number and its text are one person", got, []int{200, 200, 429, 429})
	})
}

func TestMappedAddressesAreUnwrapped(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		p := policies.UserRateLimit(limit.PerHour(1), resolver.ClientIP(resolver.TrustedProxies("127.0.0.1")))
		c := serve(t, mount(nil, "GET", "/x", ok, p))
		var got []int
		for _, from := range []string{"::ffff:192.0.2.10", "::ffff:198.51.100.20", "::ffff:c000:20a", "192.0.2.10"} {
			got = append(got, c.send("GET", "/x", header("X-Forwarded-For", from)).status)
		}
		want(t, "an IPv4 client is one client in each notation", got, []int{200, 200, 429, 429})
	})
}

func TestForwardingHeadersOfStrangersAreIgnored(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		p := policies.UserRateLimit(limit.PerHour(3), resolver.ClientIP())
		c := serve(t, mount(nil, "GET", "/x", ok, p))
		served := 0
		for i := range 20 {
			ip := fmt.Sprintf("203.0.113.%d", i)
			a := c.send("GET", "/x", header("X-Forwarded-For", ip), header("X-Real-IP", ip), header("True-Client-IP", ip),
				header("Forwarded", "for="+ip))
			if a.status == 200 {
				served++
			}
		}
		if served != 3 {
			t.Errorf("one peer with twenty forged addresses was served %d times, want 3", served)
		}
	})
}

func TestRightmostUntrustedHopCounts(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		p := policies.UserRateLimit(limit.PerHour(1), resolver.ClientIP(resolver.TrustedProxies("127.0.0.1/32")))
		c := serve(t, mount(nil, "GET", "/x", ok, p))
		got := []int{
			c.send("GET", "/x", header("X-Forwarded-For", "198.51.100.1, 203.0.113.7")).status,
			c.send("GET", "/x", header("X-Forwarded-For", "198.51.100.2", "203.0.113.7")).status,
			c.send("GET", "/x", header("X-Forwarded-For", "203.0.113.7, 198.51.100.1")).status,
			c.send("GET", "/x", header("X-Forwarded-For", "203.0.113.8, nonsense")).status,
		}
		want(t, "the hop that the trusted proxy saw, over all header lines; nonsense is refused", got, []int{200, 429, 200, 400})
	})
}

func TestKeyPartsStayApart(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		p := policies.UserRateLimit(limit.PerHour(1), resolver.Join(resolver.Header("X-Tenant"), resolver.BodyField("user")))
		c := serve(t, mount(nil, "POST", "/x", ok, p))
		for _, sep := range []string{":", "|", "{", "}", "%", "/", "+", "1:"} {
			got := []int{
				c.send("POST", "/x", header("X-Tenant", "a"), body(`{"user":"b`+sep+`c"}`)).status,
				c.send("POST", "/x", header("X-Tenant", "a"+sep+"b"), body(`{"user":"c"}`)).status,
			}
			want(t, "two tenants meet through "+strconv.Quote(sep), got, []int{200, 200})
		}
	})
}

func TestMissingIdentityIsNeverUnlimited(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		var later, handled atomic.Int64
		count := &countingPolicy{n: &later}
		handler := func(w http.ResponseWriter, r *http.Request) { handled.Add(1); ok(w, r) }

		strict := policies.UserRateLimit(limit.PerHour(1), user)
		c := serve(t, mount(nil, "GET", "/x", handler, strict, count))
		for name, p := range map[string]part{
			"no header": func(*http.Request) {}, "empty": header("X-User-Id", ""), "spaces": header("X-User-Id", "   "),
		} {
			for range 5 {
				a := c.send("GET", "/x", p)
				if a.status != 401 || a.header.Get("WWW-Authenticate") == "" || !strings.Contains(a.body, "client_unidentified") {
					t.Errorf("%s: %d, WWW-Authenticate %q, %s", name, a.status, a.header.Get("WWW-Authenticate"), a.body)
				}
			}
		}
		if a := c.send("GET", "/x", header("X-User-Id", "ann", "bob")); a.status != 400 {
			t.Errorf("two identities in one request: %d, want 400", a.status)
		}
		if handled.Load() != 0 {
			t.Errorf("the handler ran %d times for nobody", handled.Load())
		}

		byIP := policies.UserRateLimit(limit.PerHour(1), user, policies.Else(limit.PerHour(2), resolver.ClientIP()))
		c = serve(t, mount(nil, "GET", "/x", handler, byIP, count))
		want(t, "Else counts who is not named", c.statuses(4, "GET"), []int{200, 200, 429, 429})
		if later.Load() != 2 {
			t.Errorf("the policy behind was asked %d times, want 2", later.Load())
		}
	})
}

type countingPolicy struct {
	guard.Base
	n *atomic.Int64
}

func (p *countingPolicy) Before(context.Context, guard.Exchange) (guard.Decision, error) {
	p.n.Add(1)
	return guard.Decision{}, nil
}

func TestBadInputIsAClear4xx(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		p := policies.UserRateLimit(limit.PerHour(1000), resolver.BodyField("user.id", resolver.MaxBody(4096)))
		c := serve(t, mount(nil, "POST", "/x", ok, p))
		for name, tc := range map[string]struct {
			status int
			parts  []part
		}{
			"malformed":             {400, []part{body(`{"user":{"id":"a"`)}},
			"two documents":         {400, []part{body(`{"user":{"id":"a"}}{"user":{"id":"b"}}`)}},
			"missing field":         {401, []part{body(`{"user":{}}`)}},
			"null":                  {401, []part{body(`{"user":null}`)}},
			"empty object":          {401, []part{body(`{}`)}},
			"empty body":            {401, nil},
			"object for an id":      {400, []part{body(`{"user":{"id":{}}}`)}},
			"array for an id":       {400, []part{body(`{"user":{"id":["a"]}}`)}},
			"true for an id":        {400, []part{body(`{"user":{"id":true}}`)}},
			"fraction for an id":    {400, []part{body(`{"user":{"id":1.0}}`)}},
			"exponent for an id":    {400, []part{body(`{"user":{"id":1e3}}`)}},
			"top-level array":       {400, []part{body(`[{"user":{"id":"a"}}]`)}},
			"field twice":           {400, []part{body(`{"user":{"id":"a","id":"b"}}`)}},
			"parent twice":          {400, []part{body(`{"user":{"id":"a"},"user":{"id":"b"}}`)}},
			"other case":            {400, []part{body(`{"User":{"id":"a"}}`)}},
			"other case beside":     {400, []part{body(`{"user":{"id":"a","ID":"b"}}`)}},
			"Turkish case":          {400, []part{body(`{"user":{"id":"a","\u0130d":"b"}}`)}},
			"in the query too":      {400, []part{body(`{"user":{"id":"a"}}`), func(r *http.Request) { r.URL.RawQuery = "ID=b" }}},
			"null and in the query": {400, []part{body(`{"user":{"id":null}}`), func(r *http.Request) { r.URL.RawQuery = "id=b" }}},
			"malformed query":       {400, []part{body(`{"user":{"id":"a"}}`), func(r *http.Request) { r.URL.RawQuery = "%zz" }}},
			"no content type":       {415, []part{body(`{"user":{"id":"a"}}`), func(r *http.Request) { r.Header.Del("Content-Type") }}},
			"content type in caps":  {415, []part{body(`{"user":{"id":"a"}}`), header("Content-Type", "Application/JSON")}},
			"+json":                 {415, []part{body(`{"user":{"id":"a"}}`), header("Content-Type", "application/vnd.api+json")}},
			"invalid UTF-8":         {400, []part{body("{\"user\":{\"id\":\"a\xff\"}}")}},
			"lone surrogate":        {400, []part{body(`{"user":{"id":"\ud800"}}`)}},
			"wrong content type":    {415, []part{body(`{"user":{"id":"a"}}`), header("Content-Type", "text/plain")}},
			"compressed":            {415, []part{body(`{"user":{"id":"a"}}`), header("Content-Encoding", "gzip")}},
			"over the cap":          {413, []part{body(`{"user":{"id":"a"},"pad":"` + strings.Repeat("x", 5000) + `"}`)}},
			"over the cap, chunked": {413, []part{body(`{"pad":"` + strings.Repeat("x", 5000) + `"}`), func(r *http.Request) { r.ContentLength = -1 }}},
		} {
			a := c.send("POST", "/x", tc.parts...)
			if a.status != tc.status {
				t.Errorf("%s: %d %s, want %d", name, a.status, a.body, tc.status)
			}
			if got := a.header.Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("%s: content type %q", name, got)
			}
			if strings.Contains(a.body, "xxx") {
				t.Errorf("%s: the answer repeats what was sent: %s", name, a.body)
			}
		}
	})
}

func TestHugeAndInvalidHeaders(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		p := policies.UserRateLimit(limit.PerHour(1), user)
		c := serve(t, mount(nil, "GET", "/x", ok, p))
		huge := header("X-User-Id", strings.Repeat("u", 500_000))
		want(t, "a huge id is an id like another", c.statuses(2, "GET", huge), []int{200, 429})
		want(t, "an id that is not UTF-8 is refused", c.statuses(1, "GET", header("X-User-Id", "a\xff")), []int{400})
	})
}

func TestRefusalStopsTheHandler(t *testing.T) {
	answers := map[string]func(http.ResponseWriter, *http.Request, *guard.Rejection){
		"default":      nil,
		"only a body":  func(w http.ResponseWriter, _ *http.Request, _ *guard.Rejection) { _, _ = w.Write([]byte("no")) },
		"only headers": func(w http.ResponseWriter, _ *http.Request, _ *guard.Rejection) { w.Header().Set("X-No", "1") },
		"nothing":      func(http.ResponseWriter, *http.Request, *guard.Rejection) {},
	}
	onEach(t, func(t *testing.T, mount mount) {
		for name, answer := range answers {
			var handled atomic.Int64
			handler := func(w http.ResponseWriter, _ *http.Request) { handled.Add(1); _, _ = w.Write([]byte("secret")) }
			p := policies.UserRateLimit(limit.PerHour(1), user)
			c := serve(t, mount(&guard.TrafficGuard{Answer: answer}, "GET", "/x", handler, p))
			for i := range 5 {
				a := c.send("GET", "/x", header("X-User-Id", "ann"))
				if i > 0 && (strings.Contains(a.body, "secret") || a.header.Get("Retry-After") == "") {
					t.Errorf("%s: a refused request got %q, Retry-After %q", name, a.body, a.header.Get("Retry-After"))
				}
				if i > 0 && name != "only a body" && a.status != 429 {
					t.Errorf("%s: refused with %d", name, a.status)
				}
			}
			if handled.Load() != 1 {
				t.Errorf("%s: the handler ran %d times, want 1", name, handled.Load())
			}
		}
	})
}

func TestPanicPassesThroughAndIsCharged(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		var caught atomic.Value
		p := policies.UserRateLimit(limit.PerHour(3), user)
		app := mount(nil, "GET", "/x", func(http.ResponseWriter, *http.Request) { panic("boom") }, p)
		outside := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if v := recover(); v != nil {
					caught.Store(v)
					w.WriteHeader(500)
				}
			}()
			app.ServeHTTP(w, r)
		})
		c := serve(t, outside)
		want(t, "a request that panicked was a request", c.statuses(5, "GET", header("X-User-Id", "ann")), []int{500, 500, 500, 429, 429})
		if caught.Load() != "boom" {
			t.Errorf("the recovery outside caught %v, want boom", caught.Load())
		}
	})
}

func TestConfigurationFaultsAreNamedAtConstruction(t *testing.T) {
	for name, tc := range map[string]struct {
		limit   limit.Limit
		subject resolver.Func
		opts    []policies.RateOption
		says    []string
	}{
		"zero limit":      {limit.Limit{}, user, nil, []string{"Limit is limit.Limit{}", "missing"}},
		"zero quota":      {limit.PerMinute(0), user, nil, []string{"Limit", "quota 0"}},
		"negative quota":  {limit.PerMinute(-1), user, nil, []string{"quota -1"}},
		"zero period":     {limit.Every(0), user, nil, []string{"period 0s"}},
		"negative period": {limit.Per(1, -time.Second), user, nil, []string{"period -1s"}},
		"zero burst":      {limit.PerMinute(1).Burst(0), user, nil, []string{"burst 0"}},
		"negative burst":  {limit.PerMinute(1).Burst(-1), user, nil, []string{"burst -1"}},
		"absurd quota":    {limit.PerMinute(1 << 60), user, nil, []string{"quota"}},
		"no subject":      {limit.PerMinute(1), nil, nil, []string{"Subject"}},
		"nil store":       {limit.PerMinute(1), user, []policies.RateOption{policies.InStore(nil)}, []string{"InStore is nil"}},
		"nil store value": {limit.PerMinute(1), user, []policies.RateOption{policies.InStore((*memory.Store)(nil))}, []string{"InStore is nil"}},
		"empty name":      {limit.PerMinute(1), user, []policies.RateOption{policies.Named("")}, []string{"Named"}},
		"bad name":        {limit.PerMinute(1), user, []policies.RateOption{policies.Named("a{b}")}, []string{"Named", `"a{b}"`}},
		"zero cost":       {limit.PerMinute(1), user, []policies.RateOption{policies.Cost(0)}, []string{"Cost is 0"}},
		"cost too high":   {limit.PerMinute(10), user, []policies.RateOption{policies.Cost(11)}, []string{"Cost is 11", "can never pass"}},
		"nil cost":        {limit.PerMinute(10), user, []policies.RateOption{policies.CostOf(nil)}, []string{"CostOf"}},
		"nil exemption":   {limit.PerMinute(10), user, []policies.RateOption{policies.Exempt(nil)}, []string{"Exempt"}},
		"unknown format":  {limit.PerMinute(10), user, []policies.RateOption{policies.Headers(99)}, []string{"Headers"}},
		"bad else":        {limit.PerMinute(10), user, []policies.RateOption{policies.Else(limit.PerMinute(0), nil)}, []string{"Else.limit", "quota 0", "Else.subject is nil"}},
		"bad plan":        {limit.PerMinute(10), user, []policies.RateOption{policies.Plans(nil, map[string]limit.Limit{"pro": limit.PerDay(0)})}, []string{"Plans.plan", "Plans.limits[pro]", "quota 0"}},
		"no plans":        {limit.PerMinute(10), user, []policies.RateOption{policies.Plans(user, nil)}, []string{"Plans.limits", "at least one plan"}},
		"all at once": {limit.PerMinute(0).Burst(-2), nil, []policies.RateOption{policies.Named("?"), policies.Cost(-1)},
			[]string{"quota 0", "burst -2", "Subject", "Named", "Cost is -1"}},
	} {
		p, err := policies.NewUserRateLimit(tc.limit, tc.subject, tc.opts...)
		if err == nil || p != nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, s := range tc.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: the error does not say %q:\n%v", name, s, err)
			}
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: the constructor for route tables does not panic", name)
				}
			}()
			policies.UserRateLimit(tc.limit, tc.subject, tc.opts...)
		}()
	}
}

func TestSteadyRetrierIsServedAgain(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		clk := newClock()
		p := policies.UserRateLimit(limit.Per(5, 10*time.Second), user, clk.on())
		c := serve(t, mount(nil, "GET", "/x", ok, p))
		ann := header("X-User-Id", "ann")
		want(t, "the burst", c.statuses(6, "GET", ann), []int{200, 200, 200, 200, 200, 429})
		served := 0
		for range 60 {
			clk.advance(500 * time.Millisecond)
			if c.send("GET", "/x", ann).status == 200 {
				served++
			}
		}
		if served != 15 {
			t.Errorf("in 30 s of retries each 500 ms %d were served, want 15: one each 2 s", served)
		}
	})
}

func TestWaitIsTheTimeToTheNextRequest(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		clk := newClock()
		one := policies.UserRateLimit(limit.Every(10*time.Second), user, clk.on())
		six := policies.UserRateLimit(limit.PerMinute(6), user, clk.on())
		ann := header("X-User-Id", "ann")
		c := serve(t, mount(nil, "GET", "/x", ok, one))
		c.send("GET", "/x", ann)
		clk.advance(4 * time.Second)
		if got := c.send("GET", "/x", ann).header.Get("Retry-After"); got != "6" {
			t.Errorf("4 s into a wait of 10 s Retry-After is %s, want 6", got)
		}
		c = serve(t, mount(nil, "GET", "/x", ok, six))
		c.statuses(6, "GET", ann)
		for _, left := range []string{"10", "9", "8"} {
			if got := c.send("GET", "/x", ann).header.Get("Retry-After"); got != left {
				t.Errorf("Retry-After %s, want %s: the next token, not the period", got, left)
			}
			clk.advance(time.Second)
		}
		clk.advance(5500 * time.Millisecond)
		want(t, "1.5 s before its time a request is refused", c.statuses(1, "GET", ann), []int{429})
		clk.advance(1500 * time.Millisecond)
		want(t, "at its time it is served", c.statuses(1, "GET", ann), []int{200})
	})
}

func TestTightestQuotaIsShown(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		clk := newClock()
		shared := policies.Options(clk.on(), policies.Headers(policies.IETF))
		perUser := policies.UserRateLimit(limit.PerMinute(2), user, policies.Named("user"), shared)
		perIP := policies.UserRateLimit(limit.PerMinute(100), resolver.ClientIP(), policies.Named("ip"), shared)
		for _, chain := range [][]guard.GuardPolicy{{perUser, perIP}, {perIP, perUser}} {
			ann := header("X-User-Id", fmt.Sprint(chain[0].(*policies.RateLimit).PolicyName()))
			c := serve(t, mount(nil, "GET", "/x", ok, chain...))
			for i, says := range []string{`"user";r=1;t=30`, `"user";r=0;t=60`, `"user";r=0;t=30`} {
				a := c.send("GET", "/x", ann)
				if got := a.header.Values("RateLimit"); !slices.Equal(got, []string{says}) {
					t.Errorf("answer %d (%d): RateLimit %q, want %q", i+1, a.status, got, says)
				}
				if got := a.header.Values("RateLimit-Policy"); !slices.Equal(got, []string{`"user";q=2;w=60`}) {
					t.Errorf("answer %d: RateLimit-Policy %q", i+1, got)
				}
			}
		}
	})
}

func TestCostAboveTheBurst(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		cost := func(x guard.Exchange) (int64, error) {
			return strconv.ParseInt(x.Request().Header.Get("X-Cost"), 10, 64)
		}
		p := policies.UserRateLimit(limit.PerMinute(10), user, policies.CostOf(cost), policies.Headers(policies.RateLimitHeaders), newClock().on())
		c := serve(t, mount(nil, "GET", "/x", ok, p))
		ann := header("X-User-Id", "ann")
		a := c.send("GET", "/x", ann, header("X-Cost", "11"))
		if a.status != 429 || !strings.Contains(a.body, "cost_exceeds_limit") || a.header.Get("Retry-After") != "" {
			t.Errorf("cost 11 of 10: %d, Retry-After %q, %s", a.status, a.header.Get("Retry-After"), a.body)
		}
		if got := c.send("GET", "/x", ann, header("X-Cost", "1")).header.Get("RateLimit-Remaining"); got != "9" {
			t.Errorf("%s of 10 remain, want 9: what can never pass costs nothing", got)
		}
		for _, bad := range []string{"0", "-5", "-9223372036854775808"} {
			if got := c.send("GET", "/x", ann, header("X-Cost", bad)).status; got != 400 {
				t.Errorf("cost %s: %d, want 400", bad, got)
			}
		}
		if a := c.send("GET", "/x", ann, header("X-Cost", "9223372036854775807")); !strings.Contains(a.body, "cost_exceeds_limit") {
			t.Errorf("the largest cost: %d %s", a.status, a.body)
		}
	})
}

func TestLowRatesAndOddPeriods(t *testing.T) {
	for _, tc := range []struct {
		limit limit.Limit
		burst int
		wait  time.Duration
	}{
		{limit.Every(24 * time.Hour), 1, 24 * time.Hour},
		{limit.Every(720 * time.Hour), 1, 720 * time.Hour},
		{limit.PerMinute(6), 6, 10 * time.Second},
		{limit.Per(3, 1500*time.Millisecond), 3, 500 * time.Millisecond},
		{limit.Every(333333 * time.Microsecond), 1, 333333 * time.Microsecond},
		{limit.PerSecond(3).Burst(1), 1, 333334 * time.Microsecond},
	} {
		clk := newClock()
		p := policies.UserRateLimit(tc.limit, user, clk.on())
		c := serve(t, frameworks["gin"](nil, "GET", "/x", ok, p))
		ann := header("X-User-Id", "ann")
		want(t, tc.limit.String()+": the burst, and no more", c.statuses(tc.burst+1, "GET", ann),
			append(slices.Repeat([]int{200}, tc.burst), 429))
		clk.advance(tc.wait - time.Microsecond)
		want(t, tc.limit.String()+": not before its time", c.statuses(1, "GET", ann), []int{429})
		clk.advance(time.Microsecond)
		want(t, tc.limit.String()+": at its time, once", c.statuses(2, "GET", ann), []int{200, 429})
	}
}

func TestPreflightCanBeExempt(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		p := policies.UserRateLimit(limit.PerHour(1), resolver.Everyone(), policies.Exempt(resolver.Preflight()))
		c := serve(t, mount(nil, "OPTIONS", "/x", ok, p))
		origin, method := header("Origin", "https://shop.example"), header("Access-Control-Request-Method", "GET")
		want(t, "true preflights are free", c.statuses(3, "OPTIONS", origin, method), []int{200, 200, 200})
		want(t, "an OPTIONS that is none is not", c.statuses(2, "OPTIONS", origin), []int{200, 429})
	})
}

func TestHeadersSetOutsideSurviveARefusal(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		p := policies.UserRateLimit(limit.PerHour(1), resolver.Everyone())
		app := mount(nil, "GET", "/x", ok, p)
		c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Access-Control-Allow-Origin", "https://shop.example")
			app.ServeHTTP(w, r)
		}))
		c.send("GET", "/x")
		if a := c.send("GET", "/x"); a.status != 429 || a.header.Get("Access-Control-Allow-Origin") == "" {
			t.Errorf("%d, headers %v", a.status, a.header)
		}
	})
}

func TestPathSpellingsShareABudget(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		s := memory.New()
		p := policies.UserRateLimit(limit.PerHour(5), user, policies.InStore(s))
		c := serve(t, mount(nil, "GET", "/users/:id", ok, p))
		c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		served := 0
		for i := range 50 {
			for _, path := range []string{"/users/%d", "/users/%%3%d", "/users/%d?a=1", "/users//%d", "/Users/%d", "/users/%d/"} {
				if c.send("GET", fmt.Sprintf(path, i%10), header("X-User-Id", "ann")).status == 200 {
					served++
				}
			}
		}
		if served != 5 || s.Len() != 1 {
			t.Errorf("%d requests were served under %d keys, want 5 under 1", served, s.Len())
		}
	})
}

func TestProblemDocumentsAreTheSameEverywhere(t *testing.T) {
	const wantBody = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too many requests",` +
		`"status":429,"code":"rate_limit_exceeded","violated-policies":["api"]}`
	onEach(t, func(t *testing.T, mount mount) {
		p := policies.UserRateLimit(limit.PerHour(1), user, policies.Named("api"))
		c := serve(t, mount(nil, "GET", "/x", ok, p))
		ann := header("X-User-Id", "ann")
		c.send("GET", "/x", ann)
		for _, accept := range []string{"application/json", "text/html", ""} {
			a := c.send("GET", "/x", ann, header("Accept", accept))
			if a.status != 429 || a.body != wantBody || a.header.Get("Content-Type") != "application/problem+json" ||
				a.header.Get("Content-Length") != strconv.Itoa(len(wantBody)) {
				t.Errorf("Accept %q: %d %v\n%s", accept, a.status, a.header, a.body)
			}
			if strings.Contains(a.body, "ann") {
				t.Errorf("the answer names the subject")
			}
		}
	})
}

func TestConcurrentBurstInOneProcess(t *testing.T) {
	onEach(t, func(t *testing.T, mount mount) {
		p := policies.UserRateLimit(limit.PerHour(100), user)
		c := serve(t, mount(nil, "GET", "/x", ok, p))
		if got := burst(c, 200, "ann"); got[200] != 100 || got[429] != 100 {
			t.Errorf("of 200 at once against 100 an hour: %v", got)
		}
	})
}

// burst sends n requests at once on behalf of id and counts the statuses; 0 is a request without an answer.
func burst(c *client, n int, id string) map[int]int {
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[int]int{}
	begin := make(chan struct{})
	for range n {
		wg.Go(func() {
			<-begin
			a, err := c.try("GET", "/x", header("X-User-Id", id))
			if err != nil {
				a.status = 0
			}
			mu.Lock()
			got[a.status]++
			mu.Unlock()
		})
	}
	close(begin)
	wg.Wait()
	return got
}
