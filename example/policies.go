package main

import (
	"fmt"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/policies"
	"github.com/trafficguard-go/trafficguard/resolver"
)

// The policies of both apps. Each has a name, so it is one budget for each user wherever it is mounted.
type guards struct {
	posts, orders, payments, items, reports, echo *policies.RateLimit
}

// newPolicies builds each policy once. The identity headers below can be forged by anyone who reaches the app:
// they are right only behind a gateway that sets them. Without one, use what your auth middleware stored:
// resolver.Value("user_id").
func newPolicies(shared policies.SharedOption) guards {
	user := resolver.As("user", resolver.Header("X-User-Id"))
	return guards{
		posts: policies.UserRateLimit(limit.PerMinute(100), user,
			policies.Else(limit.PerMinute(30), resolver.ClientIP()),
			policies.Exempt(resolver.HeaderIs("X-User-Role", "ADMIN")), // behind a gateway only
			policies.Named("posts"), shared),

		// One kind for both places, so that one user cannot have two budgets by using both.
		orders: policies.UserRateLimit(limit.PerSecond(2).Burst(2),
			resolver.As("user", resolver.First(resolver.Header("X-User-Id"), resolver.BodyField("userId"))),
			policies.Named("orders"), shared),

		payments: policies.UserRateLimit(limit.PerSecond(1).Burst(1), resolver.BodyField("userId"),
			policies.Named("payments"), shared),

		items: policies.UserRateLimit(limit.PerSecond(10), user, policies.Named("items"), shared),

		reports: policies.UserRateLimit(limit.PerMinute(100), user,
			policies.Cost(50), policies.Named("reports"), shared),

		echo: policies.UserRateLimit(limit.PerMinute(1000), resolver.BodyField("user.id"),
			policies.Named("echo"), shared),
	}
}

// routes tells people what newGin and newEcho mount.
const routes = `
  GET  /healthz         not guarded
  GET  /posts/:id       user (X-User-Id) 100 a minute; without it client IP 30 a minute; X-User-Role: ADMIN exempt
  POST /orders          user (X-User-Id, else JSON userId) 2 a second, burst 2
  POST /payments        user (JSON userId) 1 a second, burst 1
  GET  /items           user (X-User-Id) 10 a second
  POST /reports/export  user (X-User-Id) 100 tokens a minute, each call costs 50
  POST /echo            user (JSON user.id) 1000 a minute; answers with the bytes it read
`

func describe(ginURL, echoURL, redisURL string) string {
	where := "the embedded store"
	if redisURL != "" {
		where = "Redis"
	}
	return fmt.Sprintf(`Gin on %[1]s, Echo on %[2]s; budgets are kept in %[3]s and shared by both.
%[4]s
Try (each a second time, on either app, and watch the budget go):

  curl -i -X POST %[1]s/reports/export -H 'X-User-Id: ann'
  curl -i %[2]s/posts/1
  curl -i -X POST %[2]s/payments -H 'Content-Type: application/json' -d '{"userId":"ann"}'

Ctrl-C stops.
`, ginURL, echoURL, where, routes)
}
