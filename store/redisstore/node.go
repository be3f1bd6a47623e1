package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/trafficguard-go/trafficguard/store"
)

// An upkeep is what all nodes have from their store.
type upkeep struct {
	timeout    time.Duration // of a call
	logger     *slog.Logger
	background *background
	probe      func() command // a decision that is no subject's
	probeKey   string
}

// patience returns the time to connect, which takes several round trips where a call takes one.
func (u upkeep) patience() time.Duration { return max(ownTimeout, u.timeout) }

// A node is a server with the gate that calls to it pass.
type node struct {
	client *redis.Client
	*gate
}

// A gate says who may call a server now.
type gate struct {
	upkeep  upkeep
	breaker *breaker
	places  *places
	lost    atomic.Int32 // calls that have failed since connections were last made
}

func newGate(c *redis.Client, u upkeep) *gate {
	o := c.Options()
	return &gate{upkeep: u, breaker: newBreaker(o.Addr, u.logger, u.background), places: newPlaces(o, u.timeout)}
}

// ask sends c to the server, if the gate lets it.
func (n node) ask(ctx context.Context, c command, asking bool) (any, error) {
	reply, err := n.breaker.run(func() (any, error) {
		if err := n.places.enter(ctx); err != nil {
			return nil, err
		}
		defer n.places.leave()
		return n.call(ctx, c, asking)
	})
	if !answer(err) {
		n.breaker.mend(n.try, n.connect)
	}
	return reply, err
}

// call sends c, for which there is a place. Its error is a failure.
func (n node) call(ctx context.Context, c command, asking bool) (any, error) {
	start := time.Now()
	reply, sent, err := c.exchange(ctx, n.client, asking)
	if err == nil {
		n.places.answered(start)
		return reply, nil
	}
	f := judge(ctx, err)
	if answer(f) {
		n.places.answered(start)
		return nil, f
	}
	n.lost.Add(1)
	switch {
	case f.ours:
	case !sent && (ctx.Err() != nil && n.places.answeredSince(start) || poolFull(err) && n.places.ours(start)):
		// That this process is starved is not enough here: the call had a place, and a server that lets nobody connect is down.
		return nil, &failure{kind: store.ErrSaturated, cause: err, ours: true}
	case ctx.Err() != nil && n.places.starvedSince(start):
		f.ours = true
	}
	return nil, f
}

// poolFull says that the client had no connection for a call: others use it, too, or what go-redis holds to connect with.
func poolFull(err error) bool {
	return errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}

// try finds out whether the server decides in a call's time, once there is a connection. Its error is a failure.
func (n node) try(ctx context.Context) error {
	if err := n.places.await(ctx, n.upkeep.patience()); err != nil {
		return err
	}
	defer n.places.leave()
	var err error
	for range 3 { // one answer that comes too late does not say that all do
		if err = n.dial(ctx); !answer(err) {
			break
		}
		within, cancel := context.WithTimeoutCause(ctx, n.upkeep.timeout, errOverdue)
		_, err = n.call(within, n.upkeep.probe(), false)
		cancel()
		if answer(err) || ctx.Err() != nil {
			break
		}
	}
	return err
}

// connect leaves connections in the pool for as many calls as have failed, but half of the places to others: a call that has to
// connect may have no time left to ask, and what it has begun is closed with it.
func (n node) connect(ctx context.Context) {
	for lost := n.lost.Swap(0); lost > 0 && ctx.Err() == nil; lost = n.lost.Swap(0) {
		var all sync.WaitGroup
		for range min(int(lost), max(1, cap(n.places.taken)/2)) {
			all.Go(func() {
				if n.places.await(ctx, n.upkeep.patience()) == nil {
					_ = n.dial(ctx)
					n.places.leave()
				}
			})
		}
		all.Wait()
	}
}

// dial leaves a connection in the pool, over which the server has decided something that is no subject's. Its error is a
// failure.
func (n node) dial(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, n.upkeep.patience(), errOverdue)
	defer cancel()
	if _, _, err := n.upkeep.probe().exchange(ctx, n.client, false); err != nil {
		return judge(ctx, err)
	}
	return nil
}
