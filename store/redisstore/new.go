package redisstore

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// New returns a store that uses a client of the caller's, who closes it after the store. It is for what [Open] cannot
// express, such as a custom dialer or rotating credentials. It sends nothing yet.
//
// The client must be a [redis.Client], which those of Sentinel are too, or a [redis.ClusterClient], and must
// repeat nothing by itself and respect deadlines:
//
//	redis.Options{MaxRetries: -1, ContextTimeoutEnabled: true, ...}
//	redis.ClusterOptions{MaxRedirects: -1, ContextTimeoutEnabled: true, ...}
//
// Any other is refused with an error that is [store.ErrMisconfigured] and names all settings at fault. DialerRetries: 1 is
// advised besides: it is what makes an absent server fail at once. In a Cluster the store sends to the nodes' own clients:
// hooks belong there (OnNewNode), those of the ClusterClient do not see it.
//
// The namespace is as for [Open].
func New(client redis.UniversalClient, namespace string, opts ...Option) (*Store, error) {
	set := apply(opts)
	if err := checkArguments(namespace, set, checkClient(client)); err != nil {
		return nil, err
	}
	s := wrap(client, namespace, set)
	s.closeServers = s.servers.close
	return s, nil
}

// wrap returns a store on a client that has been checked.
func wrap(client redis.UniversalClient, namespace string, set settings) *Store {
	s := newStore(namespace, set)
	u := upkeep{timeout: set.timeout, logger: set.logger, background: s.background, probe: s.probeCommand, probeKey: s.probeKey()}
	switch c := client.(type) {
	case *redis.Client:
		s.servers = newSingle(c, u)
	case *redis.ClusterClient:
		s.servers = newCluster(c, u)
	}
	return s
}

// checkClient says what is wrong with a client. Its options are those that go-redis has worked out: "off", given as -1, is 0.
func checkClient(client redis.UniversalClient) error {
	switch c := client.(type) {
	case nil:
		return errors.New("the client is nil")
	case *redis.Client:
		if c == nil {
			return errors.New("the client is nil")
		}
		o := c.Options()
		return errors.Join(repeats("MaxRetries", o.MaxRetries), deadlines(o.ContextTimeoutEnabled))
	case *redis.ClusterClient:
		if c == nil {
			return errors.New("the client is nil")
		}
		o := c.Options()
		return errors.Join(
			repeats("MaxRetries", max(0, o.MaxRetries)), repeats("MaxRedirects", o.MaxRedirects), deadlines(o.ContextTimeoutEnabled))
	default:
		return fmt.Errorf("client %T: must be a *redis.Client or a *redis.ClusterClient", client)
	}
}

func repeats(setting string, value int) error {
	if value == 0 {
		return nil
	}
	return fmt.Errorf("%s is %d: set it to -1, or a request whose reply is lost may be charged %d times", setting, value, value+1)
}

func deadlines(respected bool) error {
	if respected {
		return nil
	}
	return errors.New("ContextTimeoutEnabled is false: set it, or requests wait for a silent server for seconds")
}
