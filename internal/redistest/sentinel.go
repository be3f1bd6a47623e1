package redistest

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// StartSentinel starts a Sentinel that watches master under name, and waits until it knows the master's replicas, of
// which there must be one. It ends with the test.
func StartSentinel(t testing.TB, name string, master *Server) *Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(master.Addr())
	config := fmt.Sprintf("sentinel monitor %s %s %s 1\nsentinel down-after-milliseconds %s 1000\nsentinel failover-timeout %s 5000\n",
		name, host, port, name, name)
	var s *Server
	var err error
	for range attempts {
		if s, err = start(&Server{port: freePort(), sentinel: config}); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	await(t, "the Sentinel to know a replica", func() bool {
		return strings.Contains(s.CLI("sentinel", "replicas", name), "master-link-status\nok")
	})
	return s
}

// StartReplica starts a replica of master and waits until it is in step. It ends with the test.
func StartReplica(t testing.TB, master *Server) *Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(master.Addr())
	s := Start(t, "--replicaof", host+" "+port)
	await(t, "the replica to be in step", func() bool {
		return strings.Contains(s.CLI("info", "replication"), "master_link_status:up")
	})
	return s
}
