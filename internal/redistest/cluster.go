package redistest

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Slots is the number of hash slots of a Redis Cluster.
const Slots = 16384

// A Cluster is three masters that share the slots. They announce the addresses of their proxies, so clients
// reach every node through its proxy, redirections included; what nodes say to each other goes past it.
type Cluster struct {
	Nodes   []*Server
	Proxies []*Proxy // Proxies[i] is in front of Nodes[i]
}

// StartCluster starts a cluster and waits until all nodes agree that it is up. It ends with the test.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{}
	for range 3 {
		s, p := startNode(t)
		c.Nodes, c.Proxies = append(c.Nodes, s), append(c.Proxies, p)
	}
	create := []string{"--cluster", "create", c.Nodes[0].Addr(), c.Nodes[1].Addr(), c.Nodes[2].Addr(), "--cluster-yes"}
	if out := cli(create...); !strings.Contains(out, "All 16384 slots covered") {
		t.Fatalf("the cluster could not be created: %s", out)
	}
	c.awaitState(t)
	return c
}

// startNode starts a server in cluster mode behind a proxy. A lost race for a port starts both anew.
func startNode(t testing.TB) (*Server, *Proxy) {
	t.Helper()
	var err error
	for range attempts {
		port := freePort()
		var p *Proxy
		if p, err = newProxy("127.0.0.1:" + strconv.Itoa(port)); err != nil {
			continue
		}
		_, announced, _ := net.SplitHostPort(p.Addr())
		var s *Server
		s, err = start(&Server{port: port, args: []string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no",
			"--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", announced,
			"--cluster-announce-bus-port", strconv.Itoa(port + 10000),
		}})
		if err != nil {
			p.close()
			continue
		}
		t.Cleanup(s.stop)
		t.Cleanup(p.close)
		return s, p
	}
	t.Fatal(err)
	return nil, nil
}

// awaitState waits until every node sees all slots served behind the proxies.
func (c *Cluster) awaitState(t testing.TB) {
	t.Helper()
	await(t, "the cluster to be up", c.agreed)
}

func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(startTimeout); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s in vain for %s", startTimeout, what)
		}
	}
}

func (c *Cluster) agreed() bool {
	for _, s := range c.Nodes {
		if !strings.Contains(s.CLI("cluster", "info"), "cluster_state:ok") {
			return false
		}
		nodes := s.CLI("cluster", "nodes")
		for _, p := range c.Proxies {
			if !strings.Contains(nodes, p.Addr()+"@") {
				return false
			}
		}
		if strings.Count(nodes, " connected") != len(c.Nodes) {
			return false
		}
	}
	return true
}

// AddReplica adds a replica of node of, behind a proxy of its own, at the end of Nodes and Proxies, and waits until it holds
// what its master holds. [Cluster.TakeOver] makes it a master.
func (c *Cluster) AddReplica(t testing.TB, of int) {
	t.Helper()
	s, p := startNode(t)
	cli("--cluster", "add-node", s.Addr(), c.Nodes[of].Addr(), "--cluster-slave", "--cluster-master-id", c.id(of))
	c.Nodes, c.Proxies = append(c.Nodes, s), append(c.Proxies, p)
	c.awaitState(t)
	await(t, "the replica to be in step", func() bool {
		return strings.Contains(s.CLI("info", "replication"), "master_link_status:up")
	})
}

// TakeOver makes a replica the master in place of its own, which may be dead.
func (c *Cluster) TakeOver(t testing.TB, replica int) {
	t.Helper()
	if out := c.Nodes[replica].CLI("cluster", "failover", "takeover"); out != "OK" {
		t.Fatalf("takeover: %s", out)
	}
	await(t, "the replica to be master", func() bool {
		return strings.Contains(c.Nodes[replica].CLI("info", "replication"), "role:master")
	})
}

// URL returns the proxies' addresses as a redis+cluster URL.
func (c *Cluster) URL() string {
	return fmt.Sprintf("redis+cluster://%s?addr=%s&addr=%s", c.Proxies[0].Addr(), c.Proxies[1].Addr(), c.Proxies[2].Addr())
}

// Addrs returns the proxies' addresses.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, p := range c.Proxies {
		addrs = append(addrs, p.Addr())
	}
	return addrs
}

// Slot returns the hash slot of key.
func (c *Cluster) Slot(key string) int {
	slot, err := strconv.Atoi(c.Nodes[0].CLI("cluster", "keyslot", key))
	if err != nil {
		panic("redistest: " + err.Error())
	}
	return slot
}

// Owner returns the index of the node that serves slot.
func (c *Cluster) Owner(slot int) int {
	for i, s := range c.Nodes {
		for line := range strings.Lines(s.CLI("cluster", "nodes")) {
			fields := strings.Fields(line)
			if len(fields) > 8 && strings.Contains(fields[2], "myself") && holds(fields[8:], slot) {
				return i
			}
		}
	}
	panic("redistest: nobody serves slot " + strconv.Itoa(slot))
}

func holds(ranges []string, slot int) bool {
	for _, r := range ranges {
		first, last, found := strings.Cut(r, "-")
		if !found {
			last = first
		}
		lo, err := strconv.Atoi(first)
		if err != nil {
			continue // a slot on its way, "[93-<-id]"
		}
		hi, err := strconv.Atoi(last)
		if err == nil && lo <= slot && slot <= hi {
			return true
		}
	}
	return false
}

// BeginMove opens slot for migration from its owner to node to: the owner answers ASK for keys that it does not hold.
// [Cluster.EndMove] completes it.
func (c *Cluster) BeginMove(slot, to int) {
	from := c.Owner(slot)
	c.setSlot(to, slot, "importing", c.id(from))
	c.setSlot(from, slot, "migrating", c.id(to))
}

// EndMove carries over the keys of slot and makes node to its owner. From then on the old owner answers MOVED.
func (c *Cluster) EndMove(slot, to int) {
	from := c.Owner(slot)
	if keys := strings.Fields(c.Nodes[from].CLI("cluster", "getkeysinslot", strconv.Itoa(slot), "1000")); len(keys) > 0 {
		_, port, _ := net.SplitHostPort(c.Nodes[to].Addr())
		args := append([]string{"migrate", "127.0.0.1", port, "", "0", "5000", "keys"}, keys...)
		if out := c.Nodes[from].CLI(args...); out != "OK" {
			panic("redistest: migrate: " + out)
		}
	}
	// The new owner first, or a node could ask in vain. Replicas are told by their masters.
	c.setSlot(to, slot, "node", c.id(to))
	for i, n := range c.Nodes {
		if i != to && strings.Contains(n.CLI("info", "replication"), "role:master") {
			c.setSlot(i, slot, "node", c.id(to))
		}
	}
}

func (c *Cluster) id(node int) string { return c.Nodes[node].CLI("cluster", "myid") }

func (c *Cluster) setSlot(node, slot int, how, id string) {
	if out := c.Nodes[node].CLI("cluster", "setslot", strconv.Itoa(slot), how, id); out != "OK" {
		panic("redistest: setslot: " + out)
	}
}
