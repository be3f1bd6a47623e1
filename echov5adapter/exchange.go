package echov5adapter

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/labstack/echo/v5"

	"github.com/trafficguard-go/trafficguard/guard"
)

// exchange is a [guard.Exchange].
type exchange struct {
	c      *echo.Context
	routes *routes
}

func (x *exchange) Request() *http.Request         { return x.c.Request() }
func (x *exchange) ResponseHeader() http.Header    { return x.c.Response().Header() }
func (x *exchange) Route() guard.Route             { return x.routes.of(x.c) }
func (x *exchange) PathParam(name string) string   { return x.c.Param(name) }
func (x *exchange) Value(key string) any           { return x.c.Get(key) }
func (x *exchange) SetContext(ctx context.Context) { x.c.SetRequest(x.c.Request().WithContext(ctx)) }

// routes remembers which requests were found to have the route that they seem to have: asking Echo costs a copy
// of the route. Only those are kept whose method was registered, so that clients cannot fill it. The zero value
// is ready to use.
type routes struct {
	mu    sync.Mutex
	known atomic.Pointer[map[seen]struct{}]
}

// seen is what a request seems to have matched.
type seen struct {
	app             *echo.Echo
	method, pattern string
}

func (rs *routes) of(c *echo.Context) guard.Route {
	s := seen{c.Echo(), c.Request().Method, c.Path()}
	if known := rs.known.Load(); known != nil {
		if _, ok := (*known)[s]; ok {
			return guard.Route{Method: s.method, Pattern: s.pattern}
		}
	}
	info := c.RouteInfo()
	switch info.Method {
	case "": // not found, method not allowed, or not routed yet
		return guard.Route{Method: "*"}
	case echo.RouteAny, echo.RouteNotFound:
		return guard.Route{Method: "*", Pattern: info.Path}
	}
	if info.Method == s.method && info.Path == s.pattern {
		rs.add(s)
	}
	return guard.Route{Method: info.Method, Pattern: info.Path}
}

func (rs *routes) add(s seen) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	grown := make(map[seen]struct{})
	if known := rs.known.Load(); known != nil {
		grown = maps.Clone(*known)
	}
	grown[s] = struct{}{}
	rs.known.Store(&grown)
}
