package redisstore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/trafficguard-go/trafficguard/internal/redistest"
	"github.com/trafficguard-go/trafficguard/limit"
)

// TestSentinel: the master that the Sentinel names is asked, and after a failover the next one, which does not know the
// scripts and has the state.
func TestSentinel(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	sentinel := redistest.StartSentinel(t, "main", master)
	s := open(t, "redis+sentinel://"+sentinel.Addr()+"/0?master_name=main", Timeout(time.Second))
	awaitAnswer(t, s)
	r := request(t, "a", limit.PerDay(5))
	take(t, s, r)
	take(t, s, r)
	if got := sentinel.CLI("sentinel", "failover", "main"); got != "OK" {
		t.Fatalf("failover: %s", got)
	}
	await(t, "the replica to be asked", func() error {
		_, err := s.Take(context.Background(), r)
		if err != nil {
			return err
		}
		if !strings.Contains(replica.CLI("info", "replication"), "role:master") {
			return context.DeadlineExceeded
		}
		return nil
	})
	awaitAnswer(t, s)
	for take(t, s, r).OK {
	}
	if got := spent(t, s, r); got != 5 {
		t.Errorf("%d of 5 are spent", got)
	}
	if got := replica.CLI("exists", s.keyOf(r)); got != "1" {
		t.Errorf("the new master does not hold the key")
	}

	_ = mustRefuse(t, "redis+sentinel://"+sentinel.Addr()+"?master_name=nobody")
}
