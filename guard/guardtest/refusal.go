package guardtest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/guard"
)

// The bodies of refusals, byte for byte.
const (
	rateLimited = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too many requests",` +
		`"status":429,"code":"rate_limit_exceeded","violated-policies":["api"]}`
	overloaded = `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",` +
		`"title":"The server is overloaded","status":503,"code":"overloaded","violated-policies":["api"]}`
	unidentified = `{"type":"about:blank","title":"The client could not be identified","status":401,` +
		`"detail":"Log in first.","code":"client_unidentified"}`
	custom = `{"type":"about:blank","title":"Closed for today","status":418,"code":"closed"}`
)

var refusalCases = []adapterCase{
	{
		"refused",
		"a refused request reaches neither the policies after the one that refused nor the handler; what came before is released, as not run",
		func(t *testing.T, a Adapter) {
			ran, outer, after := 0, &Spy{Name: "outer"}, &Spy{Name: "after"}
			rec := get(a.one(nil, says("from the handler", &ran), outer, refusing("api"), after))
			if ran != 0 || len(after.Routes()) != 0 || strings.Contains(rec.Body.String(), "from the handler") {
				t.Errorf("the handler ran %d times, a later policy %d times", ran, len(after.Routes()))
			}
			if o := onlyOutcome(t, outer); o.Ran || o.Panicked || o.Status != 0 || o.Err != nil {
				t.Errorf("the outcome is %+v", o)
			}
		},
	},
	{
		"refused answer",
		"status, headers and body of a refusal are the same in every framework, to the byte",
		func(t *testing.T, a Adapter) {
			for _, c := range []struct {
				rejection guard.Rejection
				status    int
				retry     string
				body      string
			}{
				{guard.Rejection{Code: guard.RateLimitExceeded, Wait: 3 * time.Second}, 429, "3", rateLimited},
				{guard.Rejection{Code: guard.Overloaded}, 503, "1", overloaded},
				{guard.Rejection{Code: guard.ClientUnidentified, Detail: "Log in first."}, 401, "", unidentified},
				{guard.Rejection{Code: "closed", Status: 418, Title: "Closed for today"}, 418, "", custom},
			} {
				rec := get(a.one(nil, says("", nil), &Spy{Name: "api", Decision: guard.Decision{Rejection: &c.rejection}}))
				if rec.Code != c.status || rec.Body.String() != c.body {
					t.Errorf("got  %d %s\nwant %d %s", rec.Code, rec.Body, c.status, c.body)
				}
				for name, want := range map[string]string{
					"Content-Type":           "application/problem+json",
					"Content-Length":         strconv.Itoa(len(c.body)),
					"X-Content-Type-Options": "nosniff",
					"Cache-Control":          "no-store",
					"Retry-After":            c.retry,
				} {
					if got := rec.Result().Header.Get(name); got != want {
						t.Errorf("%s: %s is %q, not %q", c.rejection.Code, name, got, want)
					}
				}
			}
		},
	},
	{
		"refused HEAD",
		"a refused HEAD request gets the headers of the refusal and no body",
		func(t *testing.T, a Adapter) {
			h := a.Mount(App{TrafficGuard: new(guard.TrafficGuard), Routes: []Route{
				{Method: http.MethodHead, Pattern: item, Policies: policies(refusing("api")), Handler: says("", nil)},
			}})
			rec := send(h, http.MethodHead, "/items/7")
			if rec.Code != 429 || rec.Body.Len() != 0 || rec.Header().Get("Content-Length") != strconv.Itoa(len(rateLimited)) {
				t.Errorf("the response is %d %v %q", rec.Code, rec.Header(), rec.Body)
			}
		},
	},
	{
		"refused everywhere",
		"a guard around the application refuses before any route is looked at, requests without a route included",
		func(t *testing.T, a Adapter) {
			ran := 0
			h := a.Mount(App{
				TrafficGuard: new(guard.TrafficGuard), Use: policies(refusing("api")),
				Routes: []Route{{Method: http.MethodGet, Pattern: item, Handler: says("", &ran)}},
			})
			for _, target := range []string{"/items/7", "/nowhere"} {
				if rec := send(h, http.MethodGet, target); rec.Code != 429 || rec.Body.String() != rateLimited {
					t.Errorf("%s: the response is %d %q", target, rec.Code, rec.Body)
				}
			}
			if rec := send(h, http.MethodHead, "/nowhere"); rec.Code != 429 || rec.Body.Len() != 0 {
				t.Errorf("HEAD /nowhere: the response is %d %q", rec.Code, rec.Body)
			}
			if ran != 0 {
				t.Errorf("the handler ran %d times", ran)
			}
		},
	},
	{
		"custom answer",
		"a custom answer replaces the body, its status is the refusal's, and whatever it does or leaves undone, the handler does not run",
		func(t *testing.T, a Adapter) {
			for name, c := range map[string]struct {
				answer func(w http.ResponseWriter, r *http.Request, rej *guard.Rejection)
				status int
				body   string
			}{
				"body only": {
					func(w http.ResponseWriter, _ *http.Request, rej *guard.Rejection) {
						_, _ = w.Write([]byte("refused by " + rej.Policy))
					}, 429, "refused by api",
				},
				"status and body": {
					func(w http.ResponseWriter, _ *http.Request, _ *guard.Rejection) {
						w.WriteHeader(http.StatusTeapot)
						_, _ = w.Write([]byte("tea?"))
					}, 418, "tea?",
				},
				"status only": {
					func(w http.ResponseWriter, _ *http.Request, _ *guard.Rejection) { w.WriteHeader(http.StatusTeapot) }, 418, "",
				},
				"nothing": {
					func(http.ResponseWriter, *http.Request, *guard.Rejection) {}, 429, rateLimited,
				},
			} {
				ran := 0
				h := a.one(&guard.TrafficGuard{Answer: c.answer}, says("from the handler", &ran), refusing("api"))
				rec := get(h)
				if ran != 0 || rec.Code != c.status || rec.Body.String() != c.body {
					t.Errorf("%s: the handler ran %d times, the response is %d %q", name, ran, rec.Code, rec.Body)
				}
				if rec.Result().Header.Get("Retry-After") != "1" {
					t.Errorf("%s: the headers of the refusal are missing: %v", name, rec.Header())
				}
			}
		},
	},
	{
		"panicking answer",
		"a custom answer that panics does not let the handler run, and the panic passes through",
		func(t *testing.T, a Adapter) {
			ran := 0
			tg := &guard.TrafficGuard{Answer: func(http.ResponseWriter, *http.Request, *guard.Rejection) { panic("no answer") }}
			h := a.one(tg, says("", &ran), refusing("api"))
			if fault := recovered(func() { get(h) }); fault != "no answer" || ran != 0 {
				t.Errorf("recovered %v; the handler ran %d times", fault, ran)
			}
		},
	},
	{
		"headers set before",
		"the guard leaves headers that are already set alone, CORS headers for instance",
		func(t *testing.T, a Adapter) {
			for _, spy := range []*Spy{{Name: "api"}, refusing("api")} {
				inner := a.one(nil, says("", nil), spy)
				h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Access-Control-Allow-Origin", "https://shop.example")
					w.Header().Add("Vary", "Origin")
					inner.ServeHTTP(w, r)
				})
				rec := get(h)
				if h := rec.Result().Header; h.Get("Access-Control-Allow-Origin") != "https://shop.example" || h.Get("Vary") != "Origin" {
					t.Errorf("status %d: the headers are %v", rec.Code, h)
				}
			}
		},
	},
	{
		"shared rejection",
		"a policy may share one Rejection among all requests: nobody writes into it",
		func(t *testing.T, a Adapter) {
			spy := refusing("api")
			was := *spy.Decision.Rejection
			h := a.one(nil, says("", nil), spy)
			for range 3 {
				get(h)
			}
			if now := *spy.Decision.Rejection; !reflect.DeepEqual(was, now) {
				t.Errorf("the policy's rejection was %+v and is now %+v", was, now)
			}
		},
	},
	{
		"observed refusal",
		"the observer is told of every refusal, with the names of policy and route",
		func(t *testing.T, a Adapter) {
			var events []guard.Event
			tg := &guard.TrafficGuard{Observe: func(_ context.Context, e guard.Event) { events = append(events, e) }}
			get(a.one(tg, says("", nil), &Spy{Name: "outer"}, refusing("api")))
			want := guard.Route{Method: http.MethodGet, Pattern: a.Pattern(item)}
			if len(events) != 2 || events[0].Kind != guard.Admitted || events[1].Kind != guard.Refused {
				t.Fatalf("the events are %+v", events)
			}
			if e := events[1]; e.Policy != "api" || e.Route != want || e.Rejection == nil || e.Rejection.Policy != "api" {
				t.Errorf("the event is %+v", e)
			}
		},
	},
	{
		"timeout outside",
		"where a timeout middleware outside the guard has answered, what was taken is kept until the handler really returns",
		func(t *testing.T, a Adapter) {
			release := make(chan struct{})
			done := make(chan struct{})
			spy := &Spy{OnAfter: func(context.Context, guard.Exchange, guard.Decision, guard.Outcome) error {
				close(done)
				return nil
			}}
			h := a.one(nil, func(http.ResponseWriter, *http.Request) error { <-release; return nil }, spy)
			rec := httptest.NewRecorder()
			http.TimeoutHandler(h, time.Millisecond, "").ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/items/7", nil))
			if rec.Code != http.StatusServiceUnavailable || len(spy.Outcomes()) != 0 {
				t.Errorf("the response is %d, After ran %d times while the handler was running", rec.Code, len(spy.Outcomes()))
			}
			close(release)
			<-done
		},
	},
}
