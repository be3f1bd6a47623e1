package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/trafficguard-go/trafficguard/guard"
)

// The limiters of this file are wrong on purpose, each in one respect. They are what people write first.

// planted is what a control is made of.
type planted struct {
	guard.Base
	name   string
	quota  quota
	client *redis.Client
	now    func() time.Time
}

// decide refuses from the quota on.
func (p *planted) decide(before int64) (guard.Decision, error) {
	if before < int64(p.quota.n) {
		return guard.Decision{}, nil
	}
	return guard.Decision{Rejection: &guard.Rejection{Code: guard.RateLimitExceeded, Wait: p.quota.per}}, nil
}

func (p *planted) key(x guard.Exchange) string {
	return "control:" + p.name + ":" + x.Request().Header.Get(userHeader)
}

// A processMap is wrong because each process has its own: three of them admit three times the quota.
type processMap struct {
	planted
	mu   sync.Mutex
	used map[string]*used
}

type used struct {
	n     int64
	until time.Time
}

func newProcessMap(p planted) guard.GuardPolicy {
	return &processMap{planted: p, used: make(map[string]*used)}
}

func (m *processMap) Before(_ context.Context, x guard.Exchange) (guard.Decision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	u, ok := m.used[m.key(x)]
	if !ok || !now.Before(u.until) {
		u = &used{until: now.Add(m.quota.per)}
		m.used[m.key(x)] = u
	}
	d, err := m.decide(u.n)
	if d.Rejection == nil {
		u.n++
	}
	return d, err
}

// A getThenIncr is wrong because it looks and counts in two steps: all who look before the first has counted pass.
type getThenIncr struct{ planted }

func newGetThenIncr(p planted) guard.GuardPolicy { return &getThenIncr{p} }

func (g *getThenIncr) Before(ctx context.Context, x guard.Exchange) (guard.Decision, error) {
	key := g.key(x)
	n, err := g.client.Get(ctx, key).Int64()
	if err != nil && err != redis.Nil { //nolint:errorlint // as people write it, and go-redis documents it
		return guard.Decision{}, err
	}
	d, err := g.decide(n)
	if d.Rejection != nil || err != nil {
		return d, err
	}
	if n, err = g.client.Incr(ctx, key).Result(); err != nil || n > 1 {
		return d, err
	}
	return d, g.client.PExpire(ctx, key, g.quota.per).Err()
}

// A clockWindow counts in one step, and is wrong in what it counts: at the edge of two windows it admits twice the quota at
// once; and each process finds the window by its own clock, so where these differ there are several at a time.
type clockWindow struct{ planted }

func newClockWindow(p planted) guard.GuardPolicy { return &clockWindow{p} }

func (w *clockWindow) Before(ctx context.Context, x guard.Exchange) (guard.Decision, error) {
	key := w.key(x) + ":" + strconv.FormatInt(w.now().UnixNano()/int64(w.quota.per), 10)
	pipe := w.client.TxPipeline()
	n := pipe.Incr(ctx, key)
	pipe.PExpire(ctx, key, w.quota.per+10*time.Second)
	if _, err := pipe.Exec(ctx); err != nil {
		return guard.Decision{}, err
	}
	return w.decide(n.Val() - 1)
}
