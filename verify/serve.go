package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v5"

	"github.com/trafficguard-go/trafficguard/echov5adapter"
	"github.com/trafficguard-go/trafficguard/ginadapter"
	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/httpadapter"
)

// The program starts itself again with these set, to be another process of the experiment.
const (
	envRole  = "TRAFFICGUARD_VERIFY_ROLE"  // a framework, or roleSentinel
	envRedis = "TRAFFICGUARD_VERIFY_REDIS" // URL of the store; for the Sentinel the address of the master
	envSkew  = "TRAFFICGUARD_VERIFY_SKEW"  // how far the process's clock is off
)

var discard = slog.New(slog.DiscardHandler)

// play is the whole life of a process with a role. It tells its address on standard output, and ends when its standard
// input does: the program that started it holds the other end, and is gone then.
func play(role string) error {
	signal.Ignore(os.Interrupt) // Ctrl-C is sent to all processes of the terminal; the first one stops the others
	if role == roleSentinel {
		return playSentinel(os.Getenv(envRedis))
	}
	return playServer(role)
}

// announce tells the parent where to find this process, and waits for its end.
func announce(addr string) {
	_, _ = fmt.Fprintln(os.Stdout, addr)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func playServer(framework string) error {
	var skew time.Duration
	if s := os.Getenv(envSkew); s != "" {
		var err error
		if skew, err = time.ParseDuration(s); err != nil {
			return err
		}
	}
	f, err := openFooting(os.Getenv(envRedis), skew)
	if err != nil {
		return err
	}
	app, err := newApp(framework, f)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: app, ReadHeaderTimeout: time.Minute}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(l) }()
	announce("http://" + l.Addr().String())
	_ = server.Close()
	if err := <-stopped; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// A routeTable mounts GET routes in one framework.
type routeTable interface {
	get(path string, p ...guard.GuardPolicy)
	http.Handler
}

// frameworks are those of the three processes.
var frameworks = []string{"gin", "echo v5", "net/http"}

func newRouteTable(framework string, tg *guard.TrafficGuard) (routeTable, error) {
	switch framework {
	case "gin":
		gin.SetMode(gin.ReleaseMode)
		return ginTable{gin.New(), ginadapter.New(tg)}, nil
	case "echo v5":
		return echoTable{echo.New(), echov5adapter.New(tg)}, nil
	case "net/http":
		return muxTable{http.NewServeMux(), httpadapter.New(tg)}, nil
	default:
		return nil, fmt.Errorf("unknown role %q", framework)
	}
}

type ginTable struct {
	*gin.Engine
	guard *ginadapter.Guard
}

func (t ginTable) get(path string, p ...guard.GuardPolicy) {
	t.GET(path, t.guard.With(p...), gin.WrapF(answer))
}

type echoTable struct {
	*echo.Echo
	guard *echov5adapter.Guard
}

func (t echoTable) get(path string, p ...guard.GuardPolicy) {
	t.GET(path, echo.WrapHandler(http.HandlerFunc(answer)), t.guard.With(p...))
}

type muxTable struct {
	*http.ServeMux
	guard *httpadapter.Guard
}

func (t muxTable) get(path string, p ...guard.GuardPolicy) {
	t.Handle("GET "+path, t.guard.With(p...)(http.HandlerFunc(answer)))
}

// barePath is a route without a guard.
const barePath = "/bare"

func path(v variant, s scenario) string { return "/" + v.key + "/" + s.key }

// newApp serves every variant in every scenario, each pair on a route of its own.
func newApp(framework string, f footing) (http.Handler, error) {
	table, err := newRouteTable(framework, &guard.TrafficGuard{Budget: 2 * patience, Observe: markDegraded})
	if err != nil {
		return nil, err
	}
	table.get(barePath)
	for _, s := range scenarios(false) {
		for _, v := range variants() {
			if !s.fits(v) {
				continue
			}
			if p := v.policy(s, f); p != nil {
				table.get(path(v, s), p)
			}
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		table.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), markKey{}, new(bool))))
	}), nil
}

// degradedHeader tells the parent that an Event called this pass degraded.
const degradedHeader = "Verify-Degraded"

// markKey leads to the mark that the observer, which has no response to write to, leaves for the handler. Both run on the
// request's own goroutine.
type markKey struct{}

func markDegraded(ctx context.Context, e guard.Event) {
	if mark, ok := ctx.Value(markKey{}).(*bool); ok && e.Degraded {
		*mark = true
	}
}

func answer(w http.ResponseWriter, r *http.Request) {
	if mark, ok := r.Context().Value(markKey{}).(*bool); ok && *mark {
		w.Header().Set(degradedHeader, "1")
	}
	w.WriteHeader(http.StatusOK)
}
