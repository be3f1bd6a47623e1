package guardtest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/trafficguard-go/trafficguard/guard"
)

type contextKey struct{}

var exchangeCases = []adapterCase{
	{
		"parameters",
		"a policy sees the parameters of the path, and nothing for one that there is not",
		func(t *testing.T, a Adapter) {
			var id, other string
			get(a.one(nil, says("", nil), &Spy{OnBefore: func(_ context.Context, x guard.Exchange) (guard.Decision, error) {
				id, other = x.PathParam("id"), x.PathParam("other")
				return guard.Decision{}, nil
			}}))
			if id != "7" || other != "" {
				t.Errorf("id is %q, other is %q", id, other)
			}
		},
	},
	{
		"values",
		"a policy sees what middleware stored on the framework's context, and nil for what was not stored",
		func(t *testing.T, a Adapter) {
			var user, role, other any
			spy := &Spy{OnBefore: func(_ context.Context, x guard.Exchange) (guard.Decision, error) {
				user, role, other = x.Value("user_id"), x.Value("role"), x.Value("other")
				return guard.Decision{}, nil
			}}
			get(a.Mount(App{
				TrafficGuard: new(guard.TrafficGuard), Values: map[string]any{"user_id": 42, "role": "admin"},
				Routes: []Route{{Method: http.MethodGet, Pattern: item, Policies: policies(spy), Handler: says("", nil)}},
			}))
			if user != 42 || role != "admin" || other != nil {
				t.Errorf("user_id is %v, role is %v, other is %v", user, role, other)
			}
		},
	},
	{
		"request",
		"a policy sees the request that the handler will see",
		func(t *testing.T, a Adapter) {
			var seen *http.Request
			get(a.one(nil, func(_ http.ResponseWriter, r *http.Request) error {
				if r != seen {
					t.Error("the handler has another request than the policy")
				}
				return nil
			}, &Spy{OnBefore: func(_ context.Context, x guard.Exchange) (guard.Decision, error) {
				seen = x.Request()
				return guard.Decision{}, nil
			}}))
			if seen == nil {
				t.Fatal("the policy saw no request")
			}
		},
	},
	{
		"response header",
		"what a policy sets in the response's headers reaches the client",
		func(t *testing.T, a Adapter) {
			rec := get(a.one(nil, says("", nil), &Spy{OnBefore: func(_ context.Context, x guard.Exchange) (guard.Decision, error) {
				x.ResponseHeader().Set("X-Seen", "yes")
				return guard.Decision{}, nil
			}}))
			if got := rec.Result().Header.Get("X-Seen"); got != "yes" {
				t.Errorf("X-Seen is %q", got)
			}
		},
	},
	{
		"context",
		"the context that a policy sets is what later policies and the handler see; outside the chain the old one is back",
		eachNeed(checkContext),
	},
	{
		"body",
		"a policy may wrap the request's body",
		func(t *testing.T, a Adapter) {
			spy := &Spy{OnBefore: func(_ context.Context, x guard.Exchange) (guard.Decision, error) {
				r := x.Request()
				head := make([]byte, 5)
				if _, err := io.ReadFull(r.Body, head); err != nil {
					return guard.Decision{}, err
				}
				r.Body = struct {
					io.Reader
					io.Closer
				}{io.MultiReader(strings.NewReader(string(head)), r.Body), r.Body}
				return guard.Decision{}, nil
			}}
			h := a.Mount(App{TrafficGuard: new(guard.TrafficGuard), Routes: []Route{{
				Method: http.MethodPost, Pattern: item, Policies: policies(spy),
				Handler: func(w http.ResponseWriter, r *http.Request) error { _, err := io.Copy(w, r.Body); return err },
			}}})
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/items/7", strings.NewReader("hello, world")))
			if got := rec.Body.String(); got != "hello, world" {
				t.Errorf("the handler read %q", got)
			}
		},
	},
	{
		"route",
		"the route is what the application registered: method and pattern, however the client spells the path",
		func(t *testing.T, a Adapter) {
			spy := &Spy{}
			h := a.one(nil, says("", nil), spy)
			for _, target := range []string{"/items/1", "/items/2", "/items/%31", "/items/1?a=1", "/items/1", "/Items/1"} {
				send(h, http.MethodGet, target)
			}
			want := guard.Route{Method: http.MethodGet, Pattern: a.Pattern(item)}
			if len(spy.Routes()) < 5 {
				t.Errorf("the policy saw only %d requests", len(spy.Routes()))
			}
			for _, got := range spy.Routes() {
				if got != want {
					t.Errorf("the route is %q, not %q", got, want)
				}
			}
		},
	},
	{
		"route for each method",
		"a path with several methods has a route for each, HEAD included",
		func(t *testing.T, a Adapter) {
			spy := &Spy{}
			var routes []Route
			var want []guard.Route
			for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
				routes = append(routes, Route{Method: m, Pattern: item, Policies: policies(spy), Handler: says("", nil)})
				want = append(want, guard.Route{Method: m, Pattern: a.Pattern(item)})
			}
			h := a.Mount(App{TrafficGuard: new(guard.TrafficGuard), Routes: routes})
			for _, r := range routes {
				send(h, r.Method, "/items/7")
			}
			if got := spy.Routes(); !slices.Equal(got, want) {
				t.Errorf("the routes are %v, not %v", got, want)
			}
		},
	},
	{
		"route of any method",
		"the method is the client's to choose: what was not registered is *, and a client cannot make up routes to be counted by",
		func(t *testing.T, a Adapter) {
			app, route := &Spy{Name: "app"}, &Spy{Name: "route"}
			h := a.Mount(App{
				TrafficGuard: new(guard.TrafficGuard), Use: policies(app),
				Routes: []Route{{Method: http.MethodGet, Pattern: item, Policies: policies(route), Handler: says("", nil)}},
			})
			send(h, http.MethodGet, "/items/7")
			for _, m := range []string{
				http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
				http.MethodTrace, http.MethodConnect, "PROPFIND", "FOO", "get", "*", "echo_route_not_found", "echo_route_any",
			} {
				send(h, m, "/items/7")
				send(h, m, "/nowhere")
			}
			registered := guard.Route{Method: http.MethodGet, Pattern: a.Pattern(item)}
			for _, got := range route.Routes() {
				if got != registered {
					t.Errorf("to the route's own policy the route is %q, not %q", got, registered)
				}
			}
			for _, got := range app.Routes() {
				if got != registered && got != (guard.Route{Method: "*"}) {
					t.Errorf("to the application's policy the route is %q, neither %q nor %q", got, registered, guard.Route{Method: "*"})
				}
			}
			if n := len(app.Routes()); n != 29 {
				t.Errorf("the application's policy saw %d of 29 requests", n)
			}
		},
	},
}

func checkContext(t *testing.T, a Adapter, needs guard.Requirement) {
	var later, handler, outside any
	sets := &Spy{Name: "sets", Needs: needs, OnBefore: func(ctx context.Context, x guard.Exchange) (guard.Decision, error) {
		x.SetContext(context.WithValue(ctx, contextKey{}, "set"))
		return guard.Decision{}, nil
	}}
	sees := &Spy{Name: "sees", OnBefore: func(ctx context.Context, _ guard.Exchange) (guard.Decision, error) {
		later = ctx.Value(contextKey{})
		return guard.Decision{}, nil
	}}
	outer := &Spy{Name: "outer", OnAfter: func(ctx context.Context, x guard.Exchange, _ guard.Decision, _ guard.Outcome) error {
		outside = [2]any{ctx.Value(contextKey{}), x.Request().Context().Value(contextKey{})}
		return nil
	}}
	get(a.Mount(App{
		TrafficGuard: new(guard.TrafficGuard), Group: policies(outer),
		Routes: []Route{{
			Method: http.MethodGet, Pattern: item, Policies: policies(sets, sees),
			Handler: func(_ http.ResponseWriter, r *http.Request) error {
				handler = r.Context().Value(contextKey{})
				return nil
			},
		}},
	}))
	if later != "set" || handler != "set" {
		t.Errorf("a later policy sees %v, the handler %v", later, handler)
	}
	if outside != any([2]any{}) {
		t.Errorf("outside the chain there is %v", outside)
	}
}
