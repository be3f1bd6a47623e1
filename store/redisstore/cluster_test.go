package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/trafficguard-go/trafficguard/internal/redistest"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
)

// TestCluster runs its parts one after the other on one cluster, which they change.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	s := open(t, c.URL(), Timeout(time.Second))
	t.Run("enforced everywhere", func(t *testing.T) { clusterEnforces(t, c, s) })
	t.Run("burst", func(t *testing.T) { clusterBurst(t, s) })
	t.Run("slots as computed", func(t *testing.T) { clusterSlots(t, c, s) })
	for name, mode := range losses() {
		t.Run("lost replies "+name, func(t *testing.T) { clusterLosesReplies(t, c, mode) })
	}
	t.Run("slot moved", func(t *testing.T) { clusterMoved(t, c, s) })
	t.Run("slot on the move", func(t *testing.T) { clusterAsks(t, c, s) })
	t.Run("least permissions", func(t *testing.T) { clusterPermissions(t, c) })
	t.Run("taken for one server", func(t *testing.T) { clusterAsOneServer(t, c, s) })
	t.Run("one node silent", func(t *testing.T) { clusterNodeSilent(t, c) })
	t.Run("failover", func(t *testing.T) { clusterFailover(t, c, s) })
}

// clusterEnforces comes first: no node has seen a script yet.
func clusterEnforces(t *testing.T, c *redistest.Cluster, s *Store) {
	for i := range 200 {
		if got := takeUntilRefused(t, s, request(t, fmt.Sprint(i), limit.PerDay(2))); got != 2 {
			t.Fatalf("subject %d: %d passed, want 2", i, got)
		}
	}
	for i, n := range c.Nodes {
		if keys, _ := strconv.Atoi(n.CLI("dbsize")); keys < 200/3-40 {
			t.Errorf("node %d holds %d of 200 keys", i, keys)
		}
		if got := n.CLI("info", "errorstats"); len(got) > 0 && (strings.Contains(got, "errorstat_CROSSSLOT") || strings.Contains(got, "errorstat_ERR")) {
			t.Errorf("node %d has replied with errors: %s", i, got)
		}
	}
}

func clusterBurst(t *testing.T, s *Store) {
	r := request(t, "a", limit.PerDay(100))
	var passed atomic.Int64
	var callers sync.WaitGroup
	for range 200 {
		callers.Go(func() {
			g, err := s.Take(context.Background(), r)
			if err != nil {
				t.Errorf("Take: %v", err)
			}
			if g.OK {
				passed.Add(1)
			}
		})
	}
	callers.Wait()
	if passed.Load() != 100 {
		t.Errorf("%d passed, want 100", passed.Load())
	}
}

func clusterSlots(t *testing.T, c *redistest.Cluster, s *Store) {
	crc := newCRC(t)
	for i := range 5 {
		key := s.keyOf(request(t, fmt.Sprint(i), limit.PerDay(2)))
		if got, want := c.Slot(key), crc.slot(key); got != want {
			t.Errorf("%s: slot %d, want %d", key, got, want)
		}
	}
}

// clusterLosesReplies also counts over all nodes: a request must not be repeated at another one.
func clusterLosesReplies(t *testing.T, c *redistest.Cluster, mode redistest.Mode) {
	s := open(t, c.URL(), Timeout(soon))
	awaitAnswer(t, s)
	r := request(t, "a", limit.PerHour(100))
	owner := c.Owner(c.Slot(s.keyOf(r)))
	sent := func() int {
		n := 0
		for _, p := range c.Proxies {
			n += p.Count(s.keyOf(r))
		}
		return n
	}
	await(t, "the owner's answer", func() error {
		_, err := s.Peek(context.Background(), r)
		return err
	})
	before := sent() - c.Proxies[owner].Count(s.keyOf(r))
	loseReplies(t, s, c.Proxies[owner], mode, r)
	if elsewhere := sent() - c.Proxies[owner].Count(s.keyOf(r)); elsewhere != before {
		t.Errorf("%d commands went to other nodes", elsewhere-before)
	}
}

// clusterMoved: the slot has another owner than the client knows, and its keys went along.
func clusterMoved(t *testing.T, c *redistest.Cluster, s *Store) {
	r := request(t, "moved", limit.PerDay(5))
	take(t, s, r)
	take(t, s, r)
	slot := c.Slot(s.keyOf(r))
	from := c.Owner(slot)
	to := (from + 1) % 3
	c.BeginMove(slot, to)
	c.EndMove(slot, to)
	if got := takeUntilRefused(t, s, r); got != 3 {
		t.Errorf("%d passed after the move, want 3", got)
	}
	if got := c.Nodes[to].CLI("exists", s.keyOf(r)); got != "1" {
		t.Errorf("the new owner does not hold the key")
	}
	await(t, "the map to be reloaded", func() error {
		before := c.Proxies[from].Count(s.keyOf(r))
		take(t, s, r)
		if c.Proxies[from].Count(s.keyOf(r)) != before {
			return fmt.Errorf("the old owner is still asked")
		}
		return nil
	})
}

// clusterAsks: a slot on its way has old keys at one node and new ones at another, which does not know the script.
func clusterAsks(t *testing.T, c *redistest.Cluster, s *Store) {
	r := request(t, "b", limit.PerDay(5))
	slot := c.Slot(s.keyOf(r))
	to := (c.Owner(slot) + 1) % 3
	c.Nodes[to].CLI("script", "flush")
	c.BeginMove(slot, to)
	for i := range 2 * tripAfter { // redirections must not count as failures
		if i == 3 {
			c.Nodes[to].CLI("script", "flush")
		}
		if got := take(t, s, r); got.OK != (i < 5) {
			t.Fatalf("request %d: %+v", i+1, got.Verdict)
		}
	}
	if err := s.Reset(context.Background(), r.Key); err != nil {
		t.Fatalf("Reset: %v", err)
	}
	g := take(t, s, r)
	if err := s.Settle(context.Background(), g.Receipt(r), 4); err != nil {
		t.Fatalf("Settle: %v", err)
	}
	c.EndMove(slot, to)
	if got := takeUntilRefused(t, s, r); got != 1 {
		t.Errorf("%d passed after the move, want 1", got)
	}
}

// clusterPermissions: what the package comment asks for is enough.
func clusterPermissions(t *testing.T, c *redistest.Cluster) {
	for _, n := range c.Nodes {
		out := n.CLI("acl", "setuser", "enough", "on", ">pw", "~test:*",
			"+evalsha", "+eval", "+script|load", "+time", "+get", "+set", "+del", "+cluster|slots", "+asking")
		if out != "OK" {
			t.Fatal(out)
		}
	}
	s := open(t, strings.Replace(c.URL(), "://", "://enough:pw@", 1))
	for i := range 20 {
		if got := takeUntilRefused(t, s, request(t, fmt.Sprint(i), limit.PerDay(1))); got != 1 {
			t.Errorf("%d passed, want 1", got)
		}
	}
	clusterAsks(t, c, s)
}

// clusterAsOneServer: a redis:// URL of a node is a mistake that works for some subjects, so it must be told.
func clusterAsOneServer(t *testing.T, c *redistest.Cluster, s *Store) {
	other := (c.Owner(c.Slot(s.probeKey())) + 1) % 3
	if err := mustRefuse(t, c.Proxies[other].URL()); !strings.Contains(err.Error(), "redis+cluster://") {
		t.Errorf("%v, want it to say how to mend it", err)
	}
}

// clusterNodeSilent: the other nodes' subjects do not notice, as each node has a breaker of its own.
func clusterNodeSilent(t *testing.T, c *redistest.Cluster) {
	s := open(t, c.URL(), Timeout(soon))
	awaitAnswer(t, s)
	var dead, alive store.Request
	const silent = 0
	for i := 0; dead.Rule == nil || alive.Rule == nil; i++ {
		r := request(t, fmt.Sprint(i), limit.PerHour(1000))
		if c.Owner(c.Slot(s.keyOf(r))) == silent {
			dead = r
		} else {
			alive = r
		}
	}
	for _, r := range []store.Request{dead, alive} {
		await(t, "an answer", func() error {
			_, err := s.Peek(context.Background(), r)
			return err
		})
	}
	c.Proxies[silent].SetMode(redistest.Silent)
	for range 2 * tripAfter {
		_, err := s.Take(context.Background(), dead)
		mustBe(t, err, store.ErrUnavailable)
	}
	other := patientOf(t, s)
	for range 2 * tripAfter {
		if !take(t, other, alive).OK {
			t.Fatal("refused")
		}
	}
	c.Proxies[silent].SetMode(redistest.Pass)
	await(t, "the node's return", func() error {
		_, err := s.Take(context.Background(), dead)
		return err
	})
}

// clusterFailover comes last: a master dies and its replica, which has never seen a script, takes over.
func clusterFailover(t *testing.T, c *redistest.Cluster, s *Store) {
	r := request(t, "alone in its slot", limit.PerDay(5))
	owner := c.Owner(c.Slot(s.keyOf(r)))
	c.AddReplica(t, owner)
	take(t, s, r)
	take(t, s, r)
	replica := len(c.Nodes) - 1
	await(t, "the replica to hold the key", func() error {
		if got := c.Nodes[replica].CLI("cluster", "countkeysinslot", strconv.Itoa(c.Slot(s.keyOf(r)))); got != "1" {
			return fmt.Errorf("%s keys in the slot", got)
		}
		return nil
	})
	c.Nodes[owner].Kill()
	c.Proxies[owner].SetMode(redistest.Refuse)
	c.TakeOver(t, replica)
	await(t, "the new master's answer", func() error {
		_, err := s.Peek(context.Background(), r)
		return err
	})
	if got := takeUntilRefused(t, s, r); got > 4 || got < 3 { // the last charge may not have reached the replica
		t.Errorf("%d passed after the failover, want 3", got)
	}
}

// TestClusterOfOwnClient: New takes a ClusterClient that repeats nothing.
func TestClusterOfOwnClient(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: c.Addrs(), MaxRedirects: -1, ContextTimeoutEnabled: true, DialerRetries: 1,
	})
	t.Cleanup(func() { _ = client.Close() })
	s, err := New(client, "test", Timeout(soon), Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	r := request(t, "a", limit.PerHour(100))
	await(t, "an answer", func() error {
		_, err := s.Peek(context.Background(), r)
		return err
	})
	loseReplies(t, s, c.Proxies[c.Owner(c.Slot(s.keyOf(r)))], redistest.CutReply, r)
	clusterMoved(t, c, patientOf(t, s))
}

// TestClusterAbsentAtStart: no node can be reached when the program starts.
func TestClusterAbsentAtStart(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	for _, p := range c.Proxies {
		p.SetMode(redistest.Refuse)
	}
	s := open(t, c.URL(), Timeout(time.Second))
	r := request(t, "a", limit.PerDay(3))
	_, err := s.Take(context.Background(), r)
	mustBe(t, err, store.ErrUnavailable)
	for _, p := range c.Proxies {
		p.SetMode(redistest.Pass)
	}
	await(t, "an answer", func() error {
		_, err := s.Peek(context.Background(), r)
		return err
	})
	if got := takeUntilRefused(t, s, r); got != 3 {
		t.Errorf("%d passed, want 3", got)
	}
}
