package bench

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/didip/tollbooth/v7"
	"github.com/go-chi/httprate"
	"github.com/go-redis/redis_rate/v10"
	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"github.com/redis/go-redis/v9"
	golimiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ululelimiter "github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
	"golang.org/x/time/rate"

	"github.com/trafficguard-go/trafficguard/echov5adapter"
	"github.com/trafficguard-go/trafficguard/httpadapter"
	"github.com/trafficguard-go/trafficguard/internal/redistest"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/policies"
	"github.com/trafficguard-go/trafficguard/resolver"
	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/memory"
	"github.com/trafficguard-go/trafficguard/store/redisstore"
)

// quota is more than a benchmark can spend: the admitting path is compared.
const quota = 100_000_000

// A decider admits a request of key, or not.
type decider func(key string) bool

func keys(n int) []string {
	k := make([]string, n)
	for i := range k {
		k[i] = "user:" + strconv.Itoa(i)
	}
	return k
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// BenchmarkDecision is one decision in the process, without HTTP.
func BenchmarkDecision(b *testing.B) {
	ctx := context.Background()
	limiters := map[string]func(b *testing.B) decider{
		"trafficguard": func(b *testing.B) decider {
			s, rule := memory.New(), must(limit.PerSecond(quota).Compile())(b)
			return func(key string) bool {
				g, err := s.Take(ctx, store.Request{Key: store.Key{Policy: "api", Kind: "user", Subject: key}, Rule: rule, Cost: 1})
				return err == nil && g.OK
			}
		},
		"x-time-rate-in-a-map": func(*testing.B) decider {
			var mu sync.Mutex
			m := map[string]*rate.Limiter{}
			return func(key string) bool {
				mu.Lock()
				l := m[key]
				if l == nil {
					l = rate.NewLimiter(quota, quota)
					m[key] = l
				}
				mu.Unlock()
				return l.Allow()
			}
		},
		"throttled": func(b *testing.B) decider {
			s := must(memstore.NewCtx(1 << 20))(b)
			l := must(throttled.NewGCRARateLimiterCtx(s, throttled.RateQuota{MaxRate: throttled.PerSec(quota), MaxBurst: quota}))(b)
			return func(key string) bool {
				limited, _, err := l.RateLimitCtx(ctx, key, 1)
				return err == nil && !limited
			}
		},
		"ulule": func(*testing.B) decider {
			l := ululelimiter.New(ululememory.NewStore(), ululelimiter.Rate{Period: time.Second, Limit: quota * 100})
			return func(key string) bool {
				c, err := l.Get(ctx, key)
				return err == nil && !c.Reached
			}
		},
		"go-limiter": func(b *testing.B) decider {
			var s golimiter.Store = must(memorystore.New(&memorystore.Config{Tokens: quota * 100, Interval: time.Second}))(b)
			b.Cleanup(func() { _ = s.Close(ctx) })
			return func(key string) bool {
				_, _, _, ok, err := s.Take(ctx, key)
				return err == nil && ok
			}
		},
		"tollbooth": func(*testing.B) decider {
			l := tollbooth.NewLimiter(quota, nil)
			l.SetBurst(quota * 10)
			return func(key string) bool { return tollbooth.LimitByKeys(l, []string{key}) == nil }
		},
		"echo": func(*testing.B) decider {
			s := middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{Rate: quota, Burst: quota * 10})
			return func(key string) bool {
				ok, err := s.Allow(key)
				return err == nil && ok
			}
		},
	}
	for _, n := range []int{1, 100_000} {
		names := keys(n)
		for name, open := range limiters {
			b.Run("keys="+strconv.Itoa(n)+"/limiter="+name, func(b *testing.B) {
				decide := open(b)
				for _, k := range names {
					decide(k)
				}
				var next, refused atomic.Uint64
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					i := next.Add(7919)
					for pb.Next() {
						i++
						if !decide(names[i%uint64(len(names))]) {
							refused.Add(1)
						}
					}
				})
				if refused.Load()*10 > uint64(b.N) {
					b.Fatalf("%d of %d were refused: this is not the admitting path", refused.Load(), b.N)
				}
			})
		}
	}
}

// discard is a response that goes nowhere.
type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

// BenchmarkHandler is a guarded handler, keyed by a header; "bare" is the handler alone. The peers here write X-RateLimit
// headers and cannot be told not to, so trafficguard has them too, and a row without.
func BenchmarkHandler(b *testing.B) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	user := resolver.Header("X-User-Id")
	ours := func(o ...policies.RateOption) http.Handler {
		return httpadapter.New(nil).With(policies.UserRateLimit(limit.PerSecond(quota), user, o...))(h)
	}
	byHeader := func(r *http.Request) (string, error) { return r.Header.Get("X-User-Id"), nil }
	handlers := map[string]http.Handler{
		"bare":                 h,
		"trafficguard":         ours(policies.Headers(policies.XRateLimit)),
		"trafficguard-no-head": ours(),
		"httprate":             httprate.Limit(quota*100, time.Second, httprate.WithKeyFuncs(byHeader))(h),
		"tollbooth": func() http.Handler {
			l := tollbooth.NewLimiter(quota, nil)
			l.SetBurst(quota*10).SetIPLookups([]string{"RemoteAddr"}).SetHeader("X-User-Id", nil)
			return tollbooth.LimitHandler(l, h)
		}(),
		"throttled": func() http.Handler {
			l := must(throttled.NewGCRARateLimiterCtx(must(memstore.NewCtx(1<<20))(b),
				throttled.RateQuota{MaxRate: throttled.PerSec(quota), MaxBurst: quota}))(b)
			t := throttled.HTTPRateLimiterCtx{RateLimiter: l, VaryBy: &throttled.VaryBy{Headers: []string{"X-User-Id"}}}
			return t.RateLimit(h)
		}(),
	}
	bareEcho, ourEcho, theirEcho := echo.New(), echo.New(), echo.New()
	done := func(c *echo.Context) error { return c.NoContent(http.StatusNoContent) }
	bareEcho.GET("/x", done)
	ourEcho.GET("/x", done, echov5adapter.New(nil).With(policies.UserRateLimit(limit.PerSecond(quota), user)))
	theirEcho.GET("/x", done, middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{
		Store: middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{Rate: quota, Burst: quota * 10}),
		IdentifierExtractor: func(c *echo.Context) (string, error) {
			return c.Request().Header.Get("X-User-Id"), nil
		},
	}))
	handlers["echo-bare"], handlers["echo-trafficguard"], handlers["echo-ratelimiter"] = bareEcho, ourEcho, theirEcho

	for name, h := range handlers {
		b.Run("limiter="+name, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodGet, "/x", nil)
			r.Header.Set("X-User-Id", "ann")
			w := &discard{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.h)
				h.ServeHTTP(w, r)
			}
		})
	}
}

// BenchmarkRedis is one decision on a real server, from one goroutine and from 64.
func BenchmarkRedis(b *testing.B) {
	server := redistest.Start(b)
	ctx := context.Background()
	opts := must(redis.ParseURL(server.URL()))(b)
	opts.PoolSize = 64
	client := redis.NewClient(opts)
	b.Cleanup(func() { _ = client.Close() })
	limiters := map[string]func(b *testing.B) decider{
		"trafficguard": func(b *testing.B) decider {
			s := must(redisstore.Open(server.URL()+"?pool_size=64", "bench", redisstore.Timeout(5*time.Second)))(b)
			b.Cleanup(func() { _ = s.Close() })
			rule := must(limit.PerSecond(quota).Compile())(b)
			return func(key string) bool {
				g, err := s.Take(ctx, store.Request{Key: store.Key{Policy: "api", Kind: "user", Subject: key}, Rule: rule, Cost: 1})
				return err == nil && g.OK
			}
		},
		"redis_rate": func(*testing.B) decider {
			l := redis_rate.NewLimiter(client)
			return func(key string) bool {
				r, err := l.Allow(ctx, key, redis_rate.PerSecond(quota))
				return err == nil && r.Allowed > 0
			}
		},
		"ulule": func(b *testing.B) decider {
			l := ululelimiter.New(must(ululeredis.NewStore(client))(b), ululelimiter.Rate{Period: time.Second, Limit: quota * 100})
			return func(key string) bool {
				c, err := l.Get(ctx, key)
				return err == nil && !c.Reached
			}
		},
	}
	names := keys(10_000)
	for _, goroutines := range []int{1, 64} {
		for name, open := range limiters {
			b.Run("goroutines="+strconv.Itoa(goroutines)+"/limiter="+name, func(b *testing.B) {
				decide := open(b)
				var next atomic.Uint64
				var wg sync.WaitGroup
				b.ReportAllocs()
				b.ResetTimer()
				for range goroutines {
					wg.Go(func() {
						for i := next.Add(1); i <= uint64(b.N); i = next.Add(1) {
							if !decide(names[i%uint64(len(names))]) {
								b.Error("refused")
								return
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}
