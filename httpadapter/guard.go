package httpadapter

import (
	"net/http"
	"sync"

	"github.com/trafficguard-go/trafficguard/guard"
)

// A Guard makes middleware out of policies. Make it with [New]; the zero Guard is like New(nil). It is safe for concurrent use and must not be
// copied.
type Guard struct {
	tg   *guard.TrafficGuard
	pool sync.Pool // of *exchange
}

// New returns the Guard of an application. A nil tg is like a zero one. Give several adapters the same tg and
// they answer, report and name alike.
func New(tg *guard.TrafficGuard) *Guard {
	if tg == nil {
		tg = new(guard.TrafficGuard)
	}
	return &Guard{tg: tg}
}

// With returns a middleware that admits a request through policies, the first outermost, to the handler that
// it is given. A refused request is answered and never reaches that. The policies are compiled here, once:
// With panics where [guard.TrafficGuard.Chain] does.
func (g *Guard) With(policies ...guard.GuardPolicy) func(http.Handler) http.Handler {
	chain := g.tg.Chain(policies...)
	watched := chain.Requires()&guard.RequireStatus != 0
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x := g.acquire()
			x.w, x.r = w, r
			defer g.release(x)
			rej, _ := chain.Do(x, func() (int, error) { //nolint:contextcheck // the exchange carries it
				if watched {
					return serveWatched(next, w, x.r), nil
				}
				next.ServeHTTP(w, x.r)
				return 0, nil
			})
			if rej != nil {
				chain.Answer(w, r, rej)
			}
		})
	}
}

// With is New(nil).With, for applications that configure nothing. Two policies of one name go unnoticed by it: only a
// TrafficGuard that sees both can refuse that.
func With(policies ...guard.GuardPolicy) func(http.Handler) http.Handler {
	return New(nil).With(policies...)
}

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
