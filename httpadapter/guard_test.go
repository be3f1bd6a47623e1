package httpadapter_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/guard/guardtest"
	"github.com/trafficguard-go/trafficguard/httpadapter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAdapter(t *testing.T) {
	guardtest.TestAdapter(t, guardtest.Adapter{Mount: mount, NoStatus: true, NoError: true, NoInner: true})
}

func mount(app guardtest.App) http.Handler {
	g := httpadapter.New(app.TrafficGuard)
	mux := http.NewServeMux()
	for _, route := range app.Routes {
		var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = route.Handler(w, r) })
		if route.Policies != nil {
			h = g.With(route.Policies...)(h)
		}
		if app.Group != nil {
			h = g.With(app.Group...)(h)
		}
		mux.Handle(route.Method+" "+route.Pattern, h)
	}
	var h http.Handler = mux
	if app.Use != nil {
		h = g.With(app.Use...)(h)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for key, v := range app.Values {
			r = httpadapter.WithValue(r, key, v)
		}
		h.ServeHTTP(w, r)
	})
}

func get(h http.Handler, method, target string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(method, target, nil))
	return rec
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	spy := &guardtest.Spy{}
	mux := http.NewServeMux()
	for _, pattern := range []string{
		"GET /items/{id}", "/any/{id}", "POST shop.example/orders", "admin.example/{$}", "GET \t /spaced", "GET /files/{path...}",
	} {
		mux.Handle(pattern, httpadapter.With(spy)(http.NotFoundHandler()))
	}
	for _, c := range []struct {
		method, target string
		want           guard.Route
	}{
		{"GET", "/items/1", guard.Route{Method: "GET", Pattern: "/items/{id}"}},
		{"HEAD", "/items/1", guard.Route{Method: "GET", Pattern: "/items/{id}"}},
		{"GET", "/any/1", guard.Route{Method: "*", Pattern: "/any/{id}"}},
		{"FOO", "/any/1", guard.Route{Method: "*", Pattern: "/any/{id}"}},
		{"POST", "http://shop.example/orders", guard.Route{Method: "POST", Pattern: "shop.example/orders"}},
		{"PUT", "http://admin.example/", guard.Route{Method: "*", Pattern: "admin.example/{$}"}},
		{"GET", "/spaced", guard.Route{Method: "GET", Pattern: "/spaced"}},
		{"GET", "/files/a/b", guard.Route{Method: "GET", Pattern: "/files/{path...}"}},
	} {
		get(mux, c.method, c.target)
		if got := spy.Routes(); got[len(got)-1] != c.want {
			t.Errorf("%s %s has the route %q, not %q", c.method, c.target, got[len(got)-1], c.want)
		}
	}
	if n := len(spy.Routes()); n != 8 {
		t.Errorf("the policy saw %d of 8 requests", n)
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	var got []any
	spy := &guardtest.Spy{OnBefore: func(_ context.Context, x guard.Exchange) (guard.Decision, error) {
		got = []any{x.Value("user_id"), x.Value("role"), x.Value("none")}
		return guard.Decision{}, nil
	}}
	h := httpadapter.With(spy)(http.NotFoundHandler())
	first := httpadapter.WithValue(httptest.NewRequest(http.MethodGet, "/", nil), "user_id", 7)
	second := httpadapter.WithValue(httpadapter.WithValue(first, "role", "admin"), "user_id", 8)
	for _, c := range []struct {
		r    *http.Request
		want [3]any
	}{
		{httptest.NewRequest(http.MethodGet, "/", nil), [3]any{}},
		{first, [3]any{7, nil, nil}},
		{second, [3]any{8, "admin", nil}}, // the newer one wins, and the older request keeps its own
		{first, [3]any{7, nil, nil}},
		{first.WithContext(context.WithValue(first.Context(), "role", "not ours")), [3]any{7, nil, nil}}, //nolint:staticcheck // on purpose
	} {
		h.ServeHTTP(httptest.NewRecorder(), c.r)
		if [3]any(got) != c.want {
			t.Errorf("the values are %v, want %v", got, c.want)
		}
	}
}

func TestWriterIsWrappedOnlyForTheStatus(t *testing.T) {
	t.Parallel()
	for needs, wrapped := range map[guard.Requirement]bool{
		0: false, guard.RequireLatency: false, guard.RequireStatus: true, guard.RequireStatus | guard.RequireLatency: true,
	} {
		rec := httptest.NewRecorder()
		httpadapter.With(&guardtest.Spy{Needs: needs})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if got := w != http.ResponseWriter(rec); got != wrapped {
				t.Errorf("for the requirement %b the writer is wrapped: %t", needs, got)
			}
		})).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
	}
}

// reader is a writer with the method that sendfile hides behind.
type reader struct {
	*httptest.ResponseRecorder
	read bool
}

func (r *reader) ReadFrom(src io.Reader) (int64, error) {
	r.read = true
	return io.Copy(r.ResponseRecorder, src)
}

func TestStatusIsSeenWhicheverWayItIsWritten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    int
	}{
		"nothing":      {func(http.ResponseWriter, *http.Request) {}, 200},
		"write":        {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(nil); w.WriteHeader(500) }, 200},
		"write string": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a"); w.WriteHeader(500) }, 200},
		"flush":        {func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); w.WriteHeader(500) }, 200},
		"controller": {func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			w.WriteHeader(500)
		}, 200},
		"read from": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("a"))
			w.WriteHeader(500)
		}, 200},
		"twice":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404); w.WriteHeader(500) }, 404},
		"early hints": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(404) }, 404},
		"upgrade":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(101) }, 101},
	} {
		spy, w := &guardtest.Spy{Needs: guard.RequireStatus}, &reader{ResponseRecorder: httptest.NewRecorder()}
		httpadapter.With(spy)(c.handler).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if o := spy.Outcomes(); len(o) != 1 || o[0].Status != c.want {
			t.Errorf("%s: the outcomes are %+v, want the status %d", name, o, c.want)
		}
		if name == "read from" && !w.read {
			t.Error("ReadFrom did not reach the writer below")
		}
	}
}

func TestStatusOfATakenOverConnectionIsUnknown(t *testing.T) {
	t.Parallel()
	seen := make(chan guard.Outcome, 1)
	spy := &guardtest.Spy{Needs: guard.RequireStatus}
	spy.OnAfter = func(_ context.Context, _ guard.Exchange, _ guard.Decision, o guard.Outcome) error {
		seen <- o
		return nil
	}
	server := httptest.NewServer(httpadapter.With(spy)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 299 Mine\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		_ = conn.Close()
	})))
	defer server.Close()
	res, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if o := <-seen; res.StatusCode != 299 || o.Status != 0 || !o.Ran {
		t.Errorf("the client sees %d, the policy %+v", res.StatusCode, o)
	}
}
