package redisstore

import (
	"context"
	"errors"
	"log/slog"
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

// A node is a server with the breaker that guards it.
type node struct {
	client  *redis.Client
	breaker *breaker
}

// ask sends c to the server, if the breaker lets it.
func (n node) ask(ctx context.Context, c command, asking bool) (any, error) {
	return n.breaker.run(func() (any, error) {
		reply, err := c.exchange(ctx, n.client, asking)
		if err != nil {
			return nil, judge(ctx, err)
		}
		return reply, nil
	})
}

// single is one server, or the master behind Sentinel.
type single struct{ node }

func newSingle(c *redis.Client, logger *slog.Logger) *single {
	return &single{node{client: c, breaker: newBreaker(c.Options().Addr, logger)}}
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
	logger   *slog.Logger
	reloaded atomic.Int64 // when failures last had the map of slots reloaded, in nanoseconds since 1970

	mu       sync.Mutex
	breakers map[string]*breaker
	moved    map[string]*redis.Client // of redirections that the map does not show yet
	closed   bool
}

const (
	// maxNodes bounds what is kept of nodes, which come and go over a long life.
	maxNodes    = 256
	reloadPause = time.Second
)

func newCluster(c *redis.ClusterClient, logger *slog.Logger) *cluster {
	return &cluster{
		client:   c,
		topology: newBreaker("the cluster's map of slots", logger),
		logger:   logger,
		breakers: make(map[string]*breaker),
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
		return node{}, err
	}
	master := found.(*redis.Client)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.node(master), nil
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

// node adds the breaker, which the clients of one address share. c.mu is held.
func (c *cluster) node(client *redis.Client) node {
	addr := client.Options().Addr
	b, ok := c.breakers[addr]
	if !ok {
		if len(c.breakers) == maxNodes {
			clear(c.breakers)
		}
		b = newBreaker(addr, c.logger)
		c.breakers[addr] = b
	}
	return node{client: client, breaker: b}
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
