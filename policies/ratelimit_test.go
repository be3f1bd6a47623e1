package policies_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/guard/guardtest"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/policies"
	"github.com/trafficguard-go/trafficguard/resolver"
	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/memory"
)

var user = resolver.Header("X-User-Id")

// exchange returns a request of id; "" is nobody.
func exchange(method, pattern, id string) *guardtest.Exchange {
	r := httptest.NewRequest(method, pattern, nil)
	if id != "" {
		r.Header.Set("X-User-Id", id)
	}
	return guardtest.NewExchange(r)
}

// status runs x through policies and returns the status that the client gets.
func status(x *guardtest.Exchange, p ...guard.GuardPolicy) int {
	return statusOf(x, new(guard.TrafficGuard).Chain(p...))
}

func statusOf(x *guardtest.Exchange, c *guard.Chain) int {
	if rej := x.Serve(c, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) })); rej != nil {
		return rej.StatusCode()
	}
	return 200
}

func TestRateLimitKeepsThePolicyContract(t *testing.T) {
	guardtest.TestPolicy(t, func() guard.GuardPolicy {
		return policies.UserRateLimit(limit.PerMinute(1_000_000), resolver.Everyone(), policies.Headers(policies.IETF))
	})
}

func TestNamedBudgetsAreOneUnnamedOnesPerRoute(t *testing.T) {
	named := policies.UserRateLimit(limit.PerHour(1), user, policies.Named("api"))
	if got := []int{status(exchange("GET", "/a", "ann"), named), status(exchange("POST", "/b", "ann"), named)}; got[0] != 200 || got[1] != 429 {
		t.Errorf("named: %v, want one budget for all routes", got)
	}
	unnamed := policies.UserRateLimit(limit.PerHour(1), user)
	for _, tc := range []struct {
		method, pattern string
		want            int
	}{{"GET", "/a", 200}, {"HEAD", "/a", 429}, {"POST", "/a", 200}, {"GET", "/b", 200}, {"GET", "/a", 429}} {
		if got := status(exchange(tc.method, tc.pattern, "ann"), unnamed); got != tc.want {
			t.Errorf("unnamed, %s %s: %d, want %d", tc.method, tc.pattern, got, tc.want)
		}
	}
	for _, method := range []string{"GET", "BREW", "POST"} {
		x := exchange(method, "/nowhere", "bob")
		x.Matched.Pattern = ""
		want := 429
		if method == "GET" {
			want = 200
		}
		if got := status(x, unnamed); got != want {
			t.Errorf("%s without a route: %d, want %d: the method is the client's to choose", method, got, want)
		}
	}
}

func TestUnnamedPoliciesOfOneRouteDoNotMix(t *testing.T) {
	s := policies.InStore(memory.New())
	chain := new(guard.TrafficGuard).Chain(
		policies.UserRateLimit(limit.PerSecond(2), user, s), policies.UserRateLimit(limit.PerHour(3), user, s),
		policies.UserRateLimit(limit.PerHour(1), resolver.ClientIP(), s, policies.Exempt(resolver.HeaderIs("X-Skip-Ip", "yes"))))
	var got []int
	for range 3 {
		x := exchange("GET", "/a", "ann")
		x.Incoming.Header.Set("X-Skip-Ip", "yes")
		got = append(got, statusOf(x, chain))
	}
	if got[0] != 200 || got[1] != 200 || got[2] != 429 {
		t.Errorf("%v, want each limit to count for itself: 200 200 429", got)
	}
}

func TestPlans(t *testing.T) {
	plan := resolver.Header("X-Plan")
	p := policies.UserRateLimit(limit.PerHour(1), user, policies.Named("plans"),
		policies.Plans(plan, map[string]limit.Limit{"pro": limit.PerHour(3), "free": limit.PerHour(2)}))
	send := func(id, plan string) int {
		x := exchange("GET", "/", id)
		if plan != "" {
			x.Incoming.Header.Set("X-Plan", plan)
		}
		return status(x, p)
	}
	for plan, admits := range map[string]int{"": 1, "unknown": 1, "free": 2, "pro": 3} {
		for i := range admits + 1 {
			want := 200
			if i == admits {
				want = 429
			}
			if got := send("on-"+plan, plan); got != want {
				t.Errorf("plan %q, request %d: %d, want %d", plan, i+1, got, want)
			}
		}
	}
	// An hour of pro is spent; free owes an hour as well, so changing the plan is no way to a fresh budget.
	if got := send("on-pro", "free"); got != 429 {
		t.Errorf("after a change of plan: %d, want the debt to stay", got)
	}
}

func TestExemptElseAndUnidentified(t *testing.T) {
	admin := resolver.ValueIs("role", "admin")
	strict := policies.UserRateLimit(limit.PerHour(1), user, policies.Exempt(admin), policies.Challenge(`Key realm="shop"`))
	x := exchange("GET", "/", "")
	if got := status(x, strict); got != 401 || x.Response.Header().Get("WWW-Authenticate") != `Key realm="shop"` {
		t.Errorf("nobody: %d, challenge %q", got, x.Response.Header().Get("WWW-Authenticate"))
	}
	for range 3 {
		x := exchange("GET", "/", "")
		x.Values["role"] = "admin"
		if got := status(x, strict); got != 200 {
			t.Errorf("exempt: %d", got)
		}
	}
	open := policies.UserRateLimit(limit.PerHour(1), user, policies.AdmitUnidentified())
	for range 3 {
		if got := status(exchange("GET", "/", ""), open); got != 200 {
			t.Errorf("AdmitUnidentified: %d", got)
		}
	}
	both := policies.UserRateLimit(limit.PerHour(1), user, policies.Else(limit.PerHour(2), resolver.ClientIP()))
	for i, want := range []int{200, 200, 429} {
		if got := status(exchange("GET", "/", ""), both); got != want {
			t.Errorf("Else, request %d: %d, want %d", i+1, got, want)
		}
	}
	if got := status(exchange("GET", "/", "ann"), both); got != 200 {
		t.Errorf("who is named has another budget: %d", got)
	}
}

// failing is a store that is down.
type failing struct{ err error }

func (f failing) Take(context.Context, store.Request) (store.Grant, error) {
	return store.Grant{}, f.err
}
func (f failing) Peek(context.Context, store.Request) (limit.Verdict, error) {
	return limit.Verdict{}, f.err
}
func (f failing) Reset(context.Context, store.Key) error             { return f.err }
func (f failing) Settle(context.Context, store.Receipt, int64) error { return f.err }

func TestFailureModes(t *testing.T) {
	down := policies.InStore(failing{store.ErrUnavailable})
	broken := func(guard.Exchange) (resolver.Subject, error) { return resolver.Subject{}, errors.New("db") }
	for name, tc := range map[string]struct {
		tg   guard.FailureMode
		p    *policies.RateLimit
		want int
	}{
		"open by default":     {p: policies.UserRateLimit(limit.PerHour(1), user, down), want: 200},
		"closed by guard":     {tg: guard.Closed, p: policies.UserRateLimit(limit.PerHour(1), user, down), want: 503},
		"closed by policy":    {p: policies.UserRateLimit(limit.PerHour(1), user, down, policies.FailClosed()), want: 503},
		"open by policy":      {tg: guard.Closed, p: policies.UserRateLimit(limit.PerHour(1), user, down, policies.FailOpen()), want: 200},
		"resolver, closed":    {p: policies.UserRateLimit(limit.PerHour(1), broken, policies.FailClosed()), want: 503},
		"resolver, open":      {p: policies.UserRateLimit(limit.PerHour(1), broken), want: 200},
		"application's fault": {p: policies.UserRateLimit(limit.PerHour(1), resolver.Value("user_id")), want: 503},
		"cost cannot be told": {p: policies.UserRateLimit(limit.PerHour(1), user, policies.FailClosed(), policies.CostOf(func(guard.Exchange) (int64, error) { return 0, errors.New("db") })), want: 503},
	} {
		t.Run(name, func(t *testing.T) {
			var events []guard.Event
			tg := &guard.TrafficGuard{FailureMode: tc.tg, Observe: func(_ context.Context, e guard.Event) { events = append(events, e) }}
			x := exchange("GET", "/", "ann")
			x.Values["user_id"] = struct{}{}
			if got := statusOf(x, tg.Chain(tc.p)); got != tc.want {
				t.Errorf("status %d, want %d", got, tc.want)
			}
			if len(events) != 1 || events[0].Degraded != (tc.want == 200) {
				t.Errorf("events %+v: want one, degraded if the request passed", events)
			}
			if strings.Contains(x.Response.Body.String(), "db") {
				t.Errorf("the client reads the cause: %s", x.Response.Body)
			}
		})
	}
}

func TestPeekAndReset(t *testing.T) {
	p := policies.UserRateLimit(limit.PerHour(2), resolver.As("user", user),
		policies.Else(limit.PerHour(1), resolver.ClientIP()),
		policies.Plans(resolver.Header("X-Plan"), map[string]limit.Limit{"pro": limit.PerHour(20)}))
	ann := policies.Target{Subject: resolver.Subject{Kind: "user", Value: "ann"}, Route: guard.Route{Method: "GET", Pattern: "/"}}
	peek := func(target policies.Target) limit.Verdict {
		t.Helper()
		v, err := p.Peek(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := peek(ann); !v.OK || v.Remaining != 1 {
		t.Errorf("before: %+v", v)
	}
	status(exchange("GET", "/", "ann"), p)
	status(exchange("GET", "/", "ann"), p)
	if v := peek(ann); v.OK || v.Wait <= 0 {
		t.Errorf("spent: %+v", v)
	}
	pro := ann
	pro.Plan = "pro"
	if v := peek(pro); v.OK {
		t.Errorf("an hour's debt is pro's whole burst too: %+v", v)
	}
	fresh := pro
	fresh.Subject.Value = "bob"
	if v := peek(fresh); v.Remaining != 19 {
		t.Errorf("a fresh subject on pro: %+v, want 19 remaining", v)
	}
	for name, wrong := range map[string]policies.Target{
		"no subject": {Route: ann.Route}, "unknown plan": {Subject: ann.Subject, Plan: "gold"},
	} {
		if _, err := p.Peek(t.Context(), wrong); !errors.Is(err, policies.ErrTarget) {
			t.Errorf("Peek, %s: %v", name, err)
		}
		if err := p.Reset(t.Context(), wrong); !errors.Is(err, policies.ErrTarget) {
			t.Errorf("Reset, %s: %v", name, err)
		}
	}
	plain := policies.UserRateLimit(limit.PerHour(1), user)
	if _, err := plain.Peek(t.Context(), policies.Target{Subject: ann.Subject, Else: true}); !errors.Is(err, policies.ErrTarget) {
		t.Errorf("Peek, no Else: %v", err)
	}
	other := ann
	other.Else, other.Subject = true, resolver.Subject{Kind: "ip", Value: "192.0.2.1"}
	status(exchange("GET", "/", ""), p)
	if v := peek(other); v.OK {
		t.Errorf("Else: %+v", v)
	}
	if err := p.Reset(t.Context(), ann); err != nil {
		t.Fatal(err)
	}
	if v := peek(ann); !v.OK || v.Remaining != 1 {
		t.Errorf("after Reset: %+v", v)
	}
	if got := status(exchange("GET", "/", "ann"), p); got != 200 {
		t.Errorf("after Reset: %d", got)
	}
}

// TestNobodyPaysALargeDebtWithASmallPlan alternates between two limits under which one subject stands.
func TestNobodyPaysALargeDebtWithASmallPlan(t *testing.T) {
	large, small := limit.PerHour(100), limit.PerMinute(10)
	byPlan := policies.UserRateLimit(large, user, policies.Named("plans"),
		policies.Plans(resolver.Header("X-Plan"), map[string]limit.Limit{"small": small}))
	// The kind is the same on purpose: Else must be told apart all the same.
	byElse := policies.UserRateLimit(large, resolver.As("user", user), policies.Named("else"),
		policies.Else(small, resolver.As("user", resolver.Header("X-Other-Id"))))
	for name, tc := range map[string]struct {
		p      *policies.RateLimit
		header string
		value  string
		id     string
		most   int
	}{
		"plans": {byPlan, "X-Plan", "small", "ann", 100},
		"else":  {byElse, "X-Other-Id", "ann", "", 110},
	} {
		served := 0
		for range 5 {
			for range 120 {
				if status(exchange("GET", "/", "ann"), tc.p) == 200 {
					served++
				}
			}
			for range 12 {
				x := exchange("GET", "/", tc.id)
				x.Incoming.Header.Set(tc.header, tc.value)
				if status(x, tc.p) == 200 {
					served++
				}
			}
		}
		if served < 100 || served > tc.most+2 { // a token or two may grow meanwhile
			t.Errorf("%s: %d served within an instant, want at most %d", name, served, tc.most)
		}
	}
}

func TestChargeIf(t *testing.T) {
	answer := func(code int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	logins := policies.UserRateLimit(limit.PerHour(3), user, policies.ChargeIf(policies.Failed))
	chain := new(guard.TrafficGuard).Chain(logins)
	try := func(id string, code int) int {
		x := exchange("POST", "/login", id)
		if rej := x.Serve(chain, answer(code)); rej != nil {
			return rej.StatusCode()
		}
		return code
	}
	for i := range 10 {
		if got := try("ann", 200); got != 200 {
			t.Fatalf("login %d of ann, who knows her password: %d", i+1, got)
		}
	}
	for i, want := range []int{401, 401, 401, 429} {
		if got := try("bob", 401); got != want {
			t.Errorf("login %d of bob, who does not: %d, want %d", i+1, got, want)
		}
	}
	for range 3 { // a panic is not known to have succeeded
		func() {
			defer func() { _ = recover() }()
			_ = exchange("POST", "/login", "eve").Serve(chain, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") }))
		}()
	}
	if got := try("eve", 200); got != 429 {
		t.Errorf("after three panics: %d, want 429", got)
	}
}

func TestSettledCosts(t *testing.T) {
	llm := policies.UserRateLimit(limit.PerHour(1000), user, policies.Cost(500), policies.Settled(), policies.Named("llm"))
	chain := new(guard.TrafficGuard).Chain(llm)
	use := func(id string, tokens int64) int {
		x := exchange("POST", "/llm", id)
		rej := x.Serve(chain, http.HandlerFunc(func(_ http.ResponseWriter, _ *http.Request) {
			if err := llm.Settle(x.Request().Context(), 7); err != nil { // the last one counts
				t.Error(err)
			}
			if err := llm.Settle(x.Request().Context(), tokens); err != nil {
				t.Error(err)
			}
		}))
		if rej != nil {
			return rej.StatusCode()
		}
		return 200
	}
	left := func(id string) limit.Verdict {
		v, err := llm.Peek(t.Context(), policies.Target{Subject: resolver.Subject{Kind: "header:X-User-Id", Value: id}})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	use("ann", 20)
	if v := left("ann"); v.Remaining != 1000-20-500 { // Peek reckons with a reservation of 500
		t.Errorf("20 tokens used: %+v", v)
	}
	use("bob", 5000)
	if v := left("bob"); v.OK || v.Wait.Hours() < 4.4 || v.Wait.Hours() > 4.6 {
		t.Errorf("5000 of 1000 tokens used: %+v, want a wait of 4.5 h", v)
	}
	if got := use("bob", 1); got != 429 {
		t.Errorf("in debt: %d", got)
	}
	if err := llm.Settle(t.Context(), 1); !errors.Is(err, policies.ErrNotGuarded) {
		t.Errorf("a context of no request: %v", err)
	}
	if err := llm.Settle(t.Context(), -1); !errors.Is(err, limit.ErrCost) {
		t.Errorf("a negative cost: %v", err)
	}
	lost := policies.UserRateLimit(limit.PerHour(1), user, policies.Settled(), policies.InStore(failing{store.ErrUnavailable}))
	down := exchange("GET", "/", "ann")
	_ = down.Serve(new(guard.TrafficGuard).Chain(lost), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if err := lost.Settle(down.Request().Context(), 5); err != nil {
			t.Errorf("a request that passed undecided: %v, want nothing to happen", err)
		}
	}))
	open := policies.UserRateLimit(limit.PerHour(1), user, policies.Settled(), policies.Exempt(resolver.HeaderIs("X-Free", "1")))
	x := exchange("GET", "/", "ann")
	x.Incoming.Header.Set("X-Free", "1")
	_ = x.Serve(new(guard.TrafficGuard).Chain(open), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if err := open.Settle(x.Request().Context(), 5); err != nil {
			t.Errorf("an exempt request: %v, want nothing to happen", err)
		}
	}))
}

func TestOptions(t *testing.T) {
	limits := map[string]limit.Limit{"pro": limit.PerHour(3)}
	p := policies.UserRateLimit(limit.PerHour(1), user, nil, policies.Options(nil, policies.Options()),
		policies.Exempt(resolver.HeaderIs("X-A", "1")), policies.Exempt(resolver.HeaderIs("X-B", "1")),
		policies.Plans(resolver.First(resolver.ExemptWhen(resolver.HeaderIs("X-Plan", "staff")), resolver.Header("X-Plan")), limits))
	limits["pro"] = limit.PerHour(1)
	served := func(header, value string) int {
		n := 0
		for range 5 {
			x := exchange("GET", "/", "ann-"+header+value)
			x.Incoming.Header.Set(header, value)
			if status(x, p) == 200 {
				n++
			}
		}
		return n
	}
	for _, tc := range []struct {
		header, value string
		want          int
	}{{"X-A", "1", 5}, {"X-B", "1", 5}, {"X-A", "2", 1}, {"X-Plan", "pro", 3}, {"X-Plan", "staff", 5}} {
		if got := served(tc.header, tc.value); got != tc.want {
			t.Errorf("%s %s: %d of 5 served, want %d", tc.header, tc.value, got, tc.want)
		}
	}
}

func TestApplicationFaultsHaveTheirOwnCode(t *testing.T) {
	p := policies.UserRateLimit(limit.PerHour(1), resolver.Value("user_id"), policies.FailOpen())
	x := exchange("GET", "/", "")
	x.Values["user_id"] = 1.5
	if got := status(x, p); got != 503 || !strings.Contains(x.Response.Body.String(), `"guard_unavailable"`) {
		t.Errorf("%d %s", got, x.Response.Body)
	}
}

// TestResolversOfTheApplicationsOwn: half a subject must not put all strangers into one budget.
func TestResolversOfTheApplicationsOwn(t *testing.T) {
	half := func(x guard.Exchange) (resolver.Subject, error) {
		return resolver.Subject{Kind: "tenant", Value: x.Request().Header.Get("X-Tenant")}, nil
	}
	unkind := func(guard.Exchange) (resolver.Subject, error) { return resolver.Subject{Value: "ann"}, nil }
	for name, tc := range map[string]struct {
		who  resolver.Func
		want int
	}{"no value": {half, 401}, "no kind": {unkind, 503}, "everyone": {resolver.As("all", resolver.Everyone()), 200}} {
		p := policies.UserRateLimit(limit.PerHour(10), tc.who)
		for range 2 {
			if got := status(exchange("GET", "/", ""), p); got != tc.want {
				t.Errorf("%s: %d, want %d", name, got, tc.want)
			}
		}
	}
}

func TestSaturationIsNotTheFailureModes(t *testing.T) {
	p := policies.UserRateLimit(limit.PerHour(1), user, policies.InStore(failing{store.ErrSaturated}), policies.FailOpen())
	x := exchange("GET", "/", "ann")
	if got := status(x, p); got != 503 || !strings.Contains(x.Response.Body.String(), `"overloaded"`) || x.Response.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", got, x.Response.Body)
	}
}

// degraded is a store whose answers come from a stand-in.
type degraded struct{ store.RateStore }

func (d degraded) Take(ctx context.Context, r store.Request) (store.Grant, error) {
	g, err := d.RateStore.Take(ctx, r)
	g.Degraded = true
	return g, err
}

func TestStandInsAreReportedAndAskedWithinTheBudget(t *testing.T) {
	p := policies.UserRateLimit(limit.PerHour(1), user, policies.InStore(degraded{memory.New()}))
	if p.Requires()&guard.RequireBudget == 0 {
		t.Error("a store that does not say that it is local is asked without a budget")
	}
	if q := policies.UserRateLimit(limit.PerHour(1), user); q.Requires() != 0 {
		t.Errorf("the embedded store requires %b", q.Requires())
	}
	var events []guard.Event
	tg := &guard.TrafficGuard{Observe: func(_ context.Context, e guard.Event) { events = append(events, e) }}
	statusOf(exchange("GET", "/", "ann"), tg.Chain(p))
	statusOf(exchange("GET", "/", "ann"), tg.Chain(p))
	if len(events) != 2 || !events[0].Degraded || !events[1].Degraded {
		t.Errorf("%+v: want two degraded events", events)
	}
}

func TestExplain(t *testing.T) {
	p := policies.UserRateLimit(limit.PerHour(2), user, policies.Cost(2), policies.Exempt(resolver.HeaderIs("X-Free", "1")),
		policies.Plans(resolver.Header("X-Plan"), map[string]limit.Limit{"pro": limit.PerHour(20)}))
	explain := func(id, header, value string) policies.Explanation {
		t.Helper()
		x := exchange("GET", "/", id)
		if header != "" {
			x.Incoming.Header.Set(header, value)
		}
		e, err := p.Explain(t.Context(), x)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for range 3 {
		if e := explain("ann", "", ""); !e.Counted || e.Code != "" || e.Cost != 2 || e.Subject.Value != "ann" || !e.Verdict.OK || e.Limit != limit.PerHour(2) {
			t.Errorf("fresh: %+v", e)
		}
	}
	if e := explain("ann", "X-Plan", "pro"); e.Limit != limit.PerHour(20) || e.Verdict.Remaining != 18 {
		t.Errorf("on pro: %+v", e)
	}
	status(exchange("GET", "/", "ann"), p)
	if e := explain("ann", "", ""); e.Code != guard.RateLimitExceeded || e.Verdict.Wait <= 0 {
		t.Errorf("spent: %+v", e)
	}
	if e := explain("", "", ""); e.Counted || e.Code != guard.ClientUnidentified {
		t.Errorf("nobody: %+v", e)
	}
	if e := explain("ann", "X-Free", "1"); e.Counted || e.Code != "" {
		t.Errorf("exempt: %+v", e)
	}
	if e := explain("a\xff", "", ""); e.Code != guard.InvalidRequest {
		t.Errorf("malformed: %+v", e)
	}
}

func TestFaultsCanBeTakenApart(t *testing.T) {
	_, err := policies.NewUserRateLimit(limit.PerMinute(0), nil, policies.Named("api"))
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 2 {
		t.Fatalf("%v: want two faults, joined", err)
	}
	var fault *policies.ConfigError
	if !errors.As(err, &fault) || fault.Policy != `NewUserRateLimit "api"` || fault.Field == "" || fault.Reason == "" {
		t.Errorf("%+v", fault)
	}
}
