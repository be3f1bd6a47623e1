package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/trafficguard-go/trafficguard/internal/redistest"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/luascripts"
	"github.com/trafficguard-go/trafficguard/store"
)

// BenchmarkTake measures a decision from end to end over loopback.
func BenchmarkTake(b *testing.B) {
	for _, bench := range []struct {
		name       string
		goroutines int
		limit      limit.Limit
		ok         bool
	}{
		{"alone", 1, limit.PerSecond(1_000_000), true},
		{"64 goroutines", 64, limit.PerSecond(1_000_000), true},
		{"refused", 1, limit.PerDay(1), false},
		{"64 goroutines, refused", 64, limit.PerDay(1), false},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := open(b, shared.URL())
			requests := make([]store.Request, 1000)
			for i := range requests {
				requests[i] = request(b, fmt.Sprint(i), bench.limit)
				take(b, s, requests[i])
			}
			b.ReportAllocs()
			b.ResetTimer()
			var callers sync.WaitGroup
			var done atomic.Int64
			for range bench.goroutines {
				callers.Go(func() {
					for done.Add(1) <= int64(b.N) {
						g, err := s.Take(context.Background(), requests[rand.IntN(len(requests))])
						if err != nil || g.OK != bench.ok {
							b.Errorf("Take: %+v, %v", g.Verdict, err)
							break
						}
					}
				})
			}
			callers.Wait()
		})
	}
}

// leastGCRA is the least that a script can do: one arrival time, rounded to a microsecond, one number in reply.
const leastGCRA = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then tat = now end
local new = tat + ARGV[2] / ARGV[1]
if new - now > ARGV[3] / ARGV[1] then return -1 end
redis.call('SET', KEYS[1], string.format('%.0f', new), 'PX', math.ceil((new - now) / 1000))
return new - now`

// BenchmarkScript measures what a decision costs the server, as INFO commandstats tells, and what a key costs in memory.
// Commands go in pipelines, so that the server is busy with scripts and not with connections.
func BenchmarkScript(b *testing.B) {
	allowed := compile(b, limit.PerDay(1_000_000))
	refused := compile(b, limit.PerDay(1))
	for _, bench := range []struct {
		name, text string
		rule       *limit.Rule
	}{
		{"take", luascripts.TokenBucketTake, allowed},
		{"take, refused", luascripts.TokenBucketTake, refused},
		{"least GCRA", leastGCRA, allowed},
		{"least GCRA, refused", leastGCRA, refused},
	} {
		b.Run(bench.name, func(b *testing.B) { benchmarkScript(b, bench.text, bench.rule) })
	}
}

func benchmarkScript(b *testing.B, text string, r *limit.Rule) {
	const keys, batch = 10_000, 64
	server := redistest.Start(b)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), PipelinePoolSize: -1})
	defer func() { _ = client.Close() }()
	ctx := context.Background()
	digest, err := client.ScriptLoad(ctx, text).Result()
	if err != nil {
		b.Fatal(err)
	}
	units, _ := r.Units(1)
	call := func(pipe redis.Pipeliner, i int) {
		key := keyText("shop", store.Key{Policy: "api", Kind: "value:user_id", Subject: strconv.Itoa(1_000_000 + i)})
		pipe.EvalSha(ctx, digest, []string{key}, r.Denominator(), units, r.Capacity(), r.Bound(), r.MaxDebt())
	}
	run := func(n int, key func(i int) int) {
		for done := 0; done < n; done += batch {
			pipe := client.Pipeline()
			for i := range min(batch, n-done) {
				call(pipe, key(done+i))
			}
			if _, err := pipe.Exec(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
	before := usedMemory(b, server)
	run(keys, func(i int) int { return i })
	perKey := float64(usedMemory(b, server)-before) / keys

	server.CLI("config", "resetstat")
	b.ResetTimer()
	run(b.N, func(int) int { return rand.IntN(keys) })
	b.StopTimer()
	_, stat, _ := strings.Cut(server.CLI("info", "commandstats"), "cmdstat_evalsha:")
	_, stat, _ = strings.Cut(stat, "usec_per_call=")
	stat, _, _ = strings.Cut(stat, ",")
	usec, err := strconv.ParseFloat(stat, 64)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(usec, "server-µs/op")
	if r.Capacity() > units { // else the key is gone or rewritten at other times
		return
	}
	b.ReportMetric(perKey, "bytes/key")
}

func usedMemory(b *testing.B, server *redistest.Server) int {
	b.Helper()
	_, text, _ := strings.Cut(server.CLI("info", "memory"), "used_memory:")
	text, _, _ = strings.Cut(text, "\r")
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		b.Fatal(err)
	}
	return n
}
