package resilient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

// patient is for what is not about time: the machine may be busy.
const patient = 10 * time.Second

// quiet keeps the log of tests clean that are not about it.
func quiet() Option { return Logger(slog.New(slog.DiscardHandler)) }

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
	return store.Request{Key: store.Key{Policy: unique, Kind: "value:user_id", Subject: subject}, Rule: compile(t, l), Cost: 1}
}

func take(t testing.TB, s store.RateStore, r store.Request) store.Grant {
	t.Helper()
	g, err := s.Take(context.Background(), r)
	if err != nil {
		t.Fatalf("Take: %v", err)
	}
	return g
}

// takeFrom takes from a store that must decide so, degraded or not.
func takeFrom(t testing.TB, s *Store, r store.Request, degraded bool) store.Grant {
	t.Helper()
	g := take(t, s, r)
	if g.Degraded != degraded || g.Via&viaFallback != 0 != degraded {
		t.Fatalf("%+v, want degraded to be %t", g, degraded)
	}
	return g
}

// spent returns how much of its burst the subject has used.
func spent(t testing.TB, s store.RateStore, r store.Request) int64 {
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

func mustBe(t testing.TB, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error is %v, want %v", err, kind)
	}
}

func mustNotBe(t testing.TB, err, kind error) {
	t.Helper()
	if errors.Is(err, kind) {
		t.Fatalf("error is %v, want it not to be %v", err, kind)
	}
}

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

func (r *record) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Split(strings.TrimSpace(r.text.String()), "\n")
}

func (r *record) logger() Option { return Logger(slog.New(slog.NewTextHandler(r, nil))) }
