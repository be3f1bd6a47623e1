package resilient

import (
	"context"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/trafficguard-go/trafficguard/luascripts"
	"github.com/trafficguard-go/trafficguard/store"
	"github.com/trafficguard-go/trafficguard/store/memory"
	"github.com/trafficguard-go/trafficguard/store/redisstore"
	"github.com/trafficguard-go/trafficguard/store/storetest"
)

func TestContractOverMemory(t *testing.T) {
	t.Parallel()
	storetest.TestRateStore(t, storetest.Config{Open: func(_ testing.TB, clock *storetest.Clock) store.RateStore {
		return New(memory.New(memory.Clock(clock.Now)), Timeout(patient), quiet(), Fallback(memory.New(memory.Clock(clock.Now)), 2))
	}})
}

func TestContractOverRedis(t *testing.T) {
	t.Parallel()
	storetest.TestRateStore(t, storetest.Config{Open: func(t testing.TB, clock *storetest.Clock) store.RateStore {
		return New(openClocked(t, clock), Timeout(patient), quiet(), Fallback(memory.New(memory.Clock(clock.Now)), 2))
	}})
}

// TestContractOfTheFallback: what stands in keeps the contract, too.
func TestContractOfTheFallback(t *testing.T) {
	t.Parallel()
	storetest.TestRateStore(t, storetest.Config{Open: func(t testing.TB, clock *storetest.Clock) store.RateStore {
		primary := newScripted()
		primary.set(errDown)
		return standIn{New(primary, quiet(), Fallback(memory.New(memory.Clock(clock.Now)), 1)), t}
	}})
}

// A standIn hides what the suite does not expect of a store: that its grants are degraded, and that a reset fails.
type standIn struct {
	*Store
	t testing.TB
}

func (s standIn) Take(ctx context.Context, r store.Request) (store.Grant, error) {
	g, err := s.Store.Take(ctx, r)
	if err == nil && !g.Degraded {
		s.t.Errorf("%+v: must be degraded", g)
	}
	g.Degraded = false
	return g, err
}

func (s standIn) Reset(ctx context.Context, k store.Key) error {
	mustBe(s.t, s.Store.Reset(ctx, k), store.ErrUnavailable)
	return nil
}

// openClocked opens a store on the shared server that decides by clock.
func openClocked(t testing.TB, clock *storetest.Clock) *redisstore.Store {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: shared.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true,
		DialTimeout: patient, ReadTimeout: patient, WriteTimeout: patient, PoolTimeout: patient,
	})
	t.Cleanup(func() { _ = client.Close() })
	for _, text := range []string{luascripts.TokenBucketTake, luascripts.TokenBucketPeek, luascripts.TokenBucketSettle} {
		if err := client.ScriptLoad(context.Background(), text).Err(); err != nil { // so that EVAL, which has no clock, is not needed
			t.Fatal(err)
		}
	}
	client.AddHook(clocked{clock})
	s, err := redisstore.New(client, "test", redisstore.Timeout(patient))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// clocked adds the time to the arguments of scripts, which then do not ask the server.
type clocked struct{ clock *storetest.Clock }

func (clocked) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c clocked) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		timed := redis.NewCmd(ctx, append(slices.Clone(cmd.Args()), c.clock.Now().UnixMicro())...)
		err := next(ctx, timed)
		cmd.(*redis.Cmd).SetVal(timed.Val())
		cmd.SetErr(err)
		return err
	}
}

func (clocked) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
