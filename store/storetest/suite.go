package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
)

// A Config says what is to be tested.
type Config struct {
	// Open returns a store that takes the time from clock and from nowhere else: what it keeps must not be lost
	// because real time has passed. It is called once for each case; the stores may share what lies behind
	// them. What must be closed afterwards belongs in t.Cleanup. Cases run in parallel.
	Open func(t testing.TB, clock *Clock) store.RateStore
	// Decisions is how long the differential run is. Default: 10,000.
	Decisions int
	// Seed repeats a differential run that failed. Default: another one each time; a failure prints it.
	Seed uint64
	// Monotonic says that the store's time never goes back even if the clock does. The cases about a clock that
	// goes back are then left out.
	Monotonic bool
}

// TestRateStore tests the store that c opens.
func TestRateStore(t *testing.T, c Config) {
	cases := concat(takeCases(), settleCases(), keyCases(), timeCases(), concurrentCases())
	if !c.Monotonic {
		cases = append(cases, backwardCases()...)
	}
	cases = append(cases, differential(c))
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("The rule: %s", tc.rule)
				}
			})
			clock := NewClock()
			tc.run(&trial{T: t, store: c.Open(t, clock), clock: clock, run: fmt.Sprintf("%s-%016x", t.Name(), rand.Uint64())})
		})
	}
}

// A contract is one thing that a store must do.
type contract struct {
	name string
	rule string // told when it is violated
	run  func(x *trial)
}

func concat(sets ...[]contract) []contract {
	var all []contract
	for _, s := range sets {
		all = append(all, s...)
	}
	return all
}

// A trial is what a case works at: a store, its clock, and keys that nobody else uses.
type trial struct {
	*testing.T
	store store.RateStore
	clock *Clock
	run   string
}

// key returns a key of this case and run alone.
func (x *trial) key(subject string) store.Key {
	return store.Key{Policy: x.run, Kind: "test", Subject: subject}
}

// rule returns the rule of l.
func rule(t testing.TB, l limit.Limit) *limit.Rule {
	t.Helper()
	r, err := l.Compile()
	if err != nil {
		t.Fatalf("limit %s: %v", l, err)
	}
	return r
}

// A subject is one key under one rule.
type subject struct {
	*trial
	key  store.Key
	rule *limit.Rule
}

// subject returns a subject of that name under l.
func (x *trial) subject(name string, l limit.Limit) subject {
	x.Helper()
	return subject{trial: x, key: x.key(name), rule: rule(x, l)}
}

// under returns the same subject under another limit.
func (s subject) under(l limit.Limit) subject {
	s.Helper()
	s.rule = rule(s, l)
	return s
}

func (s subject) request(cost int64) store.Request {
	return store.Request{Key: s.key, Rule: s.rule, Cost: cost}
}

// granted is a grant with the receipt for it.
type granted struct {
	store.Grant
	receipt store.Receipt
}

// take decides, and checks what holds for every answer.
func (s subject) take(cost int64) granted {
	s.Helper()
	g, err := s.store.Take(context.Background(), s.request(cost))
	if err != nil {
		s.Fatalf("Take(%s, cost %d): %v", s.rule.Limit(), cost, err)
	}
	s.sane(g.Verdict, cost)
	return granted{g, g.Receipt(s.request(cost))}
}

// peek looks, and checks what holds for every answer.
func (s subject) peek(cost int64) limit.Verdict {
	s.Helper()
	v, err := s.store.Peek(context.Background(), s.request(cost))
	if err != nil {
		s.Fatalf("Peek(%s, cost %d): %v", s.rule.Limit(), cost, err)
	}
	s.sane(v, cost)
	return v
}

func (s subject) sane(v limit.Verdict, cost int64) {
	s.Helper()
	switch {
	case v.OK && v.Wait != 0:
		s.Errorf("%s, cost %d: admitted with a wait of %s", s.rule.Limit(), cost, v.Wait)
	case !v.OK && v.Wait == 0:
		s.Errorf("%s, cost %d: refused with a wait of 0", s.rule.Limit(), cost)
	case v.Remaining < 0 || v.Remaining > s.rule.Burst():
		s.Errorf("%s, cost %d: remaining is %d", s.rule.Limit(), cost, v.Remaining)
	case v.Full < 0:
		s.Errorf("%s, cost %d: full in %s", s.rule.Limit(), cost, v.Full)
	}
}

// admit takes, and it must pass.
func (s subject) admit(cost int64) granted {
	s.Helper()
	g := s.take(cost)
	if !g.OK {
		s.Fatalf("%s, cost %d: refused (%+v), must pass", s.rule.Limit(), cost, g.Verdict)
	}
	return g
}

// refuse takes, and it must be refused with that wait.
func (s subject) refuse(cost int64, wait time.Duration) {
	s.Helper()
	g := s.take(cost)
	if g.OK {
		s.Fatalf("%s, cost %d: admitted, must be refused with a wait of %s", s.rule.Limit(), cost, wait)
	}
	if g.Wait != wait {
		s.Fatalf("%s, cost %d: refused with a wait of %s, want %s", s.rule.Limit(), cost, g.Wait, wait)
	}
}

// settle corrects the charge of g.
func (s subject) settle(g granted, actual int64) {
	s.Helper()
	if err := s.store.Settle(context.Background(), g.receipt, actual); err != nil {
		s.Fatalf("Settle(%s, cost %d to %d): %v", s.rule.Limit(), g.receipt.Cost, actual, err)
	}
}

// left checks how much can be spent now, by looking with cost 1.
func (s subject) left(want int64) {
	s.Helper()
	v := s.peek(1)
	got := v.Remaining
	if v.OK {
		got++
	}
	if got != want {
		s.Fatalf("%s: %d can be spent, want %d (%+v)", s.rule.Limit(), got, want, v)
	}
}

// drain spends all that can be spent now, at once.
func (s subject) drain() {
	s.Helper()
	v := s.peek(1)
	if !v.OK {
		s.Fatalf("%s: there is nothing to spend: %+v", s.rule.Limit(), v)
	}
	g := s.admit(v.Remaining + 1)
	if g.Remaining != 0 {
		s.Fatalf("%s: spent all %d, %d remain", s.rule.Limit(), v.Remaining+1, g.Remaining)
	}
}
