package guardtest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/trafficguard-go/trafficguard/guard"
)

// An Adapter is what [TestAdapter] has to know about the adapter that it tests.
type Adapter struct {
	// Mount builds the application that app describes, with the framework's own means and nothing else: no
	// recovery, no logging, no error handler.
	Mount func(app App) http.Handler
	// Pattern translates the pattern of a [Route] into the one that the framework has for it, see [Colon].
	// nil means that they are the same.
	Pattern func(pattern string) string

	// The rest says what the framework cannot tell. The zero value says that it can tell everything.

	// NoStatus: the outcome's status is 0 unless a policy asks for [guard.RequireStatus].
	NoStatus bool
	// NoError: handlers return and record no errors.
	NoError bool
	// NoInner: an outer chain does not learn that an inner one refused.
	NoInner bool
}

// An App describes an application for an [Adapter] to build.
type App struct {
	// TrafficGuard is what all guards of the application are made from. It is not nil.
	TrafficGuard *guard.TrafficGuard
	// Values are to be set on the framework's context before any guard runs, as an authenticating middleware
	// would do.
	Values map[string]any
	// Use are the policies of a guard around the whole application, which sees also those requests that no
	// route matches. nil means that there is no such guard.
	Use []guard.GuardPolicy
	// Group are the policies of a guard around all Routes. nil means that there is none.
	Group []guard.GuardPolicy
	// Routes are the routes. No two have the same method and pattern.
	Routes []Route
}

// A Route describes a route of an [App].
type Route struct {
	Method string
	// Pattern is written as net/http has it, with at most one parameter, which is a whole segment:
	// "/items/{id}".
	Pattern string
	// Policies are those of the route's own guard. nil means that it has none.
	Policies []guard.GuardPolicy
	Handler  Handler
}

// A Handler is a handler in no framework's terms. Mount hands w and r to it as they are where the framework's
// own handler runs, and hands an error to the framework as its handlers do: Echo's return it, Gin's record it.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Colon translates "/items/{id}" into "/items/:id".
func Colon(pattern string) string {
	return strings.NewReplacer("{", ":", "}", "").Replace(pattern)
}

// TestAdapter holds an adapter to everything that an application relies on. It mounts many small applications,
// at the same time; the cases that stream start a server on the loopback interface.
func TestAdapter(t *testing.T, a Adapter) {
	t.Helper()
	if a.Pattern == nil {
		a.Pattern = func(pattern string) string { return pattern }
	}
	for _, cases := range [][]adapterCase{
		admissionCases, refusalCases, headerCases, outcomeCases, failureCases, exchangeCases, streamCases,
	} {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				explain(t, c.rule)
				c.run(t, a)
			})
		}
	}
}

type adapterCase struct {
	name, rule string
	run        func(t *testing.T, a Adapter)
}

// item is the route that most cases use.
const item = "/items/{id}"

// one mounts an application of one route, "GET /items/{id}", behind policies.
func (a Adapter) one(tg *guard.TrafficGuard, h Handler, policies ...guard.GuardPolicy) http.Handler {
	if tg == nil {
		tg = new(guard.TrafficGuard)
	}
	return a.Mount(App{
		TrafficGuard: tg,
		Routes:       []Route{{Method: http.MethodGet, Pattern: item, Policies: policies, Handler: h}},
	})
}

// get sends one GET request for an item.
func get(h http.Handler) *httptest.ResponseRecorder { return send(h, http.MethodGet, "/items/7") }

func send(h http.Handler, method, target string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(method, target, nil))
	return rec
}

// says returns a handler that writes text, and counts its calls in n if that is not nil.
func says(text string, n *int) Handler {
	return func(w http.ResponseWriter, _ *http.Request) error {
		if n != nil {
			*n++
		}
		_, err := w.Write([]byte(text))
		return err
	}
}

// policies makes a list of policies out of spies.
func policies(spies ...*Spy) []guard.GuardPolicy {
	list := make([]guard.GuardPolicy, len(spies))
	for i, s := range spies {
		list[i] = s
	}
	return list
}

// refusing returns a spy that refuses every request, for too many of them.
func refusing(name string) *Spy {
	return &Spy{Name: name, Decision: guard.Decision{Rejection: &guard.Rejection{Code: guard.RateLimitExceeded}}}
}

// recovered runs f and returns what it panicked with, nil if it did not.
func recovered(f func()) (fault any) {
	defer func() { fault = recover() }()
	f()
	return nil
}

// onlyOutcome returns the outcome that s saw, and fails the test unless it saw exactly one.
func onlyOutcome(t *testing.T, s *Spy) guard.Outcome {
	t.Helper()
	o := s.Outcomes()
	if len(o) != 1 {
		t.Fatalf("After of %q ran %d times for one request that Before admitted", s.Name, len(o))
	}
	return o[0]
}
