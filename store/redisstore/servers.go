package redisstore

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/trafficguard-go/trafficguard/store"
)

// servers says which server to ask. Errors are failures.
type servers interface {
	// holder returns the server that should hold key.
	holder(ctx context.Context, key string) (node, error)
	// follow returns the server at addr, to which from has redirected a command: for good if moved.
	follow(from node, addr string, moved bool) (node, error)
	// failed hears of a command that failed.
	failed(err error)
	close() error
}

// single is one server, or the master behind Sentinel.
type single struct{ node }

func newSingle(c *redis.Client, u upkeep) *single {
	return &single{node{client: c, gate: newGate(c, u)}}
}

func (s *single) holder(context.Context, string) (node, error) { return s.node, nil }

func (s *single) follow(_ node, addr string, _ bool) (node, error) {
	return node{}, &failure{kind: store.ErrMisconfigured, cause: errors.New(
		"the server redirects to " + addr + ", so it belongs to a Cluster: use a redis+cluster:// URL or a ClusterClient")}
}

func (s *single) failed(error) {}

func (s *single) close() error { return nil }

// cluster is a Redis Cluster. Of go-redis's client it uses the map of slots and the nodes' own clients, and sends to
// these itself: what the ClusterClient does about errors is to send again.
type cluster struct {
	client   *redis.ClusterClient
	topology *breaker
	upkeep   upkeep
	reloaded atomic.Int64 // when failures last had the map of slots reloaded, in nanoseconds since 1970

	mu     sync.Mutex
	gates  map[string]*gate
	moved  map[string]*redis.Client // of redirections that the map does not show yet
	closed bool
}

const (
	// maxNodes bounds what is kept of nodes, which come and go over a long life.
	maxNodes    = 256
	reloadPause = time.Second
)

func newCluster(c *redis.ClusterClient, u upkeep) *cluster {
	return &cluster{
		client:   c,
		topology: newBreaker("the cluster's map of slots", u.logger, u.background),
		upkeep:   u,
		gates:    make(map[string]*gate),
		moved:    make(map[string]*redis.Client),
	}
}

func (c *cluster) holder(ctx context.Context, key string) (node, error) {
	found, err := c.topology.run(func() (any, error) {
		master, err := c.client.MasterForKey(ctx, key)
		if err != nil {
			return nil, judge(ctx, err)
		}
		return master, nil
	})
	if err != nil {
		if !answer(err) {
			c.topology.mend(c.load, func(context.Context) {})
		}
		return node{}, err
	}
	master := found.(*redis.Client)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.node(master), nil
}

// load has the map of slots loaded, if it never was.
func (c *cluster) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.upkeep.patience(), errOverdue)
	defer cancel()
	if _, err := c.client.MasterForKey(ctx, c.upkeep.probeKey); err != nil {
		return judge(ctx, err)
	}
	return nil
}

func (c *cluster) follow(from node, addr string, moved bool) (node, error) {
	if moved {
		c.client.ReloadState(context.Background())
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return node{}, &failure{kind: store.ErrMisconfigured, cause: err}
	}
	if host == "" { // a node that does not know its own name means the one that was asked for
		host, _, _ = net.SplitHostPort(from.client.Options().Addr)
		addr = net.JoinHostPort(host, port)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return node{}, &failure{kind: store.ErrUnavailable, cause: redis.ErrClosed, ours: true}
	}
	to, ok := c.moved[addr]
	if !ok {
		if len(c.moved) == maxNodes {
			_ = c.closeMoved()
		}
		to = redis.NewClient(sibling(from.client.Options(), addr))
		c.moved[addr] = to
	}
	return c.node(to), nil
}

// node adds the gate, which the clients of one address share. c.mu is held.
func (c *cluster) node(client *redis.Client) node {
	addr := client.Options().Addr
	g, ok := c.gates[addr]
	if !ok {
		if len(c.gates) == maxNodes {
			clear(c.gates)
		}
		g = newGate(client, c.upkeep)
		c.gates[addr] = g
	}
	return node{client: client, gate: g}
}

// failed has the map of slots reloaded after trouble, now and then: another node may have taken over.
func (c *cluster) failed(err error) {
	if !errors.Is(err, store.ErrUnavailable) {
		return
	}
	now, last := time.Now().UnixNano(), c.reloaded.Load()
	if now-last >= int64(reloadPause) && c.reloaded.CompareAndSwap(last, now) {
		c.client.ReloadState(context.Background())
	}
}

func (c *cluster) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return c.closeMoved()
}

// closeMoved closes the store's own clients. c.mu is held.
func (c *cluster) closeMoved() error {
	var errs []error
	for _, client := range c.moved {
		errs = append(errs, client.Close())
	}
	clear(c.moved)
	return errors.Join(errs...)
}

// sibling returns o for another address. What go-redis has already worked out must be put back as it was given.
func sibling(o *redis.Options, addr string) *redis.Options {
	s := *o
	s.Addr, s.NodeAddress = addr, ""
	s.MaxRetries = -1
	s.PipelinePoolSize = -1
	s.MinIdleConns = 0
	s.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if s.ReadTimeout <= 0 {
		s.ReadTimeout--
	}
	if s.WriteTimeout <= 0 {
		s.WriteTimeout--
	}
	return &s
}
