package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trafficguard-go/trafficguard/internal/redistest"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
)

// shared is for tests that do not hurt it.
var shared *redistest.Server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	s, stop, err := redistest.StartShared()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared = s
	code := m.Run()
	stop()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// patient is for tests that are not about time: the machine may be busy.
const patient = 10 * time.Second

// open opens a store that ends with the test.
func open(t testing.TB, url string, opts ...Option) *Store {
	t.Helper()
	s, err := Open(url, "test", append([]Option{Timeout(patient), Logger(slog.New(slog.DiscardHandler))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func compile(t testing.TB, l limit.Limit) *limit.Rule {
	t.Helper()
	r, err := l.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// request returns a request of cost 1 for a subject of this run of this test.
func request(t testing.TB, subject string, l limit.Limit) store.Request {
	t.Helper()
	unique := filepath.Base(filepath.Dir(t.TempDir()))
	return store.Request{Key: store.Key{Policy: unique, Kind: "header:X-User-Id", Subject: subject}, Rule: compile(t, l), Cost: 1}
}

func take(t testing.TB, s *Store, r store.Request) store.Grant {
	t.Helper()
	g, err := s.Take(context.Background(), r)
	if err != nil {
		t.Fatalf("Take: %v", err)
	}
	return g
}

// takeUntilRefused returns how many requests pass.
func takeUntilRefused(t testing.TB, s *Store, r store.Request) int {
	t.Helper()
	n := 0
	for take(t, s, r).OK {
		n++
	}
	return n
}

// spent returns how much of its burst the subject has used.
func spent(t testing.TB, s *Store, r store.Request) int64 {
	t.Helper()
	r.Cost = 1
	v, err := s.Peek(context.Background(), r)
	if err != nil {
		t.Fatalf("Peek: %v", err)
	}
	if !v.OK {
		return r.Rule.Burst()
	}
	return r.Rule.Burst() - v.Remaining - 1
}

// await polls until f is nil, as what happens elsewhere cannot be waited for otherwise.
func await(t testing.TB, what string, f func() error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s: %v", what, err)
		}
		<-tick.C
	}
}

// awaitAnswer waits until the store decides again.
func awaitAnswer(t testing.TB, s *Store) {
	t.Helper()
	await(t, "an answer", func() error { return s.Ping(context.Background()) })
}

func mustBe(t testing.TB, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error is %v, want %v", err, kind)
	}
}
