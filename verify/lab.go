package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/trafficguard-go/trafficguard/internal/redistest"
	"github.com/trafficguard-go/trafficguard/store/redisstore"
)

// A lab is what all scenarios share: one Redis, and a fleet on it.
type lab struct {
	quick   bool
	fleet   fleet
	url     string        // of the Redis
	client  *redis.Client // what the program itself sees of it
	store   *redisstore.Store
	version string
	http    *http.Client
	users   atomic.Int64
	bare    string // what an unguarded route did, once measured
	stops   []func() error
}

func openLab(ctx context.Context, quick bool) (l *lab, err error) {
	l = &lab{quick: quick, http: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 1024},
		Timeout:   30 * time.Second,
	}}
	l.onClose(func() error { l.http.CloseIdleConnections(); return nil })
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	server, stop, err := redistest.StartShared()
	if err != nil {
		return nil, err
	}
	l.onClose(func() error { stop(); return nil })
	l.url = server.URL()
	l.client = redis.NewClient(&redis.Options{Addr: server.Addr()})
	l.onClose(l.client.Close)
	if l.store, err = openStore(l.url); err != nil { //nolint:contextcheck // it bounds itself
		return nil, err
	}
	l.onClose(l.store.Close)
	_, version, _ := strings.Cut(l.client.Info(ctx, "server").Val(), "redis_version:")
	l.version, _, _ = strings.Cut(version, "\r")
	l.fleet, err = l.startFleet(ctx, l.url)
	if err != nil {
		return nil, err
	}
	l.onClose(l.fleet.stop)
	return l, nil
}

func (l *lab) onClose(f func() error) { l.stops = append(l.stops, f) }

// close stops what was started, the last first.
func (l *lab) close() error {
	var errs []error
	for i := len(l.stops); i > 0; i-- {
		errs = append(errs, l.stops[i-1]())
	}
	l.stops = nil
	return errors.Join(errs...)
}

// startFleet starts a fleet and opens connections to it, so that a burst is not spread out by dialling.
func (l *lab) startFleet(ctx context.Context, url string, skews ...time.Duration) (fleet, error) {
	f, err := startFleet(ctx, url, skews...)
	if err != nil {
		return nil, err
	}
	const connections = 150
	for _, p := range f {
		_ = atOnce(connections, func(int) shot { return l.get(ctx, p, barePath, "") })
	}
	return f, nil
}

// verdicts runs s on each variant that it fits.
func (l *lab) verdicts(ctx context.Context, s scenario, vs []variant) ([]verdict, error) {
	if err := awaitRoom(ctx, s.quota.per); err != nil {
		return nil, err
	}
	var trials []trial
	for _, v := range vs {
		if s.fits(v) {
			trials = append(trials, trial{l, s, v, l.fleet})
		}
	}
	cells := make([]verdict, len(vs))
	var got []verdict
	if len(trials) > 0 {
		var err error
		if got, err = s.run(ctx, l, trials); err != nil {
			return nil, err
		}
	}
	for i, v := range vs {
		cells[i].skipped = true
		if s.fits(v) {
			cells[i], got = got[0], got[1:]
		}
	}
	return cells, nil
}

// awaitRoom sees to it that a long window, which is counted from 1970 where it has edges, does not end within the next
// seconds.
func awaitRoom(ctx context.Context, per time.Duration) error {
	const room = 5 * time.Second
	if edge := nextEdge(time.Now(), per); per >= time.Minute && time.Until(edge) < room {
		return pauseUntil(ctx, edge)
	}
	return nil
}

// nextEdge returns the next whole multiple of per since 1970.
func nextEdge(now time.Time, per time.Duration) time.Time {
	return time.Unix(0, (now.UnixNano()/int64(per)+1)*int64(per))
}

// A trial is one scenario on one variant.
type trial struct {
	lab      *lab
	scenario scenario
	variant  variant
	fleet    fleet
}

// user returns somebody new.
func (t trial) user() string { return fmt.Sprintf("u%d", t.lab.users.Add(1)) }

// home returns the processes that count one user together.
func (t trial) home() fleet {
	if t.variant.alone {
		return t.fleet[:1]
	}
	return t.fleet
}

// judge compares what was admitted with what the variant promises.
func (t trial) judge(got shots) verdict { return judgeCount(t.variant.allows, t.scenario.quota, got) }

// send sends one request on behalf of user, nobody where that is "".
func (t trial) send(ctx context.Context, to *process, user string) shot {
	return t.lab.get(ctx, to, path(t.variant, t.scenario), user)
}

// inTurn sends n requests one after the other, to the processes in turn.
func (t trial) inTurn(ctx context.Context, n int, user string) shots {
	got, to := make(shots, n), t.home()
	for i := range got {
		got[i] = t.send(ctx, to[i%len(to)], user)
	}
	return got
}

// burst sends n requests at the same instant, spread evenly over the processes.
func (t trial) burst(ctx context.Context, n int, user string, to fleet) shots {
	return atOnce(n, func(i int) shot { return t.send(ctx, to[i%len(to)], user) })
}

// atOnce runs f n times, each run behind one barrier until all are ready.
func atOnce(n int, f func(i int) shot) shots {
	got := make(shots, n)
	barrier := make(chan struct{})
	var ready, done sync.WaitGroup
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-barrier
			got[i] = f(i)
		})
	}
	ready.Wait()
	close(barrier)
	done.Wait()
	return got
}

// get sends one request and reads the answer to its end. A request without an answer is a shot with status 0.
func (l *lab) get(ctx context.Context, to *process, path, user string) shot {
	s := shot{by: to.role, sent: time.Now()}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, to.addr+path, nil)
	if err != nil {
		return s
	}
	if user != "" {
		r.Header.Set(userHeader, user)
	}
	res, err := l.http.Do(r)
	if err != nil {
		return s
	}
	_, err = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	s.got = time.Now()
	if err == nil {
		s.status, s.header = res.StatusCode, res.Header
	}
	return s
}

// pause waits for d, or less if ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func pauseUntil(ctx context.Context, t time.Time) error { return pause(ctx, time.Until(t)) }
