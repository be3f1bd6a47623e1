package ginadapter_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v5"

	"github.com/trafficguard-go/trafficguard/echov5adapter"
	"github.com/trafficguard-go/trafficguard/ginadapter"
	"github.com/trafficguard-go/trafficguard/guard"
)

// Tickets is a policy of one's own: so many requests, and then none.
type Tickets struct {
	guard.Base
	left atomic.Int64
}

func (t *Tickets) Before(context.Context, guard.Exchange) (guard.Decision, error) {
	if t.left.Add(-1) < 0 {
		return guard.Decision{Rejection: &guard.Rejection{Code: guard.RateLimitExceeded, Wait: guard.Never}}, nil
	}
	return guard.Decision{}, nil
}

// One policy value serves a Gin and an Echo application, and counts the requests of both.
func Example_sharedPolicy() {
	tg := new(guard.TrafficGuard)
	tickets := new(Tickets)
	tickets.left.Store(3)
	tg.Register("tickets", tickets)

	r := gin.New()
	{
		guard := ginadapter.New(tg)
		r.GET("/shows/:id", guard.With(tickets), func(c *gin.Context) { c.String(http.StatusOK, "show %s", c.Param("id")) })
	}
	e := echo.New()
	{
		guard := echov5adapter.New(tg)
		e.GET("/shows/:id", func(c *echo.Context) error { return c.String(http.StatusOK, "show "+c.Param("id")) }, guard.With(tickets))
	}

	for i, app := range []http.Handler{r, e, r, e} {
		rec := httptest.NewRecorder()
		app.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, fmt.Sprintf("/shows/%d", i), nil))
		fmt.Println(rec.Code, rec.Body)
	}
	// Output:
	// 200 show 0
	// 200 show 1
	// 200 show 2
	// 429 {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too many requests","status":429,"code":"rate_limit_exceeded","violated-policies":["tickets"]}
}

// A group's guard stands outside its routes' guards.
func ExampleGuard_With() {
	guard := ginadapter.New(nil)
	open, sold := new(Tickets), new(Tickets)
	open.left.Store(100)

	r := gin.New()
	api := r.Group("/api", guard.With(open))
	api.GET("/shows", func(c *gin.Context) { c.String(http.StatusOK, "all shows") })
	api.POST("/orders", guard.With(sold), func(c *gin.Context) { c.String(http.StatusOK, "ordered") })

	for _, req := range []*http.Request{
		httptest.NewRequest(http.MethodGet, "/api/shows", nil), httptest.NewRequest(http.MethodPost, "/api/orders", nil),
	} {
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, req)
		fmt.Println(req.Method, rec.Code)
	}
	// Output:
	// GET 200
	// POST 429
}
