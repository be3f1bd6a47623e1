package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/trafficguard-go/trafficguard/internal/redistest"
)

// A site is a Redis that will have an outage.
type site struct {
	url    string
	strike func()                      // returns when the server is gone
	mend   func(context.Context) error // returns when there is one again
	unsure time.Duration               // before its end, in which another server may not know what was charged
	stops  []func() error
}

func (s *site) startRedis(args ...string) (*redistest.Server, error) {
	server, stop, err := redistest.StartShared(args...)
	if err != nil {
		return nil, err
	}
	s.stops = append(s.stops, func() error { stop(); return nil })
	return server, nil
}

func (s *site) stop() error {
	var errs []error
	for _, stop := range slices.Backward(s.stops) {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// restartSite is one server that writes every command to its file before it answers, so that it knows after a restart what
// it has charged.
func restartSite(context.Context) (*site, error) {
	s := new(site)
	server, err := s.startRedis("--appendonly", "yes", "--appendfsync", "always")
	if err != nil {
		return nil, err
	}
	s.url, s.strike = server.URL(), server.Kill
	s.mend = func(ctx context.Context) error {
		if err := pause(ctx, 300*time.Millisecond); err != nil {
			return err
		}
		server.Restart()
		return nil
	}
	return s, nil
}

// during plays an outage on a site and a fleet of its own. All trials go through the same one.
func during(open func(context.Context) (*site, error)) runner {
	return func(ctx context.Context, l *lab, trials []trial) (_ []verdict, err error) {
		s, err := open(ctx)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.stop()) }()
		f, err := l.startFleet(ctx, s.url)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, f.stop()) }()
		var streams []*stream
		for _, t := range trials {
			t.fleet = f
			streams = append(streams, t.stream(ctx))
		}
		o, err := s.outage(ctx, streams, trials[0].scenario.quota.n/2)
		var got []verdict
		for i, t := range trials {
			got = append(got, judgeOutage(t.variant.allows, t.scenario.quota, o, streams[i].end()))
		}
		return got, err
	}
}

// outage strikes when every stream has spent half, and returns when the limit is in force again, or should be.
func (s *site) outage(ctx context.Context, streams []*stream, half int) (outage, error) {
	all := func(done func(shots) bool) func(context.Context) bool {
		return func(context.Context) bool {
			return !slices.ContainsFunc(streams, func(x *stream) bool { return !done(x.soFar()) })
		}
	}
	err := await(ctx, "half of the quota to be spent", all(func(got shots) bool { return got.count(shot.admitted) >= half }))
	if err != nil {
		return outage{}, err
	}
	s.strike()
	o := outage{struck: time.Now(), unsure: s.unsure}
	if err := s.mend(ctx); err != nil {
		return o, err
	}
	o.mended = time.Now()
	for time.Since(o.mended) < 2*backIn && pause(ctx, 20*time.Millisecond) == nil {
		if all(func(got shots) bool { _, ok := o.enforced(got); return ok })(ctx) {
			break
		}
	}
	return o, nil
}

// A stream is a user who keeps asking, in every process.
type stream struct {
	mu      sync.Mutex
	got     shots
	stop    chan struct{}
	running sync.WaitGroup
}

// stream begins one: two requests at a time to each process, with a pause after each, so that there is something left to
// spend when the outage comes.
func (t trial) stream(ctx context.Context) *stream {
	const perProcess, rest = 2, 30 * time.Millisecond
	s, user := &stream{stop: make(chan struct{})}, t.user()
	for _, p := range slices.Repeat(t.fleet, perProcess) {
		s.running.Go(func() {
			for {
				shot := t.send(ctx, p, user)
				s.mu.Lock()
				s.got = append(s.got, shot)
				s.mu.Unlock()
				select {
				case <-time.After(rest):
				case <-ctx.Done():
					return
				case <-s.stop:
					return
				}
			}
		})
	}
	return s
}

func (s *stream) soFar() shots {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// end stops asking and returns what came of it.
func (s *stream) end() shots {
	close(s.stop)
	s.running.Wait()
	return s.got
}
