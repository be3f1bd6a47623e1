package guard_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/guard/guardtest"
)

// Policies run in the order in which they are written, and are left in reverse.
func Example_order() {
	var seen guardtest.Log
	layer := func(name string) guard.GuardPolicy { return &guardtest.Spy{Name: name, Log: &seen} }
	tg := new(guard.TrafficGuard)
	chain := tg.Chain(layer("shed"), layer("concurrency"), layer("rate"))

	x := guardtest.NewExchange(httptest.NewRequest(http.MethodGet, "/", nil)) // an adapter's part
	_ = x.Serve(chain, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add("handler") }))
	for _, line := range seen.Lines() {
		fmt.Println(line)
	}
	// Output:
	// before shed
	// before concurrency
	// before rate
	// handler
	// after rate
	// after concurrency
	// after shed
}

// OfficeHours lets nobody in outside of them. It is a whole policy.
type OfficeHours struct {
	guard.Base
	Opens, Closes int
	Now           func() time.Time
}

func (o *OfficeHours) Before(context.Context, guard.Exchange) (guard.Decision, error) {
	if h := o.Now().Hour(); o.Opens <= h && h < o.Closes {
		return guard.Decision{}, nil
	}
	return guard.Decision{Rejection: &guard.Rejection{
		Code: "closed", Status: http.StatusServiceUnavailable, Title: "The office is closed", Wait: time.Hour,
	}}, nil
}

// A policy of your own embeds [guard.Base] and writes the hooks that it needs.
func ExampleGuardPolicy() {
	late := time.Date(2026, time.November, 30, 22, 0, 0, 0, time.UTC)
	tg := new(guard.TrafficGuard)
	tg.Register("office-hours", &OfficeHours{Opens: 9, Closes: 17, Now: func() time.Time { return late }})

	x := guardtest.NewExchange(httptest.NewRequest(http.MethodGet, "/", nil))
	_ = x.Serve(tg.Chain(tg.Policy("office-hours")), http.NotFoundHandler())
	fmt.Println(x.Response.Code, x.Response.Header().Get("Retry-After"))
	fmt.Println(x.Response.Body)
	// Output:
	// 503 3600
	// {"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"The office is closed","status":503,"code":"closed","violated-policies":["office-hours"]}
}

// A custom answer replaces the problem document. Status and headers are those of the refusal, and the handler
// does not run whatever it does.
func ExampleTrafficGuard_answer() {
	tg := &guard.TrafficGuard{
		Answer: func(w http.ResponseWriter, _ *http.Request, r *guard.Rejection) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = fmt.Fprintf(w, "%s, says %s", r.Code, r.Policy)
		},
	}
	busy := &guardtest.Spy{Name: "exports", Decision: guard.Decision{
		Rejection: &guard.Rejection{Code: guard.ConcurrencyLimitHit},
	}}
	x := guardtest.NewExchange(httptest.NewRequest(http.MethodGet, "/", nil))
	_ = x.Serve(tg.Chain(busy), http.NotFoundHandler())
	fmt.Println(x.Response.Code, x.Response.Body)
	// Output: 429 concurrency_limit_hit, says exports
}

// What could not be decided passes, unless the policy or the application says otherwise.
func ExampleFailClosed() {
	down := &guardtest.Spy{Name: "logins", Err: context.DeadlineExceeded}
	tg := &guard.TrafficGuard{Observe: func(_ context.Context, e guard.Event) {
		fmt.Println(e.Policy, e.Kind, e.Mode)
	}}
	for _, p := range []guard.GuardPolicy{down, guard.FailClosed(down)} {
		x := guardtest.NewExchange(httptest.NewRequest(http.MethodGet, "/", nil))
		_ = x.Serve(tg.Chain(p), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		fmt.Println(x.Response.Code)
	}
	// Output:
	// logins undecided open
	// 200
	// logins undecided closed
	// 503
}
