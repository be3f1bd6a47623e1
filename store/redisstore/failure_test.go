package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
)

// reply is an error reply of a server.
type reply string

func (r reply) Error() string { return string(r) }
func (r reply) RedisError()   {}

func TestKindOfReply(t *testing.T) {
	t.Parallel()
	var _ redis.Error = reply("")
	for text, want := range map[string]error{
		"LOADING Redis is loading the dataset in memory":                                                                                        store.ErrUnavailable,
		"READONLY You can't write against a read only replica.":                                                                                 store.ErrUnavailable,
		"READONLY You can't write against a read only replica. script: abc, on @user_script:9.":                                                 store.ErrUnavailable,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                                                      store.ErrUnavailable,
		"CLUSTERDOWN Hash slot not served":                                                                                                      store.ErrUnavailable,
		"TRYAGAIN Multiple keys request during rehashing of slot":                                                                               store.ErrUnavailable,
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":                                                store.ErrUnavailable,
		"OOM command not allowed when used memory > 'maxmemory'.":                                                                               store.ErrUnavailable,
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.":                                      store.ErrUnavailable,
		"NOREPLICAS Not enough good replicas to write.":                                                                                         store.ErrUnavailable,
		"ERR max number of clients reached":                                                                                                     store.ErrUnavailable,
		"ERR Error running script (call to f_abc): @user_script:12: @user_script: 12: -OOM command not allowed when used memory > 'maxmemory'.": store.ErrUnavailable,
		"NOAUTH Authentication required.":                                                                                                       store.ErrMisconfigured,
		"WRONGPASS invalid username-password pair or user is disabled.":                                                                         store.ErrMisconfigured,
		"NOPERM this user has no permissions to run the 'evalsha' command":                                                                      store.ErrMisconfigured,
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: abc":                store.ErrMisconfigured,
		"CROSSSLOT Keys in request don't hash to the same slot":                                                                                 store.ErrMisconfigured,
		"WRONGTYPE Operation against a key holding the wrong kind of value":                                                                     store.ErrMisconfigured,
		"ERR Error running script (call to f_abc): @user_script:12: -WRONGTYPE Operation against a key":                                         store.ErrMisconfigured,
		"ERR unknown command 'EVALSHA'":                                                                                                         store.ErrMisconfigured,
		"DENIED Redis is running in protected mode":                                                                                             store.ErrMisconfigured,
	} {
		if got := kindOf(reply(text)); !errors.Is(got, want) {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}

// TestAnotherProtocol: something answers, and it is not Redis.
func TestAnotherProtocol(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1))
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-served
	})
	_ = mustRefuse(t, "redis://"+l.Addr().String())
}

// TestUnknownCertificate: a server whose certificate is not trusted will not become so by itself.
func TestUnknownCertificate(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nil)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)
	_ = mustRefuse(t, "rediss://"+server.Listener.Addr().String())
}

// odd answers every command in place of the server.
type odd struct{ answer any }

func (odd) DialHook(next redis.DialHook) redis.DialHook { return next }

func (o odd) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		cmd.(*redis.Cmd).SetVal(o.answer)
		return nil
	}
}

func (odd) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook { return next }

// TestOddReplies: a reply that no script can give is no decision.
func TestOddReplies(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := request(t, "a", limit.PerHour(10))
	const now = int64(1_700_000_000_000_000)
	unit, most := r.Rule.Capacity()/10, r.Rule.Capacity()
	receipt := store.Grant{Verdict: r.Rule.Verdict(unit, 1, true), At: r.Rule.StateAt(now, unit)}.Receipt(r)
	shapes := []any{nil, "OK", []any{}, []any{int64(1)}, []any{"1", int64(2)}, []any{unit, 2.5}, []any{unit, now, now}, 0.5, true}
	odds := []any{int64(-1), int64(math.MinInt64), int64(math.MaxInt64), -1 - (most - unit), -2 - r.Rule.MaxDebt()}
	calls := map[string]struct {
		call func(*Store) error
		odd  []any
		good []any
	}{
		"Take": {
			func(s *Store) error {
				g, err := s.Take(ctx, r)
				if err != nil && g != (store.Grant{}) {
					t.Errorf("%v with %+v", err, g)
				}
				return err
			},
			append([]any{
				int64(0), unit, []any{int64(-5), int64(-7)}, []any{int64(math.MaxInt64), int64(math.MaxInt64)}, []any{unit - 1, now},
				[]any{most + 1, now}, []any{unit, int64(0)}, []any{unit, int64(-1)}, []any{unit, int64(limit.Exact)},
			}, odds...),
			[]any{[]any{unit, now}, []any{most, now}, -1 - most, -1 - r.Rule.MaxDebt(), -1 - (most - unit + 1)},
		},
		"Peek": {
			func(s *Store) error { _, err := s.Peek(ctx, r); return err },
			append([]any{int64(0), unit - 1, most + 1}, odds...),
			[]any{unit, most, -1 - most, -1 - r.Rule.MaxDebt()},
		},
		"Settle": {
			func(s *Store) error { return s.Settle(ctx, receipt, 3) },
			[]any{int64(1), int64(-1), unit},
			[]any{int64(0)},
		},
		"Reset": {
			func(s *Store) error { return s.Reset(ctx, r.Key) },
			[]any{int64(2), int64(-1)},
			[]any{int64(0), int64(1)},
		},
	}
	for name, tc := range calls {
		for _, answer := range append(tc.odd, shapes...) {
			s, logged := answering(t, answer)
			if err := tc.call(s); !errors.Is(err, store.ErrMisconfigured) || logged.count("unexpected reply") != 1 {
				t.Errorf("%s, answered %v: %v, logged:\n%s", name, answer, err, logged.text.String())
			}
		}
		for _, answer := range tc.good {
			s, _ := answering(t, answer)
			if err := tc.call(s); err != nil {
				t.Errorf("%s, answered %v: %v", name, answer, err)
			}
		}
	}

	r.Cost = 11 // which no bucket holds: an admission is impossible, and every debt a refusal
	s, _ := answering(t, []any{most, now})
	_, err := s.Take(ctx, r)
	mustBe(t, err, store.ErrMisconfigured)
	s, _ = answering(t, int64(-1))
	if v, err := s.Peek(ctx, r); err != nil || v.OK || v.Wait != limit.Never {
		t.Errorf("%+v, %v", v, err)
	}
}

// answering returns a store whose server gives always the same answer.
func answering(t *testing.T, answer any) (*Store, *record) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: shared.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	client.AddHook(odd{answer})
	logged := new(record)
	s, err := New(client, "test", Timeout(patient), logged.logger())
	if err != nil {
		t.Fatal(err)
	}
	return s, logged
}

func TestMistakesOfTheProgram(t *testing.T) {
	t.Parallel()
	s := open(t, shared.URL())
	ctx := context.Background()
	_, err := s.Take(ctx, store.Request{Cost: 1})
	mustBe(t, err, store.ErrMisconfigured)
	_, err = s.Peek(ctx, store.Request{Cost: 1})
	mustBe(t, err, store.ErrMisconfigured)
	mustBe(t, s.Settle(ctx, store.Receipt{}, 1), store.ErrMisconfigured)
}

func TestRepeatedErrorsAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		logged := new(record)
		r := repeated{logger: slog.New(slog.NewTextHandler(logged, nil))}
		for range 100 {
			r.report(errors.New("boom"))
			time.Sleep(time.Second)
		}
		if got := logged.count("boom"); got != 10 {
			t.Errorf("100 errors in 100s were logged %d times, want 10", got)
		}
		if logged.count("repeated=0") != 1 || logged.count("repeated=9") != 9 {
			t.Errorf("the counts are wrong:\n%s", logged.text.String())
		}
	})
}
