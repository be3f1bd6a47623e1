package e2e_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	echov4 "github.com/labstack/echo/v4"
	"github.com/labstack/echo/v5"

	"github.com/trafficguard-go/trafficguard/echoadapter"
	"github.com/trafficguard-go/trafficguard/echov5adapter"
	"github.com/trafficguard-go/trafficguard/ginadapter"
	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/httpadapter"
)

// A mount makes an app of one framework with one guarded route. pattern is in Gin's and Echo's notation.
type mount func(tg *guard.TrafficGuard, method, pattern string, h http.HandlerFunc, p ...guard.GuardPolicy) http.Handler

// frameworks are the adapters that a case can run on.
var frameworks = map[string]mount{
	"gin": func(tg *guard.TrafficGuard, method, pattern string, h http.HandlerFunc, p ...guard.GuardPolicy) http.Handler {
		r := gin.New()
		r.Handle(method, pattern, ginadapter.New(tg).With(p...), gin.WrapF(h))
		return r
	},
	"echo v4": func(tg *guard.TrafficGuard, method, pattern string, h http.HandlerFunc, p ...guard.GuardPolicy) http.Handler {
		e := echov4.New()
		e.Add(method, pattern, echov4.WrapHandler(h), echoadapter.New(tg).With(p...))
		return e
	},
	"echo v5": func(tg *guard.TrafficGuard, method, pattern string, h http.HandlerFunc, p ...guard.GuardPolicy) http.Handler {
		e := echo.New()
		e.Add(method, pattern, echo.WrapHandler(h), echov5adapter.New(tg).With(p...))
		return e
	},
	"net/http": func(tg *guard.TrafficGuard, method, pattern string, h http.HandlerFunc, p ...guard.GuardPolicy) http.Handler {
		mux := http.NewServeMux()
		mux.Handle(method+" "+strings.ReplaceAll(pattern, ":id", "{id}"), httpadapter.New(tg).With(p...)(h))
		return mux
	},
}

// onEach runs a case on every framework.
func onEach(t *testing.T, test func(t *testing.T, mount mount)) {
	t.Helper()
	for name, m := range frameworks {
		t.Run(name, func(t *testing.T) { test(t, m) })
	}
}

// A client sends requests to one server and fails the test where a request gets no answer.
type client struct {
	t    *testing.T
	url  string
	http *http.Client
}

// serve starts h on loopback.
func serve(t *testing.T, h http.Handler) *client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return dial(t, s.URL)
}

func dial(t *testing.T, url string) *client {
	t.Helper()
	tr := &http.Transport{MaxIdleConnsPerHost: 256, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext}
	t.Cleanup(tr.CloseIdleConnections)
	return &client{t: t, url: url, http: &http.Client{Transport: tr, Timeout: 20 * time.Second}}
}

// An answer is a response that has been read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

// A part changes a request before it is sent.
type part func(*http.Request)

func header(name string, values ...string) part {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(name)] = values }
}

// body sets a JSON body of known length.
func body(json string) part {
	return func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(json)), int64(len(json))
		if r.Header.Get("Content-Type") == "" {
			r.Header.Set("Content-Type", "application/json")
		}
	}
}

func (c *client) send(method, path string, parts ...part) answer {
	c.t.Helper()
	a, err := c.try(method, path, parts...)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

func (c *client) try(method, path string, parts ...part) (answer, error) {
	r, err := http.NewRequestWithContext(context.Background(), method, c.url+path, nil)
	if err != nil {
		return answer{}, err
	}
	for _, p := range parts {
		p(r)
	}
	res, err := c.http.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(b)}, err
}

// statuses sends the same request for /x n times.
func (c *client) statuses(n int, method string, parts ...part) []int {
	c.t.Helper()
	got := make([]int, n)
	for i := range got {
		got[i] = c.send(method, "/x", parts...).status
	}
	return got
}

// ok answers 200 with what it read.
func ok(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "body", http.StatusBadRequest)
		return
	}
	_, _ = w.Write(b)
}
