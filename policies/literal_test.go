package policies_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v5"

	"github.com/trafficguard-go/trafficguard/echov5adapter"
	"github.com/trafficguard-go/trafficguard/ginadapter"
	"github.com/trafficguard-go/trafficguard/limit"
	. "github.com/trafficguard-go/trafficguard/policies" // a route table may be written this way
	"github.com/trafficguard-go/trafficguard/resolver"
)

// TestRouteTableReadsLikeAnAnnotation has the line that the module is made for, with a variable called guard.
func TestRouteTableReadsLikeAnAnnotation(t *testing.T) {
	shared := UserRateLimit(limit.PerHour(3), resolver.Header("X-User-Id"), Named("shared"))
	const path = "/orders/:id"

	r := gin.New()
	{
		guard := ginadapter.New(nil)
		handler := func(c *gin.Context) { c.Status(http.StatusOK) }
		r.GET(path, guard.With(UserRateLimit(limit.PerHour(100), resolver.Header("X-User-Id")), shared), handler)
	}
	e := echo.New()
	{
		guard := echov5adapter.New(nil)
		handler := func(c *echo.Context) error { return c.NoContent(http.StatusOK) }
		e.GET(path, handler, guard.With(UserRateLimit(limit.PerHour(100), resolver.Header("X-User-Id")), shared))
	}

	for i, app := range []http.Handler{r, e, r, e, r} {
		req := httptest.NewRequest(http.MethodGet, "/orders/7", nil)
		req.Header.Set("X-User-Id", "ann")
		w := httptest.NewRecorder()
		app.ServeHTTP(w, req)
		want := http.StatusOK
		if i >= 3 {
			want = http.StatusTooManyRequests
		}
		if w.Code != want {
			t.Errorf("request %d: %d, want %d: the two apps share one budget", i+1, w.Code, want)
		}
	}
}
