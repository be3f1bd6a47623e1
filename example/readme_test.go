package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v5"

	"github.com/trafficguard-go/trafficguard/echov5adapter"
	"github.com/trafficguard-go/trafficguard/ginadapter"
	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/policies"
	"github.com/trafficguard-go/trafficguard/resolver"
	"github.com/trafficguard-go/trafficguard/store/memory"
	"github.com/trafficguard-go/trafficguard/store/redisstore"
	"github.com/trafficguard-go/trafficguard/store/resilient"
)

// TestReadmeIsCompiled keeps the README's snippets true: each must stand, line by line, in this file.
func TestReadmeIsCompiled(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(readme), "\n"); n > 250 {
		t.Errorf("the README has %d lines, 250 at most", n)
	}
	for section := range strings.SplitSeq(string(readme), "\n## ") {
		if title, text, _ := strings.Cut(section, "\n"); len(strings.Fields(text)) < 5 {
			t.Errorf("the section %q says nothing", title)
		}
	}
	source, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	compiled := flat(string(source))
	snippets := strings.Split(string(readme), "```go\n")[1:]
	if len(snippets) < 5 {
		t.Fatalf("found %d snippets: has the README another form?", len(snippets))
	}
	for _, s := range snippets {
		s, _, _ = strings.Cut(s, "```")
		if !strings.Contains(compiled, flat(s)) {
			t.Errorf("this snippet of the README is not compiled here:\n%s", s)
		}
	}
}

// flat drops indentation and alignment, which differ between a README and a function body.
func flat(s string) string { return strings.Join(strings.Fields(s), " ") }

func Example_gin() {
	perUser := policies.UserRateLimit(limit.PerMinute(100), resolver.Value("user_id"), // what your auth middleware stored
		policies.Else(limit.PerMinute(30), resolver.ClientIP()), // who is not logged in
		policies.Exempt(resolver.ValueIs("role", "admin")),
		policies.Named("api-per-user"))

	r := gin.New()
	r.Use(gin.Recovery(), authenticate)

	guard := ginadapter.New(nil)
	r.GET("/posts/:id", guard.With(perUser), showPost)
}

func Example_echo() {
	perUser := policies.UserRateLimit(limit.PerMinute(100), resolver.Value("user_id"))

	e := echo.New()
	guard := echov5adapter.New(nil)
	e.GET("/posts/:id", showPostEcho, guard.With(perUser))
}

func Example_limits() {
	burst := limit.PerMinute(100).Burst(20) // 100 a minute, at most 20 at once
	perPlan := policies.UserRateLimit(limit.PerMinute(60), resolver.Value("user_id"),
		policies.Plans(resolver.Value("plan"), map[string]limit.Limit{"pro": limit.PerMinute(600)}))
	export := policies.UserRateLimit(limit.PerMinute(100), resolver.Value("user_id"), policies.Cost(50))
	_, _, _ = burst, perPlan, export

	logins := policies.UserRateLimit(limit.PerHour(5), resolver.BodyField("email"), policies.ChargeIf(policies.Failed))
	llm := policies.UserRateLimit(limit.PerHour(100_000), resolver.Value("user_id"),
		policies.Cost(500), policies.Settled()) // reserves 500 tokens
	complete := func(c *gin.Context) {
		_ = llm.Settle(c.Request.Context(), int64(len(answer(c)))) // what it really was
	}
	_, _ = logins, complete
}

func answer(*gin.Context) []string { return []string{"to", "be"} }

func Example_trafficGuard() {
	r := gin.New()
	count := func(...string) {}
	tg := &guard.TrafficGuard{
		Budget:  80 * time.Millisecond,
		Observe: func(_ context.Context, e guard.Event) { count(e.Policy, e.Route.String(), e.Kind.String()) },
	}
	tg.Register("office-hours", officeHours{now: time.Now})
	g := ginadapter.New(tg)
	r.GET("/invoices", g.With(tg.Policy("office-hours")), showPost)
}

// openStore is compiled only: it needs a server.
func openStore() error {
	redis, err := redisstore.Open("redis://localhost:6379/0", "shop")
	if err != nil {
		return err
	}
	defer redis.Close()
	common := policies.Options(policies.InStore(redis), policies.Headers(policies.IETF))
	items := policies.UserRateLimit(limit.PerSecond(10), resolver.Value("user_id"), policies.Named("items"), common)
	safe := resilient.New(redis, resilient.Fallback(memory.New(), 4)) // four instances: a quarter of each limit here
	shared := policies.Options(policies.InStore(safe))
	_, _ = items, shared
	return nil
}

var _ = openStore

// officeHours refuses at night.
type officeHours struct {
	guard.Base // Supports: always. After: nothing.
	now        func() time.Time
}

func (p officeHours) Before(context.Context, guard.Exchange) (guard.Decision, error) {
	if h := p.now().Hour(); h >= 8 && h < 18 {
		return guard.Decision{}, nil
	}
	return guard.Decision{Rejection: &guard.Rejection{Code: "closed", Status: http.StatusServiceUnavailable, Wait: time.Hour}}, nil
}

func TestOfficeHours(t *testing.T) {
	for hour, want := range map[int]int{7: http.StatusServiceUnavailable, 9: http.StatusOK} {
		p := officeHours{now: func() time.Time { return time.Date(2030, 1, 2, hour, 0, 0, 0, time.UTC) }}
		r, e := gin.New(), echo.New()
		r.GET("/", ginadapter.New(nil).With(p), func(c *gin.Context) { c.Status(http.StatusOK) })
		e.GET("/", showPostEcho, echov5adapter.New(nil).With(p))
		for _, app := range []http.Handler{r, e} {
			w := httptest.NewRecorder()
			app.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			if w.Code != want {
				t.Errorf("at %d o'clock: %d, want %d", hour, w.Code, want)
			}
		}
	}
}

func authenticate(c *gin.Context) { c.Set("user_id", "ann") }

func showPost(c *gin.Context) { c.Status(http.StatusOK) }

func showPostEcho(c *echo.Context) error { return c.NoContent(http.StatusOK) }
