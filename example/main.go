// Command example runs a Gin app and an Echo app that share the same policies, so that whatever a user spends in
// one is spent in the other. Without -redis the policies keep their state in this process; with it any number of
// processes share every budget.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/policies"
	"github.com/trafficguard-go/trafficguard/store/memory"
	"github.com/trafficguard-go/trafficguard/store/redisstore"
)

func main() {
	ginAddr := flag.String("gin", ":8080", "address of the Gin app")
	echoAddr := flag.String("echo", ":8081", "address of the Echo app")
	redisURL := flag.String("redis", "", "redis://host:port/db to share budgets among processes; empty for the embedded store")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}

	if err := run(*ginAddr, *echoAddr, *redisURL); err != nil {
		slog.Error("example", "err", err)
		os.Exit(1)
	}
}

// run serves both apps until the process is told to stop.
func run(ginAddr, echoAddr, redisURL string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	shared, closeStore, err := sharedOptions(redisURL)
	if err != nil {
		return err
	}
	defer closeStore()

	p := newPolicies(shared)
	tg := new(guard.TrafficGuard)
	ginApp, err := listen(ginAddr, newGin(tg, p))
	if err != nil {
		return err
	}
	defer ginApp.close()
	echoApp, err := listen(echoAddr, newEcho(tg, p))
	if err != nil {
		return err
	}
	defer echoApp.close()

	fmt.Print(describe(ginApp.url(), echoApp.url(), redisURL))
	failed := make(chan error, 2)
	go ginApp.serve(failed)
	go echoApp.serve(failed)
	select {
	case err = <-failed:
	case <-ctx.Done():
		fmt.Println("stopping")
	}
	return errors.Join(err, ginApp.shutdown(), echoApp.shutdown())
}

// sharedOptions says where all policies of the example keep their state, and what they tell clients.
func sharedOptions(redisURL string) (_ policies.SharedOption, closeStore func(), _ error) {
	if redisURL == "" {
		return policies.Options(policies.InStore(memory.New()), policies.Headers(policies.IETF)), func() {}, nil
	}
	redis, err := redisstore.Open(redisURL, "example")
	if err != nil {
		return nil, nil, err
	}
	closeStore = func() { _ = redis.Close() } // the process ends: nobody is left to mind
	return policies.Options(policies.InStore(redis), policies.Headers(policies.IETF)), closeStore, nil
}

// An app is one listening server.
type app struct {
	listener net.Listener
	server   *http.Server
}

func listen(addr string, h http.Handler) (*app, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%w; choose other addresses with -gin and -echo", err)
	}
	return &app{listener: l, server: &http.Server{
		Handler: h,
		// A policy that reads the body waits for it no longer than the server does.
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		IdleTimeout:       time.Minute,
	}}, nil
}

// close gives the port back if the app was never served; after shutdown it does nothing.
func (a *app) close() { _ = a.listener.Close() }

func (a *app) serve(failed chan<- error) {
	if err := a.server.Serve(a.listener); !errors.Is(err, http.ErrServerClosed) {
		failed <- err
	}
}

// shutdown lets running requests end, for a while.
func (a *app) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return a.server.Shutdown(ctx)
}

func (a *app) url() string {
	host, port, err := net.SplitHostPort(a.listener.Addr().String())
	if err != nil { // a TCP listener's address always splits
		panic(err)
	}
	if net.ParseIP(host).IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}
