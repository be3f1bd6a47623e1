package echoadapter

import (
	"errors"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/trafficguard-go/trafficguard/guard"
)

// A Guard makes Echo middleware out of policies. Make it with [New]; the zero Guard is like New(nil). It is safe for concurrent use and must not
// be copied.
type Guard struct {
	tg      *guard.TrafficGuard
	routes  routes
	pool    sync.Pool // of *exchange
	returns bool      // rejections, for the application to answer
}

// New returns the Guard of an application. A nil tg is like a zero one. Give several adapters the same tg and
// they answer, report and name alike.
func New(tg *guard.TrafficGuard) *Guard {
	if tg == nil {
		tg = new(guard.TrafficGuard)
	}
	return &Guard{tg: tg}
}

// ReturnRejections returns a Guard with the same TrafficGuard whose middleware answers no refused request but
// returns an [*echo.HTTPError] that wraps the [*guard.Rejection], for the application's HTTPErrorHandler to
// answer. The headers of the refusal are set already. Echo's default handler answers with the status of the
// rejection and a JSON message; [guard.TrafficGuard.Answer] is not called.
func (g *Guard) ReturnRejections() *Guard {
	other := New(g.tg)
	other.returns = true
	return other
}

// With returns a middleware that admits a request through policies, the first outermost, to the handler that
// it is given. A refused request never reaches that. The policies are compiled here, once: With panics where
// [guard.TrafficGuard.Chain] does.
func (g *Guard) With(policies ...guard.GuardPolicy) echo.MiddlewareFunc {
	chain := g.tg.Chain(policies...)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			var result error
			x := g.acquire()
			x.c, x.routes = c, &g.routes
			defer g.release(x)
			rej, _ := chain.Do(x, func() (int, error) {
				result = next(c)
				return status(c.Response(), result), failure(c, result)
			})
			if rej == nil {
				return result
			}
			if g.returns {
				return echo.NewHTTPError(rej.StatusCode()).SetInternal(rej)
			}
			c.Set(refusedKey, rej)
			chain.Answer(c.Response(), c.Request(), rej)
			return nil
		}
	}
}

// With is New(nil).With, for applications that configure nothing. Two policies of one name go unnoticed by it: only a
// TrafficGuard that sees both can refuse that.
func With(policies ...guard.GuardPolicy) echo.MiddlewareFunc { return New(nil).With(policies...) }

func (g *Guard) acquire() *exchange {
	if x, ok := g.pool.Get().(*exchange); ok {
		return x
	}
	return new(exchange)
}

// release is deferred, so that a panic does not cost the pool its exchange. No policy has it any more.
func (g *Guard) release(x *exchange) {
	*x = exchange{}
	g.pool.Put(x)
}

// status returns the status that the response has, or will have once Echo has answered for err.
func status(w *echo.Response, err error) int {
	if w.Committed || err == nil {
		return w.Status
	}
	if known, ok := errors.AsType[*echo.HTTPError](err); ok {
		if inner, ok := known.Internal.(*echo.HTTPError); ok { //nolint:errorlint // as Echo's own handler does
			known = inner
		}
		return known.Code
	}
	var coder interface{ StatusCode() int }
	if errors.As(err, &coder) {
		return coder.StatusCode()
	}
	return http.StatusInternalServerError
}

// refusedKey is where a guard that answered leaves its rejection for the guards around it: middleware in between
// must see what it would see of any handler that answered, a nil.
const refusedKey = "github.com/trafficguard-go/trafficguard/echoadapter.refused"

// failure returns what became of the handler: the rejection if a guard further in refused, else what it returned.
func failure(c echo.Context, result error) error {
	if rej, ok := c.Get(refusedKey).(*guard.Rejection); ok {
		return rej
	}
	return result
}
