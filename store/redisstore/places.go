package redisstore

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/trafficguard-go/trafficguard/store"
)

// places bounds the calls that are in flight to one server by the connections there can be. So whoever has to wait waits
// here, before anything was sent, and what goes on at the server is known apart from what goes on in this process.
type places struct {
	taken   chan struct{} // holds one element for each call in flight; who waits to send is served in turn
	timeout time.Duration // of a call
	epoch   time.Time
	last    atomic.Int64 // when the server last answered, in nanoseconds since epoch, -1 for never
	took    atomic.Int64 // how long an answer takes of late, in nanoseconds
	late    atomic.Int64 // when this process was last found to be starved, as last
}

func newPlaces(o *redis.Options, timeout time.Duration) *places {
	n := o.PoolSize
	if o.MaxActiveConns > 0 {
		n = min(n, o.MaxActiveConns)
	}
	p := &places{taken: make(chan struct{}, n), timeout: timeout, epoch: time.Now()}
	p.last.Store(-1)
	p.late.Store(-1)
	return p
}

// errCrowded says why a call was not made.
var errCrowded = errors.New("all connections are in use")

// enter takes a place for a call, which leave gives back. Its error is a failure.
func (p *places) enter(ctx context.Context) error {
	select {
	case p.taken <- struct{}{}:
		return nil
	default:
		return p.queue(ctx)
	}
}

func (p *places) leave() { <-p.taken }

// queue waits for a place as long as the answer can come in time afterwards: half of the time is the server's, and what
// it has needed of late twice over. What is sent later is charged for nothing and costs a connection. Where the wait is in vain
// it says whose fault that is: the server's, if it has answered nobody meanwhile.
func (p *places) queue(ctx context.Context) error {
	began := time.Now()
	p.measure()
	deadline, _ := ctx.Deadline()
	left := deadline.Sub(began)
	needed := max(left/2, 2*time.Duration(p.took.Load()))
	timer := time.NewTimer(left - needed)
	defer timer.Stop()
	select {
	case p.taken <- struct{}{}:
		if time.Until(deadline) >= needed/2 { // else this goroutine was woken late
			return nil
		}
		p.leave()
	case <-timer.C:
	case <-ctx.Done():
	}
	for !p.answeredSince(began) && ctx.Err() == nil { // an answer to another call may still come
		timer.Reset(p.timeout / 20)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if !errors.Is(ctx.Err(), context.Canceled) && p.ours(began) {
		return &failure{kind: store.ErrSaturated, cause: errCrowded, ours: true}
	}
	return judge(ctx, errCrowded)
}

// await takes a place for what has time. Its error is a failure.
func (p *places) await(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errOverdue)
	defer cancel()
	select {
	case p.taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		return judge(ctx, errCrowded)
	}
}

// answered notes an answer to what was sent at start.
func (p *places) answered(start time.Time) {
	const weight = 8 // of what was, against one new answer; two calls at once may lose one of them
	now := time.Now()
	p.last.Store(int64(now.Sub(p.epoch)))
	took, was := int64(now.Sub(start)), p.took.Load()
	if was != 0 {
		took = was + (took-was)/weight
	}
	p.took.Store(took)
}

// ours reports whether it is this process that a call, which began at start and was not sent in time, has to blame.
func (p *places) ours(start time.Time) bool { return p.answeredSince(start) || p.starvedSince(start) }

// answeredSince reports whether the server has answered a call since start.
func (p *places) answeredSince(start time.Time) bool {
	return time.Duration(p.last.Load()) >= start.Sub(p.epoch)
}

// starvedSince reports whether this process had more to do since start than it had time for, so that a call which ran out of
// time says nothing about the server: the answer may have waited for its reader.
func (p *places) starvedSince(start time.Time) bool {
	p.measure()
	return time.Duration(p.late.Load()) >= start.Sub(p.epoch)
}

// measure finds out how long a goroutine waits for its turn, which a call does half a dozen times.
func (p *places) measure() {
	start := time.Now()
	runtime.Gosched()
	if now := time.Now(); now.Sub(start) > max(p.timeout/20, time.Millisecond) {
		p.late.Store(int64(now.Sub(p.epoch)))
	}
}
