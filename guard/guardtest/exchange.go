package guardtest

import (
	"context"
	"net/http"
	"net/http/httptest"

	"github.com/trafficguard-go/trafficguard/guard"
)

// An Exchange is a [guard.Exchange] without a framework, for tests of policies and resolvers. Make it with
// [NewExchange] and change its fields as the test needs. It serves one request and is not safe for concurrent
// use.
type Exchange struct {
	// Incoming is what Request returns.
	Incoming *http.Request
	// Response records the response; its headers are those of ResponseHeader.
	Response *httptest.ResponseRecorder
	// Matched is what Route returns.
	Matched guard.Route
	// Params are the parameters of the path.
	Params map[string]string
	// Values are what middleware stored on the framework's context.
	Values map[string]any
}

// NewExchange returns the exchange of r, as if a route with the method and the path of r had matched.
func NewExchange(r *http.Request) *Exchange {
	return &Exchange{
		Incoming: r,
		Response: httptest.NewRecorder(),
		Matched:  guard.Route{Method: r.Method, Pattern: r.URL.Path},
		Params:   map[string]string{},
		Values:   map[string]any{},
	}
}

// Request returns Incoming.
func (x *Exchange) Request() *http.Request { return x.Incoming }

// ResponseHeader returns the headers of Response.
func (x *Exchange) ResponseHeader() http.Header { return x.Response.Header() }

// Route returns Matched.
func (x *Exchange) Route() guard.Route { return x.Matched }

// PathParam returns the parameter of that name.
func (x *Exchange) PathParam(name string) string { return x.Params[name] }

// Value returns the value of that key.
func (x *Exchange) Value(key string) any { return x.Values[key] }

// SetContext replaces Incoming by a copy with ctx.
func (x *Exchange) SetContext(ctx context.Context) { x.Incoming = x.Incoming.WithContext(ctx) }

// Serve does what an adapter does: it runs h inside the chain, or answers if the chain refuses. It returns the
// rejection, nil if h ran. The outcome's status is that of Response; 200 if h wrote none.
func (x *Exchange) Serve(chain *guard.Chain, h http.Handler) *guard.Rejection {
	rej, _ := chain.Do(x, func() (int, error) {
		h.ServeHTTP(x.Response, x.Incoming)
		return x.Response.Code, nil
	})
	if rej != nil {
		chain.Answer(x.Response, x.Incoming, rej)
	}
	return rej
}
