package ginadapter_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/trafficguard-go/trafficguard/ginadapter"
	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/guard/guardtest"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	goleak.VerifyTestMain(m)
}

func TestAdapter(t *testing.T) {
	guardtest.TestAdapter(t, guardtest.Adapter{Mount: mount, Pattern: guardtest.Colon})
}

func mount(app guardtest.App) http.Handler {
	g := ginadapter.New(app.TrafficGuard)
	r := gin.New()
	r.Use(func(c *gin.Context) {
		for key, v := range app.Values {
			c.Set(key, v)
		}
	})
	if app.Use != nil {
		r.Use(g.With(app.Use...))
	}
	routes := r.Group("")
	if app.Group != nil {
		routes.Use(g.With(app.Group...))
	}
	for _, route := range app.Routes {
		var handlers []gin.HandlerFunc
		if route.Policies != nil {
			handlers = append(handlers, g.With(route.Policies...))
		}
		handlers = append(handlers, func(c *gin.Context) {
			if err := route.Handler(c.Writer, c.Request); err != nil {
				_ = c.Error(err)
			}
		})
		routes.Handle(route.Method, guardtest.Colon(route.Pattern), handlers...)
	}
	return r
}

func get(h http.Handler, method, target string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(method, target, nil))
	return rec
}

func refusing() *guardtest.Spy {
	return &guardtest.Spy{Name: "api", Decision: guard.Decision{Rejection: &guard.Rejection{Code: guard.RateLimitExceeded}}}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	spy := &guardtest.Spy{}
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.Use(ginadapter.With(spy))
	r.GET("/items/:id", func(*gin.Context) {})
	r.Any("/any", func(*gin.Context) {})
	r.Group("/api").GET("/files/*path", func(*gin.Context) {})
	for _, c := range []struct {
		method, target string
		want           guard.Route
	}{
		{"GET", "/items/1", guard.Route{Method: "GET", Pattern: "/items/:id"}},
		{"POST", "/items/1", guard.Route{Method: "*"}},
		{"FOO", "/items/1", guard.Route{Method: "*"}},
		{"GET", "/nowhere", guard.Route{Method: "*"}},
		{"GET", "/api/files/a/b", guard.Route{Method: "GET", Pattern: "/api/files/*path"}},
		{"PATCH", "/any", guard.Route{Method: "PATCH", Pattern: "/any"}},
		{"FOO", "/any", guard.Route{Method: "*"}},
	} {
		get(r, c.method, c.target)
		if got := spy.Routes(); got[len(got)-1] != c.want {
			t.Errorf("%s %s has the route %q, not %q", c.method, c.target, got[len(got)-1], c.want)
		}
	}
}

func TestErrorsFromOutsideAreNotTheHandlers(t *testing.T) {
	t.Parallel()
	spy := &guardtest.Spy{}
	r := gin.New()
	r.Use(func(c *gin.Context) { _ = c.Error(errors.New("outside")) })
	r.GET("/good", ginadapter.With(spy), func(*gin.Context) {})
	r.GET("/bad", ginadapter.With(spy), func(c *gin.Context) {
		_ = c.Error(errors.New("first"))
		_ = c.Error(errors.New("last"))
	})
	get(r, http.MethodGet, "/good")
	get(r, http.MethodGet, "/bad")
	if o := spy.Outcomes(); o[0].Err != nil || o[1].Err == nil || o[1].Err.Error() != "last" {
		t.Errorf("the outcomes are %+v", o)
	}
}

func TestMiddlewareOutsideSeesAnAbortedAnswer(t *testing.T) {
	t.Parallel()
	r := gin.New()
	r.Use(func(c *gin.Context) {
		c.Next()
		if !c.IsAborted() || !c.Writer.Written() || c.Writer.Status() != 429 || len(c.Errors) != 0 {
			t.Errorf("aborted: %t, written: %t, status: %d, errors: %v", c.IsAborted(), c.Writer.Written(), c.Writer.Status(), c.Errors)
		}
	})
	r.Any("/", ginadapter.With(refusing()), func(*gin.Context) { t.Error("the handler ran") })
	if rec := get(r, http.MethodGet, "/"); rec.Code != 429 || rec.Body.Len() == 0 {
		t.Errorf("GET is answered with %d %q", rec.Code, rec.Body)
	}
	if rec := get(r, http.MethodHead, "/"); rec.Code != 429 || rec.Body.Len() != 0 {
		t.Errorf("HEAD is answered with %d %q", rec.Code, rec.Body)
	}
}

// A middleware that recovers and does not abort lets Gin go on with the next handler.
func TestPanickingAnswerUnderACarelessRecovery(t *testing.T) {
	t.Parallel()
	tg := &guard.TrafficGuard{Answer: func(http.ResponseWriter, *http.Request, *guard.Rejection) { panic("no answer") }}
	r := gin.New()
	r.Use(func(c *gin.Context) {
		defer func() { _ = recover() }()
		c.Next()
	})
	r.GET("/", ginadapter.New(tg).With(refusing()), func(*gin.Context) { t.Error("the handler ran") })
	get(r, http.MethodGet, "/")
}

func TestAbortInsideIsNoRefusal(t *testing.T) {
	t.Parallel()
	spy := &guardtest.Spy{}
	r := gin.New()
	r.GET("/", ginadapter.With(spy), func(c *gin.Context) { c.AbortWithStatus(http.StatusForbidden) })
	get(r, http.MethodGet, "/")
	if o := spy.Outcomes(); len(o) != 1 || !o[0].Ran || o[0].Status != 403 {
		t.Errorf("the outcomes are %+v", o)
	}
}

func TestWithPanicsWhereTheRouteIsMounted(t *testing.T) {
	t.Parallel()
	defer func() {
		if fault := recover(); fault != "guard: policy 1: the policy is nil" {
			t.Errorf("recovered %v", fault)
		}
	}()
	ginadapter.With(nil)
}

func TestOneTrafficGuardKnowsAllNames(t *testing.T) {
	t.Parallel()
	defer func() {
		if fault := recover(); fault != `guard: policy 1: another policy already has the name "api"` {
			t.Errorf("recovered %v", fault)
		}
	}()
	g := ginadapter.New(nil)
	g.With(refusing())
	g.With(refusing())
}
