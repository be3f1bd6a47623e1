package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
)

func differential(c Config) contract {
	if c.Decisions == 0 {
		c.Decisions = 10_000
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	return contract{
		name: "differential",
		rule: "Over any schedule a store answers, request by request, what the arithmetic of package limit answers.",
		run: func(x *trial) {
			d := newRun(x, c.Seed)
			for step := range c.Decisions {
				d.step(step)
				if x.Failed() {
					x.Fatalf("step %d of the schedule with Seed %d", step, c.Seed)
				}
			}
		},
	}
}

// A run sends one schedule to a store and to a map.
type run struct {
	*trial
	rand     *rand.Rand
	rules    []*limit.Rule
	states   map[store.Key]limit.State
	subjects []subject
	receipts []store.Receipt // not yet settled
	moments  []time.Time     // at which a refused request was told to return
}

func newRun(x *trial, seed uint64) *run {
	d := &run{trial: x, rand: rand.New(rand.NewPCG(seed, 1)), states: make(map[store.Key]limit.State)}
	limits := append(uneven(),
		limit.PerSecond(1000).Burst(1), limit.PerSecond(10), limit.PerMinute(100).Burst(3), limit.PerHour(1),
		limit.PerSecond(1_000_000).Burst(50), limit.Per(7, 13*time.Millisecond).Burst(100))
	for i, l := range limits {
		d.rules = append(d.rules, rule(x, l))
		for n := range 3 {
			d.subjects = append(d.subjects, x.subject(fmt.Sprintf("%d of limit %d", n, i), l))
		}
	}
	return d
}

// step does one thing to one subject and compares.
func (d *run) step(n int) {
	d.move()
	s := d.subjects[d.rand.IntN(len(d.subjects))]
	if d.rand.IntN(50) == 0 { // a plan that changes for one request
		s.rule = d.rules[d.rand.IntN(len(d.rules))]
	}
	switch p := d.rand.IntN(100); {
	case p < 70:
		d.take(n, s)
	case p < 80:
		d.peek(n, s)
	case p < 99:
		d.settle(n)
	default:
		if err := d.store.Reset(context.Background(), s.key); err != nil {
			d.Errorf("step %d: Reset: %v", n, err)
		}
		delete(d.states, s.key)
	}
}

// move moves the clock: not at all, to around a moment at which a refused request may return, or by some time between a
// microsecond and an hour.
func (d *run) move() {
	switch d.rand.IntN(4) {
	case 0:
	case 1, 2:
		if len(d.moments) == 0 {
			return
		}
		i := d.rand.IntN(len(d.moments))
		at := d.moments[i].Add(time.Duration(d.rand.IntN(3)-1) * time.Microsecond)
		if ahead := at.Sub(d.clock.Now()); ahead > 0 && ahead < 2*time.Hour {
			d.clock.Set(at)
		}
		d.moments[i] = d.moments[len(d.moments)-1]
		d.moments = d.moments[:len(d.moments)-1]
	default:
		d.clock.Advance(time.Duration(d.rand.Int64N(int64(1) << (10 + d.rand.IntN(32)))))
	}
}

func (d *run) cost(r *limit.Rule) int64 {
	if d.rand.IntN(2) == 0 {
		return 1
	}
	return 1 + d.rand.Int64N(r.Burst()+1) // now and then one more than can ever pass
}

func (d *run) take(n int, s subject) {
	cost, now := d.cost(s.rule), d.clock.Now()
	next, want := s.rule.Take(d.states[s.key], now.UnixMicro(), cost)
	d.states[s.key] = next
	got, err := d.store.Take(context.Background(), s.request(cost))
	if err != nil || got.Verdict != want {
		d.Errorf("step %d: Take(%s, %s, cost %d): %+v, %v, want %+v", n, s.rule.Limit(), s.key.Subject, cost, got.Verdict, err, want)
		return
	}
	if !want.OK {
		if want.Wait > 0 && len(d.moments) < 100 {
			d.moments = append(d.moments, now.Add(want.Wait))
		}
		return
	}
	if got.Degraded || got.At != next {
		d.Errorf("step %d: Take(%s, %s, cost %d): the charge left %+v, want %+v", n, s.rule.Limit(), s.key.Subject, cost, got.At, next)
	}
	if len(d.receipts) < 100 {
		d.receipts = append(d.receipts, got.Receipt(s.request(cost)))
	}
}

func (d *run) peek(n int, s subject) {
	cost := d.cost(s.rule)
	_, want := s.rule.Take(d.states[s.key], d.clock.Now().UnixMicro(), cost)
	got, err := d.store.Peek(context.Background(), s.request(cost))
	if err != nil || got != want {
		d.Errorf("step %d: Peek(%s, %s, cost %d): %+v, %v, want %+v", n, s.rule.Limit(), s.key.Subject, cost, got, err, want)
	}
}

func (d *run) settle(n int) {
	if len(d.receipts) == 0 {
		return
	}
	i := d.rand.IntN(len(d.receipts))
	r := d.receipts[i]
	d.receipts[i] = d.receipts[len(d.receipts)-1]
	d.receipts = d.receipts[:len(d.receipts)-1]

	actual := d.rand.Int64N(r.Cost + 1)
	if d.rand.IntN(3) == 0 {
		actual = r.Cost + d.rand.Int64N(r.Rule.Burst()+1)
	}
	if err := d.store.Settle(context.Background(), r, actual); err != nil {
		d.Errorf("step %d: Settle(%s, %s, cost %d to %d): %v", n, r.Rule.Limit(), r.Key.Subject, r.Cost, actual, err)
	}
	d.states[r.Key] = r.Rule.Settle(d.states[r.Key], d.clock.Now().UnixMicro(), r.At, r.Cost, actual)
}
