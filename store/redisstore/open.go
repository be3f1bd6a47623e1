package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/trafficguard-go/trafficguard/store"
)

const (
	// probeTimeout bounds how long Open waits for a server.
	probeTimeout = 500 * time.Millisecond
	// A call's own timeout is what bounds it. This bounds what go-redis does on its own, such as to connect; it is raised to
	// the call's where that is longer.
	ownTimeout = time.Second
	poolSize   = 64
	bufferSize = 4096 // scripts and replies are small, and each connection has two
)

// Open returns a store on the servers that a URL names:
//
//	redis://user:password@host:6379/0                  one server; rediss:// with TLS, unix:///path?db=0
//	redis+cluster://user:password@host1:6379,host2:6379    a Cluster; rediss+cluster:// with TLS
//	redis+sentinel://host1:26379,host2:26379/0?master_name=main&password=secret
//
// In all but unix URLs several hosts may be given, or further ones as addr parameters; redis:// with several hosts is a
// Cluster too. The user and password of a Sentinel URL are the Sentinels' own; those of the servers are the
// parameters username and password. Other parameters are those of go-redis, such as pool_size (64 unless set),
// dial_timeout or skip_verify, but none that has commands repeated.
//
// The namespace comes first in every key: 1 to 32 letters, digits, ".", "_" and "-". Programs that share servers and
// namespace share limits.
//
// Open does not need the server: if it cannot be reached, or not within half a second, the store is returned nevertheless
// and enforces limits as soon as it can. A server that is reached and refuses, for its password, its database or a missing
// permission, is an error that is [store.ErrMisconfigured], as is every fault of the arguments; all faults are reported at
// once. No error holds the password.
func Open(rawURL, namespace string, opts ...Option) (*Store, error) {
	set := apply(opts)
	client, err := dial(rawURL, set.timeout)
	if err = checkArguments(namespace, set, err); err != nil {
		if client != nil {
			_ = client.Close()
		}
		return nil, err
	}
	s := wrap(client, namespace, set)
	s.closeServers = func() error { return errors.Join(s.servers.close(), client.Close()) }
	if err := s.firstProbe(); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// firstProbe tries all that the store will do and returns what is misconfigured.
func (s *Store) firstProbe() error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	err := s.probe(ctx, probeTimeout)
	if err == nil {
		_, err = s.call(ctx, probeTimeout, command{name: "del", key: s.probeKey()})
	}
	if errors.Is(err, store.ErrMisconfigured) {
		return fmt.Errorf("redisstore: %w", err)
	}
	if err != nil {
		s.errors.logger.Warn("redisstore: no server answers yet: limits are not enforced until one does", "error", err)
	}
	return nil
}

// checkArguments joins all faults of the arguments.
func checkArguments(namespace string, set settings, client error) error {
	faults := append([]error{client, checkNamespace(namespace)}, set.faults...)
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("redisstore: %w:\n%w", store.ErrMisconfigured, err)
	}
	return nil
}

// dial returns a client for the URL; it connects when it is first used.
func dial(rawURL string, timeout time.Duration) (redis.UniversalClient, error) {
	scheme, kind, rest, err := split(rawURL)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "cluster":
		return dialCluster(scheme+rest, timeout)
	case "sentinel":
		return dialSentinel(scheme+rest, timeout)
	}
	o, err := redis.ParseURL(scheme + rest)
	if err != nil {
		return nil, readable(err)
	}
	if err := once("max_retries", o.MaxRetries); err != nil {
		return nil, err
	}
	o.MaintNotificationsConfig = quiet()
	common{
		&o.MaxRetries, &o.DialerRetries, &o.ContextTimeoutEnabled, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout,
		&o.PoolSize, &o.ReadBufferSize, &o.WriteBufferSize, &o.PipelinePoolSize, &o.DisableIdentity,
	}.set(timeout)
	return redis.NewClient(o), nil
}

func dialCluster(rawURL string, timeout time.Duration) (redis.UniversalClient, error) {
	if u, err := url.Parse(rawURL); err == nil && strings.Trim(u.Path, "/") != "" && u.Path != "/0" {
		return nil, fmt.Errorf("database %q: a Cluster has only database 0", u.Path)
	}
	o, err := redis.ParseClusterURL(rawURL)
	if err != nil {
		return nil, readable(err)
	}
	if err := errors.Join(once("max_retries", o.MaxRetries), once("max_redirects", o.MaxRedirects)); err != nil {
		return nil, err
	}
	o.MaxRedirects, o.MaintNotificationsConfig = -1, quiet()
	common{
		&o.MaxRetries, &o.DialerRetries, &o.ContextTimeoutEnabled, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout,
		&o.PoolSize, &o.ReadBufferSize, &o.WriteBufferSize, &o.PipelinePoolSize, &o.DisableIdentity,
	}.set(timeout)
	return redis.NewClusterClient(o), nil
}

func dialSentinel(rawURL string, timeout time.Duration) (redis.UniversalClient, error) {
	o, err := redis.ParseFailoverURL(rawURL)
	if err != nil {
		return nil, readable(err)
	}
	if o.MasterName == "" {
		return nil, errors.New("the parameter master_name is missing: it says which master the Sentinels are to name")
	}
	if o.ReplicaOnly || o.RouteByLatency || o.RouteRandomly {
		return nil, errors.New("replica_only, route_by_latency and route_randomly: limits can be kept on the master only")
	}
	if err := once("max_retries", o.MaxRetries); err != nil {
		return nil, err
	}
	common{
		&o.MaxRetries, &o.DialerRetries, &o.ContextTimeoutEnabled, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout,
		&o.PoolSize, &o.ReadBufferSize, &o.WriteBufferSize, &o.PipelinePoolSize, &o.DisableIdentity,
	}.set(timeout)
	return redis.NewFailoverClient(o), nil
}

// common points to the settings that the options of a server, of a Cluster and of Sentinel have in common.
type common struct {
	maxRetries, dialerRetries          *int
	contextTimeout                     *bool
	dial, read, write, wait            *time.Duration
	pool, readBuffer, writeBuffer, own *int
	disableIdentity                    *bool
}

// set makes a client fit for a store: it sends nothing twice, respects deadlines, and does nothing that is not needed.
func (c common) set(timeout time.Duration) {
	*c.maxRetries, *c.dialerRetries, *c.contextTimeout = -1, 1, true
	for _, d := range []*time.Duration{c.dial, c.read, c.write} {
		*d = cmp.Or(*d, max(ownTimeout, timeout))
	}
	*c.pool, *c.wait = cmp.Or(*c.pool, poolSize), cmp.Or(*c.wait, timeout)
	*c.readBuffer, *c.writeBuffer, *c.disableIdentity = bufferSize, bufferSize, true
	*c.own = -1 // no pool of its own for pipelines
}

func quiet() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// once refuses a setting that would have commands sent more than once.
func once(parameter string, value int) error {
	if value > 0 {
		return fmt.Errorf("%s=%d: must be left out, or lost replies would be charged more than once", parameter, value)
	}
	return nil
}

// split takes a URL apart: the scheme that go-redis knows, what lies behind it, and the rest with one host, the
// others made addr parameters.
func split(rawURL string) (scheme, kind, rest string, err error) {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	scheme, kind, _ = strings.Cut(scheme, "+")
	if !ok || scheme != "redis" && scheme != "rediss" && (scheme != "unix" || kind != "") ||
		kind != "" && kind != "cluster" && kind != "sentinel" {
		return "", "", "", errors.New("the URL must begin with redis://, rediss://, unix://, redis+cluster://, rediss+cluster://, redis+sentinel:// or rediss+sentinel://")
	}
	if scheme == "unix" {
		return "unix://", "", rest, nil
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	path, query, _ := strings.Cut(tail, "?")
	hosts := strings.Split(authority[strings.LastIndexByte(authority, '@')+1:], ",")
	authority = authority[:strings.LastIndexByte(authority, '@')+1] + hosts[0]
	parameters := url.Values{"addr": hosts[1:]}.Encode()
	if query != "" && parameters != "" {
		parameters = "&" + parameters
	}
	if query+parameters != "" {
		path += "?" + query + parameters
	}
	if u, err := url.ParseQuery(query + parameters); err == nil && kind == "" && u.Has("addr") {
		kind = "cluster"
	}
	return scheme + "://", kind, authority + path, nil
}

// readable keeps what [url.Error] would tell: the URL holds the password.
func readable(err error) error {
	if _, ok := errors.AsType[*url.Error](err); ok {
		return errors.New("the URL cannot be read: special characters in user and password must be percent-encoded")
	}
	return err
}
