package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trafficguard-go/trafficguard/policies"
	"github.com/trafficguard-go/trafficguard/resolver"
)

func inTurn(ctx context.Context, t trial) verdict {
	got := t.inTurn(ctx, 200, t.user())
	v := t.judge(got)
	if n := got[:t.scenario.quota.n].count(shot.refused); v.fault == "" && n > 0 {
		v.fault = fmt.Sprintf("%d were refused before the quota was spent", n)
	}
	return v
}

func nobodyInTurn(ctx context.Context, t trial) verdict {
	t.scenario.quota = t.scenario.quota.nobody()
	return t.judge(t.inTurn(ctx, 60, ""))
}

// oneProcess takes each process twice, so that a race has several chances to show.
func oneProcess(ctx context.Context, t trial) verdict {
	var rounds []verdict
	for _, p := range slices.Repeat(t.fleet, 2) {
		rounds = append(rounds, t.judge(t.burst(ctx, 200, t.user(), fleet{p})))
	}
	return together(rounds)
}

func threeProcesses(ctx context.Context, t trial) verdict {
	var rounds []verdict
	for range 4 {
		rounds = append(rounds, t.judge(t.burst(ctx, 300, t.user(), t.fleet)))
	}
	return together(rounds)
}

// wave is more than the quota of the scenarios that send several.
const wave = 75

// acrossEdge sends a wave before an edge and one after it. Where the machine was so slow that the first was not answered
// before the edge, it tries the next one.
func acrossEdge(ctx context.Context, t trial) verdict {
	const lead, lag, tries = 700 * time.Millisecond, 50 * time.Millisecond, 3
	for range tries {
		user := t.user()
		edge := nextEdge(time.Now().Add(lead), t.scenario.quota.per)
		if pauseUntil(ctx, edge.Add(-lead)) != nil {
			break
		}
		got := t.burst(ctx, wave, user, t.home())
		if !time.Now().Before(edge) {
			continue
		}
		if pauseUntil(ctx, edge.Add(lag)) != nil {
			break
		}
		return t.judge(append(got, t.burst(ctx, wave, user, t.home())...))
	}
	return verdict{fault: fmt.Sprintf("%d times a wave took longer than %s: the machine is too busy", tries, lead)}
}

func afterSpent(ctx context.Context, t trial) verdict {
	user := t.user()
	got := t.burst(ctx, wave, user, t.home())
	for range 2 {
		_ = pause(ctx, 1200*time.Millisecond)
		got = append(got, t.burst(ctx, wave, user, t.home())...)
	}
	return t.judge(got)
}

func skewed(ctx context.Context, t trial) verdict {
	if !t.variant.alone {
		return t.judge(t.burst(ctx, 2*wave, t.user(), t.fleet))
	}
	var rounds []verdict
	for _, p := range t.fleet {
		rounds = append(rounds, t.judge(t.burst(ctx, wave, t.user(), fleet{p})))
	}
	return together(rounds)
}

// duringFlush sends its requests in four bursts, so that there are several moments at which a script is unknown.
func duringFlush(ctx context.Context, t trial) verdict {
	user := t.user()
	stop := make(chan struct{})
	var flushes atomic.Int64
	var flusher sync.WaitGroup
	flusher.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if t.lab.client.ScriptFlush(ctx).Err() != nil {
				return
			}
			flushes.Add(1)
			_ = pause(ctx, time.Millisecond)
		}
	})
	var got shots
	for range 4 {
		got = append(got, t.burst(ctx, 75, user, t.fleet)...)
	}
	close(stop)
	flusher.Wait()
	v := t.judge(got)
	v.numbers += fmt.Sprintf(", %d flushes", flushes.Load())
	if v.fault == "" && flushes.Load() < 4 {
		v.fault = "the scripts were not flushed: nothing is shown"
	}
	return v
}

func remaining(ctx context.Context, t trial) verdict {
	return judgeDescending(t.inTurn(ctx, t.scenario.quota.n, t.user()))
}

// headers stops now and then to look into Redis, as an operator would and by the key itself.
func headers(ctx context.Context, t trial) verdict {
	user, q := t.user(), t.scenario.quota
	policy := t.variant.rateLimit(t.variant.key+"."+t.scenario.key, q, t.lab.store)
	target := policies.Target{Subject: resolver.Subject{Kind: userKind, Value: user}}
	checks, spent := 0, 0
	for spent < q.n {
		got := t.inTurn(ctx, min(10, q.n-spent), user)
		spent += got.count(shot.admitted)
		held, err := policy.Peek(ctx, target)
		if fault := got.unsound(); err != nil || fault != "" {
			return verdict{fault: fmt.Sprint(fault, err)}
		}
		if fault := judgeReading(q, reading{got[len(got)-1], spent, held}); fault != "" {
			return verdict{fault: fault}
		}
		checks++
	}
	said := t.send(ctx, t.fleet[0], user)
	held, err := policy.Peek(ctx, target)
	if err != nil {
		return verdict{fault: err.Error()}
	}
	checks++
	v := verdict{numbers: strconv.Itoa(checks) + " agree", fault: judgeReading(q, reading{said, spent, held})}
	if v.fault == "" && !said.refused() {
		v.fault = "a request beyond the quota was not refused"
	}
	if v.fault == "" {
		v.fault = t.lab.oneKey(ctx, user)
	}
	return v
}

// oneKey says what is wrong with what Redis holds for user.
func (l *lab) oneKey(ctx context.Context, user string) string {
	keys, err := l.client.Keys(ctx, namespace+":{*="+user+"}*").Result()
	if err != nil {
		return err.Error()
	}
	if len(keys) != 1 {
		return fmt.Sprintf("Redis holds %d keys for one user: %q", len(keys), keys)
	}
	if ttl := l.client.TTL(ctx, keys[0]).Val(); ttl <= 0 {
		return "the key " + keys[0] + " never expires"
	}
	return ""
}

// comeBack has users refused just after a multiple of the period, which is where a window begins that has edges.
func comeBack(ctx context.Context, t trial) verdict {
	const users = 9
	const longest = 15 * time.Second // a wait beyond what the limit can mean would only hold up the run
	_ = pauseUntil(ctx, nextEdge(time.Now(), t.scenario.quota.per).Add(20*time.Millisecond))
	all := make([]comeback, users)
	var coming sync.WaitGroup
	for i := range all {
		coming.Go(func() {
			user, to := t.user(), t.home()
			p := to[i%len(to)]
			c := comeback{first: t.send(ctx, p, user), refused: t.send(ctx, p, user)}
			wait := min(c.refused.retryAfter(), longest)
			_ = pauseUntil(ctx, c.refused.sent.Add(wait-tooEarly))
			c.early = t.send(ctx, to[(i+1)%len(to)], user)
			_ = pauseUntil(ctx, c.refused.got.Add(wait))
			c.due = t.send(ctx, to[(i+2)%len(to)], user)
			all[i] = c
		})
	}
	coming.Wait()
	return judgeComebacks(all)
}

// load measures one variant after the other, and the route without a guard first.
func load(ctx context.Context, l *lab, trials []trial) ([]verdict, error) {
	span := 1200 * time.Millisecond
	if l.quick {
		span = 250 * time.Millisecond
	}
	l.bare = l.measure(ctx, span, barePath).numbers
	got := make([]verdict, len(trials))
	for i, t := range trials {
		got[i] = l.measure(ctx, span, path(t.variant, t.scenario))
	}
	return got, nil
}

// measure sends requests one after the other on each of 24 connections, spread over the processes, for a while.
func (l *lab) measure(ctx context.Context, span time.Duration, path string) verdict {
	const connections, most = 24, 10_000
	end := time.Now().Add(span)
	took := make([][]time.Duration, connections)
	last := atOnce(connections, func(i int) (s shot) {
		user := fmt.Sprintf("load%d", i)
		for len(took[i]) < most && time.Now().Before(end) {
			if s = l.get(ctx, l.fleet[i%len(l.fleet)], path, user); !s.admitted() {
				break
			}
			took[i] = append(took[i], s.got.Sub(s.sent))
		}
		return s
	})
	if n := connections - last.count(shot.admitted); n > 0 {
		return verdict{info: true, numbers: fmt.Sprintf("%d of %d broke off", n, connections)}
	}
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	return verdict{info: true, numbers: fmt.Sprintf("%.0f/s, %.1f ms",
		float64(len(all))/span.Seconds(), float64(quantile(all, 0.99).Microseconds())/1000)}
}
