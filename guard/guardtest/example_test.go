package guardtest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/guard/guardtest"
)

// A policy can be tried without a framework and without a server.
func ExampleExchange() {
	members := &guardtest.Spy{Name: "members", OnBefore: func(_ context.Context, x guard.Exchange) (guard.Decision, error) {
		if x.Value("user_id") == nil {
			return guard.Decision{Rejection: &guard.Rejection{Code: guard.ClientUnidentified}}, nil
		}
		return guard.Decision{}, nil
	}}
	chain := new(guard.TrafficGuard).Chain(members)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("welcome")) })

	for _, user := range []any{nil, 7} {
		x := guardtest.NewExchange(httptest.NewRequest(http.MethodGet, "/club", nil))
		x.Values["user_id"] = user
		_ = x.Serve(chain, handler)
		fmt.Println(x.Response.Code, x.Response.Body)
	}
	// Output:
	// 401 {"type":"about:blank","title":"The client could not be identified","status":401,"code":"client_unidentified"}
	// 200 welcome
}

// A Spy shows whether, and in which order, the policies of a chain ran.
func ExampleSpy() {
	seen := new(guardtest.Log)
	full := &guardtest.Spy{Name: "pool", Log: seen, Decision: guard.Decision{
		Rejection: &guard.Rejection{Code: guard.ConcurrencyLimitHit},
	}}
	first := &guardtest.Spy{Name: "first", Log: seen}

	x := guardtest.NewExchange(httptest.NewRequest(http.MethodGet, "/", nil))
	_ = x.Serve(new(guard.TrafficGuard).Chain(first, full), http.NotFoundHandler())
	for _, line := range seen.Lines() {
		fmt.Println(line)
	}
	fmt.Printf("the handler ran: %t\n", first.Outcomes()[0].Ran)
	// Output:
	// before first
	// before pool
	// after first
	// the handler ran: false
}
