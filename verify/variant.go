package main

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/policies"
	"github.com/trafficguard-go/trafficguard/resolver"
	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/memory"
	"github.com/trafficguard-go/trafficguard/store/redisstore"
)

// A variant is a column of the table: an algorithm and where its state is kept, or a control.
type variant struct {
	key   string // in paths and in the names of policies: letters, digits, "-"
	title string // at the head of the column

	// limit makes a scenario's quota a limit of the algorithm. It is nil for a control.
	limit func(n int, per time.Duration) limit.Limit
	// allows is what the algorithm promises.
	allows allowance
	// alone says that each process counts for itself, by design or, in a control, by mistake.
	alone bool

	// wrong makes the policy of a control.
	wrong func(c planted) guard.GuardPolicy
	// caughtBy names the scenarios, by key, that must catch the control. It is not empty in one.
	caughtBy []string
}

// variants are the columns. To add an algorithm, add its line: the constructor of its limits and its allowance.
func variants() []variant {
	return []variant{
		{key: "bucket", title: "token bucket\non Redis", limit: limit.Per, allows: bucket},
		{key: "bucket-embedded", title: "token bucket\nembedded", limit: limit.Per, allows: bucket, alone: true},

		{key: "map", title: "a map in\neach process", wrong: newProcessMap, allows: lenient, alone: true,
			caughtBy: []string{"three-processes"}},
		{key: "get-incr", title: "GET, look,\nthen INCR", wrong: newGetThenIncr, allows: lenient,
			caughtBy: []string{"one-process", "three-processes"}},
		{key: "fixed", title: "window on the\nprocess's clock", wrong: newClockWindow, allows: lenient,
			caughtBy: []string{"edge", "clocks"}},
	}
}

// ours says whether v is this module's.
func (v variant) ours() bool { return v.wrong == nil }

// A quota is what a scenario grants each user.
type quota struct {
	n   int
	per time.Duration
}

// nobody is the quota of those who do not say who they are.
func (q quota) nobody() quota { return quota{max(1, q.n*3/10), q.per} }

// refill is what grows again from one instant to the other.
func (q quota) refill(from, to time.Time) int {
	return int(float64(q.n) * to.Sub(from).Seconds() / q.per.Seconds())
}

// An allowance says how many requests of one user must and how many may pass between two instants. The user was new at
// the first, and has asked for more than there was ever since, or at least at the second.
type allowance func(q quota, from, to time.Time) (least, most int)

// bucket is the allowance of the token bucket: all of it at once, and what grows meanwhile.
func bucket(q quota, from, to time.Time) (least, most int) {
	n := q.n + q.refill(from, to)
	return n, n
}

// lenient asks of a control as much as any reading of "n in per" does: the quota, and no more refill than evenly.
func lenient(q quota, from, to time.Time) (least, most int) { return q.n, q.n + q.refill(from, to) }

// footing is what the policies of one process stand on.
type footing struct {
	redis    store.RateStore
	embedded store.RateStore
	client   *redis.Client    // of the controls; nil behind a Sentinel, where none run
	now      func() time.Time // the process's own clock
}

// namespace is that of every process, so that they share every budget.
const namespace = "verify"

// patience is how long a process waits for Redis: longer than a service would, because this asks for exact counts on a
// machine that is busy with the load itself.
const patience = 2 * time.Second

func openStore(url string) (*redisstore.Store, error) {
	return redisstore.Open(url, namespace, redisstore.Timeout(patience), redisstore.Logger(discard))
}

func openFooting(url string, skew time.Duration) (footing, error) {
	s, err := openStore(url)
	if err != nil {
		return footing{}, err
	}
	f := footing{redis: s, embedded: memory.New(), now: func() time.Time { return time.Now().Add(skew) }}
	if skew != 0 {
		f.embedded = memory.New(memory.Clock(f.now))
	}
	if o, err := redis.ParseURL(url); err == nil {
		o.PoolSize = 256 // a control must not be saved by a queue for connections
		f.client = redis.NewClient(o)
	}
	return f, nil
}

// policy returns what guards the route of v in a scenario; nil if there is none on this footing.
func (v variant) policy(s scenario, f footing) guard.GuardPolicy {
	name := v.key + "." + s.key
	switch {
	case v.wrong == nil && v.alone:
		return v.rateLimit(name, s.quota, f.embedded)
	case v.wrong == nil:
		return v.rateLimit(name, s.quota, f.redis)
	case f.client == nil:
		return nil
	default:
		return v.wrong(planted{name: name, quota: s.quota, client: f.client, now: f.now})
	}
}

const (
	userHeader = "X-User-Id"
	userKind   = "user"
)

func (v variant) rateLimit(name string, q quota, in store.RateStore) *policies.RateLimit {
	nobody := q.nobody()
	return policies.UserRateLimit(v.limit(q.n, q.per), resolver.As(userKind, resolver.Header(userHeader)),
		policies.Else(v.limit(nobody.n, nobody.per), resolver.ClientIP()),
		policies.Named(name), policies.Headers(policies.RateLimitHeaders), policies.InStore(in))
}
