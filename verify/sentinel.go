package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/trafficguard-go/trafficguard/internal/redistest"
)

const (
	// roleSentinel is the role of a process that keeps a Sentinel and ends it when it ends itself.
	roleSentinel = "Sentinel"
	masterName   = "main"
)

// playSentinel runs a Sentinel that watches master.
func playSentinel(master string) error {
	dir, err := os.MkdirTemp("", "verify-sentinel")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(addr)
	host, masterPort, err := net.SplitHostPort(master)
	if err != nil {
		return err
	}
	config := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor %[3]s %s %s 1\n"+
		"sentinel down-after-milliseconds %[3]s 500\nsentinel failover-timeout %[3]s 5000\n", port, dir, masterName, host, masterPort)
	file := filepath.Join(dir, "sentinel.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil { //nolint:gosec // in a directory of its own
		return err
	}
	cmd := exec.Command("redis-server", file, "--sentinel") //nolint:gosec // the file was written just now
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if err := answers(addr); err != nil {
		return err
	}
	announce(addr)
	return nil
}

// freeAddr returns a loopback address that was free just now.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// answers waits until a Redis listens at addr.
func answers(addr string) error {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()
	return await(context.Background(), "the Sentinel", func(ctx context.Context) bool { return client.Ping(ctx).Err() == nil })
}

// await waits until done, at most for startTimeout.
func await(ctx context.Context, what string, done func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for !done(ctx) {
		if pause(ctx, 10*time.Millisecond) != nil {
			return fmt.Errorf("waited in vain for %s", what)
		}
	}
	return nil
}

// sentinelSite is a master and its replica, watched by a Sentinel. The outage is the master's kill -9.
func sentinelSite(ctx context.Context) (_ *site, err error) {
	s := new(site)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	master, err := s.startRedis()
	if err != nil {
		return nil, err
	}
	replica, err := s.startRedis("--replicaof", strings.ReplaceAll(master.Addr(), ":", " "))
	if err != nil {
		return nil, err
	}
	if err := awaitReplication(ctx, replica, "master_link_status:up"); err != nil {
		return nil, err
	}
	sentinel, err := startProcess(ctx, roleSentinel, envRedis+"="+master.Addr())
	if err != nil {
		return nil, err
	}
	s.stops = append(s.stops, sentinel.stop)
	client := redis.NewSentinelClient(&redis.Options{Addr: sentinel.addr})
	defer func() { _ = client.Close() }()
	err = await(ctx, "the Sentinel to know the replica", func(ctx context.Context) bool {
		known, err := client.Replicas(ctx, masterName).Result()
		return err == nil && len(known) == 1 && known[0]["master-link-status"] == "ok"
	})
	s.url = "redis+sentinel://" + sentinel.addr + "/0?master_name=" + masterName
	s.strike = master.Kill
	s.mend = func(ctx context.Context) error { return awaitReplication(ctx, replica, "role:master") }
	s.unsure = 100 * time.Millisecond
	return s, err
}

// awaitReplication waits until server says so of itself.
func awaitReplication(ctx context.Context, server *redistest.Server, says string) error {
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()
	return await(ctx, says, func(ctx context.Context) bool {
		return strings.Contains(client.Info(ctx, "replication").Val(), says)
	})
}
