package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/luascripts"
	"github.com/trafficguard-go/trafficguard/store"
)

// A Store keeps the state of limits in Redis. It is safe for concurrent use. Make it with [Open] or [New] and end
// it with [Store.Close].
type Store struct {
	namespace string
	timeout   time.Duration
	servers   servers
	errors    repeated
	scripts   scripts
	// background is what goes on between calls.
	background *background
	// closeServers ends what the store has opened.
	closeServers func() error
	// clock replaces the server's clock. Only tests set it.
	clock func() time.Time
}

var _ store.RateStore = (*Store)(nil)

type scripts struct{ take, peek, settle script }

func newStore(namespace string, s settings) *Store {
	return &Store{
		namespace:  namespace,
		timeout:    s.timeout,
		errors:     repeated{logger: s.logger},
		background: newBackground(),
		scripts: scripts{
			take:   newScript(luascripts.TokenBucketTake),
			peek:   newScript(luascripts.TokenBucketPeek),
			settle: newScript(luascripts.TokenBucketSettle),
		},
	}
}

// Close ends the connections that the store has made, and its goroutines. A client that was given to [New] stays open, and an
// attempt to connect it is waited for, some seconds at most. Calls that are under way fail.
func (s *Store) Close() error {
	s.background.stop()
	err := s.closeServers()
	s.background.wait()
	return err
}

// Take implements [store.RateStore].
func (s *Store) Take(ctx context.Context, r store.Request) (store.Grant, error) {
	if err := r.Check(); err != nil {
		return store.Grant{}, err
	}
	reply, err := s.decide(ctx, s.decision(&s.scripts.take, r))
	if err != nil {
		return store.Grant{}, err
	}
	switch v := reply.(type) {
	case int64:
		if isRefusal(r, v) {
			return store.Grant{Verdict: r.Rule.Verdict(-1-v, r.Cost, false)}, nil
		}
	case []any:
		if len(v) != 2 {
			break
		}
		debt, isDebt := v[0].(int64)
		now, isTime := v[1].(int64)
		if isDebt && isTime && isAdmission(r, debt) && now > 0 && now < limit.Exact {
			return store.Grant{Verdict: r.Rule.Verdict(debt, r.Cost, true), At: r.Rule.StateAt(now, debt)}, nil
		}
	}
	return store.Grant{}, s.strange(reply)
}

// isAdmission reports whether debt can be what r left.
func isAdmission(r store.Request, debt int64) bool {
	units, ok := r.Rule.Units(r.Cost)
	return ok && units <= debt && debt <= r.Rule.Capacity()
}

// isRefusal reports whether v, -1 - debt, can be what r met: a debt that leaves it no room.
func isRefusal(r store.Request, v int64) bool {
	if v >= 0 || -1-v > r.Rule.MaxDebt() {
		return false
	}
	units, ok := r.Rule.Units(r.Cost)
	return !ok || -1-v+units > r.Rule.Capacity()
}

// Peek implements [store.RateStore].
func (s *Store) Peek(ctx context.Context, r store.Request) (limit.Verdict, error) {
	if err := r.Check(); err != nil {
		return limit.Verdict{}, err
	}
	reply, err := s.decide(ctx, s.decision(&s.scripts.peek, r))
	if err != nil {
		return limit.Verdict{}, err
	}
	v, ok := reply.(int64)
	switch {
	case ok && isRefusal(r, v):
		return r.Rule.Verdict(-1-v, r.Cost, false), nil
	case ok && isAdmission(r, v):
		return r.Rule.Verdict(v, r.Cost, true), nil
	default:
		return limit.Verdict{}, s.strange(reply)
	}
}

// Reset implements [store.RateStore].
func (s *Store) Reset(ctx context.Context, k store.Key) error {
	reply, err := s.decide(ctx, command{name: "del", key: keyText(s.namespace, k)})
	if err == nil && reply != int64(0) && reply != int64(1) {
		err = s.strange(reply)
	}
	return err
}

// Settle implements [store.RateStore]. It is not cut short when ctx is cancelled; ctx's deadline and the store's own timeout
// bound it.
func (s *Store) Settle(ctx context.Context, r store.Receipt, actual int64) error {
	if err := r.Check(actual); err != nil {
		return err
	}
	units := correction(r.Rule, r.Cost, actual)
	if units == 0 {
		return nil
	}
	at := fmt.Sprintf("%016d%03d", r.At.At, r.At.Frac)
	within := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		within, cancel = context.WithDeadline(within, deadline)
		defer cancel()
	}
	reply, err := s.decide(within, command{
		script: &s.scripts.settle,
		key:    keyText(s.namespace, r.Key),
		args:   s.timed(nil, nil, nil, nil, r.Rule.Denominator(), units, r.Rule.Bound(), r.Rule.MaxDebt(), at),
	})
	if err == nil && reply != int64(0) {
		err = s.strange(reply)
	}
	return err
}

// Ping makes one decision under a key of the store's own and returns what a caller would get: nil if limits are enforced,
// else an error that is [store.ErrUnavailable] or [store.ErrMisconfigured]. In a Cluster it asks one node.
func (s *Store) Ping(ctx context.Context) error { return s.probe(ctx, s.timeout) }

func (s *Store) probe(ctx context.Context, timeout time.Duration) error {
	_, err := s.call(ctx, timeout, s.probeCommand())
	return err
}

// probeCommand takes one unit of one microsecond: the key is gone a millisecond later.
func (s *Store) probeCommand() command {
	return command{script: &s.scripts.take, key: s.probeKey(), args: []any{head: 1, 1, 1, 1, 1}}
}

// probeKey returns a key that is no subject's: those hold "=".
func (s *Store) probeKey() string { return s.namespace + ":{ping}" }

// decision returns the command that runs a script which takes or peeks.
func (s *Store) decision(c *script, r store.Request) command {
	units, ok := r.Rule.Units(r.Cost)
	if !ok {
		units = r.Rule.Capacity() + 1 // refused whatever is stored
	}
	return command{
		script: c,
		key:    keyText(s.namespace, r.Key),
		args:   s.timed(nil, nil, nil, nil, r.Rule.Denominator(), units, r.Rule.Capacity(), r.Rule.Bound(), r.Rule.MaxDebt()),
	}
}

// timed appends to the arguments of a script, before which there is room for a head, the time where a test sets it.
func (s *Store) timed(args ...any) []any {
	if s.clock != nil {
		args = append(args, s.clock().UnixMicro())
	}
	return args
}

// correction returns the units to charge more, or less if negative, to turn cost into actual.
func correction(r *limit.Rule, cost, actual int64) int64 {
	unit, _ := r.Units(1)
	if actual > cost && actual-cost > r.MaxDebt()/unit {
		return r.MaxDebt()
	}
	return (actual - cost) * unit
}

// strange reports a reply of a shape that the scripts do not give.
func (s *Store) strange(reply any) error {
	err := &failure{kind: store.ErrMisconfigured, cause: fmt.Errorf("unexpected reply %v (%T)", reply, reply)}
	s.errors.report(err)
	return err
}

// decide is call for what nobody may look at the error of.
func (s *Store) decide(ctx context.Context, c command) (any, error) {
	reply, err := s.call(ctx, s.timeout, c)
	if errors.Is(err, store.ErrMisconfigured) {
		s.errors.report(err)
	}
	return reply, err
}

// call sends one command and waits for its answer, at most for timeout.
func (s *Store) call(ctx context.Context, timeout time.Duration, c command) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, &failure{kind: store.ErrUnavailable, cause: err, ours: true}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errOverdue)
	defer cancel()
	return send(ctx, s.servers, c)
}
