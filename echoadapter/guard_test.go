package echoadapter_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"go.uber.org/goleak"

	"github.com/trafficguard-go/trafficguard/echoadapter"
	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/guard/guardtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAdapter(t *testing.T) {
	guardtest.TestAdapter(t, guardtest.Adapter{Mount: mount, Pattern: guardtest.Colon})
}

func mount(app guardtest.App) http.Handler {
	g := echoadapter.New(app.TrafficGuard)
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			for key, v := range app.Values {
				c.Set(key, v)
			}
			return next(c)
		}
	})
	if app.Use != nil {
		e.Use(g.With(app.Use...))
	}
	routes := e.Group("")
	if app.Group != nil {
		routes.Use(g.With(app.Group...))
	}
	for _, route := range app.Routes {
		var guards []echo.MiddlewareFunc
		if route.Policies != nil {
			guards = append(guards, g.With(route.Policies...))
		}
		routes.Add(route.Method, guardtest.Colon(route.Pattern), func(c echo.Context) error {
			return route.Handler(c.Response(), c.Request())
		}, guards...)
	}
	return e
}

func get(h http.Handler, method, target string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(method, target, nil))
	return rec
}

func refusing() *guardtest.Spy {
	return &guardtest.Spy{Name: "api", Decision: guard.Decision{Rejection: &guard.Rejection{Code: guard.RateLimitExceeded}}}
}

func nothing(echo.Context) error { return nil }

// last returns the route that spy saw last.
func last(spy *guardtest.Spy) guard.Route {
	routes := spy.Routes()
	return routes[len(routes)-1]
}

func TestMiddlewareInBetweenSeesNoError(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.GET("/", nothing, echoadapter.With(&guardtest.Spy{}), func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := next(c)
			if err != nil {
				t.Errorf("a refusal that was answered is the error %v", err)
			}
			return err
		}
	}, echoadapter.With(refusing()))
	if rec := get(e, http.MethodGet, "/"); rec.Code != 429 {
		t.Errorf("the response is %d", rec.Code)
	}
}

// An error of middleware in between does not hide that the guard further in refused.
func TestErrorAfterAnInnerRefusal(t *testing.T) {
	t.Parallel()
	spy, late := &guardtest.Spy{}, errors.New("late")
	e := echo.New()
	e.GET("/", nothing, echoadapter.With(spy), func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { return errors.Join(next(c), late) }
	}, echoadapter.With(refusing()))
	get(e, http.MethodGet, "/")
	if o := spy.Outcomes(); len(o) != 1 || o[0].Ran {
		t.Errorf("the outcomes are %+v", o)
	}
}

func TestReturnedRejections(t *testing.T) {
	t.Parallel()
	answered := func(http.ResponseWriter, *http.Request, *guard.Rejection) { t.Error("Answer was called") }
	g := echoadapter.New(&guard.TrafficGuard{Answer: answered}).ReturnRejections()
	outer := &guardtest.Spy{}
	e := echo.New()
	e.GET("/", nothing, g.With(outer), g.With(refusing()))

	rec := get(e, http.MethodGet, "/")
	if rec.Code != 429 || rec.Body.String() != `{"message":"Too Many Requests"}`+"\n" || rec.Header().Get("Retry-After") != "1" {
		t.Errorf("the default handler answers %d %v %q", rec.Code, rec.Header(), rec.Body)
	}
	if rec := get(e, http.MethodGet, "/nowhere"); rec.Code != 404 {
		t.Errorf("a request without a route is answered with %d", rec.Code)
	}
	if o := outer.Outcomes(); len(o) != 1 || o[0].Ran || o[0].Status != 429 {
		t.Errorf("the outcomes outside are %+v", o)
	}
}

func TestOwnErrorHandlerGetsTheRejection(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		var rej *guard.Rejection
		var known *echo.HTTPError
		if !errors.As(err, &rej) || !errors.As(err, &known) {
			t.Errorf("the error is %v", err)
			return
		}
		_ = c.String(known.Code, string(rej.Code)+" by "+rej.Policy)
	}
	e.GET("/", nothing, echoadapter.New(nil).ReturnRejections().With(refusing()))
	if rec := get(e, http.MethodGet, "/"); rec.Code != 429 || rec.Body.String() != "rate_limit_exceeded by api" {
		t.Errorf("the response is %d %q", rec.Code, rec.Body)
	}
}

func TestGroupGuardsUnknownPaths(t *testing.T) {
	t.Parallel()
	spy := &guardtest.Spy{}
	e := echo.New()
	api := e.Group("/api", echoadapter.With(spy))
	api.GET("/items/:id", nothing)
	for _, c := range []struct {
		method, target string
		want           guard.Route
	}{
		{"GET", "/api/items/1", guard.Route{Method: "GET", Pattern: "/api/items/:id"}},
		{"GET", "/api/nowhere", guard.Route{Method: "*", Pattern: "/api/*"}},
		{"FOO", "/api/nowhere", guard.Route{Method: "*", Pattern: "/api/*"}},
		{"echo_route_not_found", "/api/nowhere", guard.Route{Method: "*", Pattern: "/api/*"}},
	} {
		get(e, c.method, c.target)
		if got := last(spy); got != c.want {
			t.Errorf("%s %s has the route %q, not %q", c.method, c.target, got, c.want)
		}
	}
	if n := len(spy.Routes()); n != 4 {
		t.Errorf("the group's guard saw %d of 4 requests", n)
	}
}

func TestBeforeRouting(t *testing.T) {
	t.Parallel()
	spy := &guardtest.Spy{}
	e := echo.New()
	e.Pre(echoadapter.With(spy))
	e.GET("/", nothing)
	get(e, http.MethodGet, "/")
	if got := last(spy); got != (guard.Route{Method: "*"}) {
		t.Errorf("the route is %q", got)
	}
}

func TestAnyAndRouteNotFound(t *testing.T) {
	t.Parallel()
	spy := &guardtest.Spy{}
	e := echo.New()
	e.Use(echoadapter.With(spy))
	e.Any("/any/:id", nothing)
	e.RouteNotFound("/*", nothing)
	e.GET("/*", nothing)
	e.Add("PURGE", "/cache", nothing)
	for target, c := range map[string]struct {
		pattern string
		methods map[string]string
	}{
		"/any/1":     {"/any/:id", map[string]string{"GET": "*", "POST": "*", "HEAD": "*", "REPORT": "*"}},
		"/elsewhere": {"/*", map[string]string{"GET": "GET", "POST": "*", "FOO": "*", "echo_route_not_found": "*"}},
		"/cache":     {"/cache", map[string]string{"PURGE": "PURGE"}},
	} {
		for method, want := range c.methods {
			get(e, method, target)
			if got := last(spy); got != (guard.Route{Method: want, Pattern: c.pattern}) {
				t.Errorf("%s %s has the route %q, not %q", method, target, got, want+" "+c.pattern)
			}
		}
	}
}

func TestMethodThatThePathDoesNotHave(t *testing.T) {
	t.Parallel()
	spy := &guardtest.Spy{}
	e := echo.New()
	e.Use(echoadapter.With(spy))
	e.GET("/items/:id", nothing)
	e.POST("/items/:item", nothing)
	for method, want := range map[string]guard.Route{
		"GET": {Method: "GET", Pattern: "/items/:id"}, "POST": {Method: "POST", Pattern: "/items/:item"},
		"DELETE": {Method: "*"}, "OPTIONS": {Method: "*"}, "FOO": {Method: "*"},
	} {
		get(e, method, "/items/1")
		if got := last(spy); got != want {
			t.Errorf("%s has the route %q, not %q", method, got, want)
		}
	}
}

func TestRoutesOfHosts(t *testing.T) {
	t.Parallel()
	spy := &guardtest.Spy{}
	e := echo.New()
	e.Use(echoadapter.With(spy))
	e.GET("/", nothing)
	e.Host("admin.example").POST("/", nothing)
	for _, c := range []struct {
		host, method string
		want         guard.Route
	}{
		{"shop.example", "GET", guard.Route{Method: "GET", Pattern: "/"}},
		{"shop.example", "POST", guard.Route{Method: "*"}},
		{"admin.example", "POST", guard.Route{Method: "POST", Pattern: "/"}},
		{"admin.example", "GET", guard.Route{Method: "*"}},
	} {
		r := httptest.NewRequest(c.method, "/", nil)
		r.Host = c.host
		e.ServeHTTP(httptest.NewRecorder(), r)
		if got := last(spy); got != c.want {
			t.Errorf("%s %s has the route %q, not %q", c.method, c.host, got, c.want)
		}
	}
}

func TestRouteThatWasAddedLater(t *testing.T) {
	t.Parallel()
	spy := &guardtest.Spy{}
	e := echo.New()
	e.Use(echoadapter.With(spy))
	e.GET("/first", nothing)
	get(e, http.MethodGet, "/first")
	e.GET("/second", nothing)
	get(e, http.MethodGet, "/second")
	if got := last(spy); got != (guard.Route{Method: "GET", Pattern: "/second"}) {
		t.Errorf("the route is %q", got)
	}
}

// teapot is an error that carries a status, but not as Echo's own do.
type teapot struct{}

func (teapot) Error() string   { return "short and stout" }
func (teapot) StatusCode() int { return http.StatusTeapot }

func TestStatusOfAnError(t *testing.T) {
	t.Parallel()
	committed := func(c echo.Context) error {
		_ = c.NoContent(http.StatusAccepted)
		return errors.New("too late")
	}
	returning := func(err error) echo.HandlerFunc { return func(echo.Context) error { return err } }
	for name, c := range map[string]struct {
		handler echo.HandlerFunc
		want    int
	}{
		"nothing written":   {nothing, 200},
		"any error":         {returning(errors.New("failed")), 500},
		"HTTPError":         {returning(echo.NewHTTPError(409)), 409},
		"HTTPError, inside": {returning(echo.ErrBadRequest.WithInternal(echo.ErrForbidden)), 403},
		"wrapped HTTPError": {returning(fmt.Errorf("wrapped: %w", echo.ErrConflict)), 409},
		"StatusCode":        {returning(fmt.Errorf("wrapped: %w", teapot{})), 418},
		"committed":         {committed, 202},
	} {
		spy := &guardtest.Spy{}
		e := echo.New()
		e.GET("/", c.handler, echoadapter.With(spy))
		get(e, http.MethodGet, "/")
		if o := spy.Outcomes(); len(o) != 1 || o[0].Status != c.want || !o[0].Ran {
			t.Errorf("%s: the outcomes are %+v, want the status %d", name, o, c.want)
		}
	}
}

func TestCORSBeforeTheGuard(t *testing.T) {
	t.Parallel()
	spy := refusing()
	e := echo.New()
	e.Use(middleware.CORSWithConfig(middleware.CORSConfig{
		AllowOrigins: []string{"https://shop.example"}, ExposeHeaders: []string{"Retry-After"},
	}), echoadapter.With(spy))
	e.GET("/", nothing)
	ask := func(method string) *httptest.ResponseRecorder {
		r, rec := httptest.NewRequest(method, "/", nil), httptest.NewRecorder()
		r.Header.Set("Origin", "https://shop.example")
		r.Header.Set("Access-Control-Request-Method", http.MethodGet)
		e.ServeHTTP(rec, r)
		return rec
	}
	if rec := ask(http.MethodOptions); rec.Code != http.StatusNoContent || len(spy.Routes()) != 0 {
		t.Errorf("the preflight is answered with %d, the policy saw %d requests", rec.Code, len(spy.Routes()))
	}
	rec := ask(http.MethodGet)
	h := rec.Result().Header
	if rec.Code != 429 || h.Get("Access-Control-Allow-Origin") != "https://shop.example" || h.Get("Access-Control-Expose-Headers") != "Retry-After" {
		t.Errorf("the refusal is %d %v", rec.Code, h)
	}
}
