package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/internal/redistest"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
)

// record keeps what is logged.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) count(part string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Count(r.text.String(), part)
}

func (r *record) logger() Option { return Logger(slog.New(slog.NewTextHandler(r, nil))) }

// TestSilentServer: a server that does not answer costs a few calls their timeout, and then nothing, until it answers.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	p := redistest.NewProxy(t, shared.Addr())
	logged := new(record)
	s := open(t, p.URL(), Timeout(DefaultTimeout), logged.logger())
	awaitAnswer(t, s)
	r := request(t, "a", limit.PerHour(10))

	p.SetMode(redistest.Silent)
	ctx := context.Background()
	for range tripAfter {
		_, err := s.Take(ctx, r)
		mustBe(t, err, store.ErrUnavailable)
	}
	await(t, "the breaker to open", func() error {
		if logged.count("left alone") == 0 {
			_, _ = s.Take(ctx, r)
			return errors.New("still asking")
		}
		return nil
	})
	before := p.Count("evalsha")
	for range 1000 {
		_, err := s.Take(ctx, r)
		mustBe(t, err, store.ErrUnavailable)
	}
	if got := p.Count("evalsha") - before; got > 2 { // a second may pass on a busy machine
		t.Errorf("1000 calls with an open breaker sent %d commands", got)
	}

	p.SetMode(redistest.Pass)
	awaitAnswer(t, s)
	if got := takeUntilRefused(t, patientOf(t, s), r); got > 10 {
		t.Errorf("%d passed, the burst is 10", got)
	}
	if logged.count("left alone") != 1 || logged.count("answers again") != 1 {
		t.Errorf("each change must be logged once:\n%s", logged.text.String())
	}
}

// patientOf returns the same store with time to spare, for the part of a test that is not about time.
func patientOf(t *testing.T, s *Store) *Store {
	t.Helper()
	c := &Store{
		namespace: s.namespace, timeout: patient, servers: s.servers, scripts: s.scripts, clock: s.clock,
		background: s.background, closeServers: s.closeServers,
	}
	c.errors.logger = s.errors.logger
	return c
}

// TestFrozenServer is a server process that hangs, rather than a network.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.URL(), Timeout(DefaultTimeout))
	awaitAnswer(t, s)
	r := request(t, "a", limit.PerHour(10))
	server.Pause()
	for range 2 * tripAfter {
		_, err := s.Take(context.Background(), r)
		mustBe(t, err, store.ErrUnavailable)
	}
	server.Resume()
	awaitAnswer(t, s)
	if got := takeUntilRefused(t, patientOf(t, s), r); got > 10 {
		t.Errorf("%d passed, the burst is 10", got)
	}
}

func TestNetworkFaults(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]redistest.Mode{"refused": redistest.Refuse, "reset": redistest.Reset} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := redistest.NewProxy(t, shared.Addr())
			s := open(t, p.URL(), Timeout(time.Second))
			awaitAnswer(t, s)
			r := request(t, "a", limit.PerHour(3))
			p.SetMode(mode)
			for range 2 * tripAfter {
				_, err := s.Take(context.Background(), r)
				mustBe(t, err, store.ErrUnavailable)
			}
			p.SetMode(redistest.Pass)
			awaitAnswer(t, s)
			if got := takeUntilRefused(t, s, r); got != 3 {
				t.Errorf("%d passed, want 3", got)
			}
		})
	}
}

// TestRestartInMidBurst: what the server has lost is lost, and the very first answers after its return enforce.
func TestRestartInMidBurst(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.URL(), Timeout(time.Second))
	r := request(t, "a", limit.PerDay(50))
	if got := takeUntilRefused(t, s, r); got != 50 {
		t.Fatalf("%d passed, want 50", got)
	}

	var passed atomic.Int64
	var callers sync.WaitGroup
	calling, stop := context.WithCancel(context.Background())
	for range 8 {
		callers.Go(func() {
			for calling.Err() == nil {
				g, err := s.Take(context.Background(), r)
				if err != nil && !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("Take: %v", err)
				}
				if g.OK {
					passed.Add(1)
				}
			}
		})
	}
	server.Restart()
	await(t, "the burst to be spent", func() error {
		v, err := s.Peek(context.Background(), r)
		if err == nil && v.OK {
			err = errors.New("there is some left")
		}
		return err
	})
	stop()
	callers.Wait()
	if passed.Load() != 50 {
		t.Errorf("%d passed after the restart, want 50", passed.Load())
	}
}

// TestAbsentAtStart: the program starts before its Redis.
func TestAbsentAtStart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	logged := new(record)
	s := open(t, server.URL(), Timeout(time.Second), logged.logger())
	if logged.count("level=WARN") != 1 || logged.count("no server answers yet") != 1 {
		t.Errorf("Open does not tell that the server is absent:\n%s", logged.text.String())
	}
	r := request(t, "a", limit.PerDay(3))
	_, err := s.Take(context.Background(), r)
	mustBe(t, err, store.ErrUnavailable)
	server.Restart()
	awaitAnswer(t, s)
	if got := takeUntilRefused(t, s, r); got != 3 {
		t.Errorf("%d passed, want 3", got)
	}
}

func TestSilentAtStart(t *testing.T) {
	t.Parallel()
	p := redistest.NewProxy(t, shared.Addr())
	p.SetMode(redistest.Silent)
	s := open(t, p.URL(), Timeout(time.Second))
	p.SetMode(redistest.Pass)
	awaitAnswer(t, s)
}

// TestRefusingServer: what a server in trouble replies is an outage, not a fault of the configuration.
func TestRefusingServer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("out of memory", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		s := open(t, server.URL())
		r := request(t, "a", limit.PerDay(3))
		server.CLI("config", "set", "maxmemory", "1")
		_, err := s.Take(ctx, r)
		mustBe(t, err, store.ErrUnavailable)
		if _, err := s.Peek(ctx, r); err != nil {
			t.Errorf("Peek needs no memory: %v", err)
		}
		server.CLI("config", "set", "maxmemory", "0")
		if got := takeUntilRefused(t, s, r); got != 3 {
			t.Errorf("%d passed, want 3", got)
		}
	})
	t.Run("replica", func(t *testing.T) {
		t.Parallel()
		server := redistest.StartReplica(t, redistest.Start(t))
		s := open(t, server.URL())
		_, err := s.Take(ctx, request(t, "a", limit.PerDay(3)))
		mustBe(t, err, store.ErrUnavailable)
	})
	t.Run("busy", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, "--lua-time-limit", "1")
		s := open(t, server.URL())
		done := make(chan struct{})
		go func() {
			defer close(done)
			server.CLI("eval", "while true do end", "0")
		}()
		await(t, "BUSY", func() error {
			if _, err := s.Take(ctx, request(t, "a", limit.PerDay(1000))); !errors.Is(err, store.ErrUnavailable) {
				return fmt.Errorf("Take: %w", err)
			}
			return nil
		})
		server.CLI("script", "kill")
		<-done
	})
}

// TestCallerLeaves: who hangs up has not met a failure of the store.
func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	p := redistest.NewProxy(t, shared.Addr())
	logged := new(record)
	s := open(t, p.URL(), Timeout(DefaultTimeout), logged.logger())
	awaitAnswer(t, s)
	r := request(t, "a", limit.PerHour(1000))
	p.SetMode(redistest.Silent)
	for range 3 * tripAfter { // three quarters of a second
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(5*time.Millisecond, cancel)
		_, err := s.Take(ctx, r)
		mustBe(t, err, store.ErrUnavailable)
		mustBe(t, err, context.Canceled)
	}
	p.SetMode(redistest.Pass)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	before := p.Count("evalsha")
	_, err := s.Take(ctx, r)
	mustBe(t, err, store.ErrUnavailable)
	mustBe(t, err, context.Canceled)
	if p.Count("evalsha") != before {
		t.Error("a request of a caller who had left was sent")
	}
	if !take(t, patientOf(t, s), r).OK || logged.count("left alone") != 0 {
		t.Errorf("callers who left have tripped the breaker:\n%s", logged.text.String())
	}
}

// TestCallersDeadlineIsTheServersFailure: however short a budget is, it must not hide a dead server.
func TestCallersDeadlineIsTheServersFailure(t *testing.T) {
	t.Parallel()
	for _, budget := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 49 * time.Millisecond} {
		t.Run(budget.String(), func(t *testing.T) {
			t.Parallel()
			p := redistest.NewProxy(t, shared.Addr())
			logged := new(record)
			s := open(t, p.URL(), Timeout(DefaultTimeout), logged.logger())
			awaitAnswer(t, s)
			r := request(t, "a", limit.PerHour(10))
			p.SetMode(redistest.Silent)
			await(t, "the breaker to open", func() error {
				ctx, cancel := context.WithTimeout(context.Background(), budget)
				defer cancel()
				_, err := s.Take(ctx, r)
				mustBe(t, err, store.ErrUnavailable)
				if logged.count("left alone") == 0 {
					mustBe(t, err, context.DeadlineExceeded)
					return errors.New("still asking")
				}
				return nil
			})
		})
	}
}

// TestSettleHonoursTheDeadline: it outlives the request, and not the time that the request has.
func TestSettleHonoursTheDeadline(t *testing.T) {
	t.Parallel()
	p := redistest.NewProxy(t, shared.Addr())
	s := open(t, p.URL())
	r := request(t, "a", limit.PerHour(10))
	g := take(t, s, r)

	ctx, cancel := context.WithTimeout(context.Background(), patient)
	cancel()
	if err := s.Settle(ctx, g.Receipt(r), 5); err != nil {
		t.Errorf("Settle for a caller who has left: %v", err)
	}
	if got := spent(t, s, r); got != 5 {
		t.Errorf("%d are spent, want 5", got)
	}

	p.SetMode(redistest.Silent)
	ctx, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := s.Settle(ctx, g.Receipt(r), 6)
	mustBe(t, err, store.ErrUnavailable)
	mustBe(t, err, context.DeadlineExceeded)
	if took := time.Since(start); took > patient/2 {
		t.Errorf("it took %s", took)
	}
}
