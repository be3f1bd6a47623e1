package resilient_test

import (
	"context"
	"expvar"
	"fmt"
	"log/slog"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/memory"
	"github.com/trafficguard-go/trafficguard/store/redisstore"
	"github.com/trafficguard-go/trafficguard/store/resilient"
)

// The recommended set-up: limits in Redis, and while that is gone each of 4 instances keeps to a quarter of them. Give the
// result to the policies with policies.InStore.
func Example() {
	redis, err := redisstore.Open("redis://127.0.0.1:1/0", "shop", redisstore.Logger(quiet)) // where nothing listens
	if err != nil {
		panic(err) // misconfigured; a server that is absent is no error
	}
	defer func() { _ = redis.Close() }()

	alert := new(expvar.String) // or what your dashboards read
	limits := resilient.New(redis,
		resilient.Fallback(memory.New(), 4),
		resilient.OnChange(func(c resilient.Change) { alert.Set(c.To.String()) }),
		resilient.Logger(quiet),
	)

	rule, err := limit.PerHour(24).Compile() // which policies do for you
	if err != nil {
		panic(err)
	}
	for range 7 {
		key := store.Key{Policy: "exports", Kind: "value:user_id", Subject: "42"}
		g, err := limits.Take(context.Background(), store.Request{Key: key, Rule: rule, Cost: 1})
		fmt.Println(g.OK, g.Remaining, g.Degraded, err)
	}
	// Output:
	// true 5 true <nil>
	// true 4 true <nil>
	// true 3 true <nil>
	// true 2 true <nil>
	// true 1 true <nil>
	// true 0 true <nil>
	// false 0 true <nil>
}

var quiet = slog.New(slog.DiscardHandler)
