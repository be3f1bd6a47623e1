// Command verify shows, on real servers and under real load, that limits hold: it starts a Redis of its own and three
// server processes (Gin, Echo, net/http) that share it, sends them synchronised bursts of HTTP requests over loopback, and
// prints a table, scenario by algorithm.
//
// Beside the algorithms of this module it runs limiters that are wrong on purpose. A check that has never failed proves
// little: each of them must be caught by the scenarios that are meant for it.
//
// The exit status is 0 if every algorithm of this module held and every planted fault was caught, 1 if not, and 2 if the run
// could not be made or was interrupted. All that it starts ends with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// Exit statuses.
const (
	held = iota
	failed
	notRun
)

func main() {
	redis.SetLogger(silent{}) // outages are part of the programme
	if role := os.Getenv(envRole); role != "" {
		exit(play(role))
	}
	quick := flag.Bool("quick", false, "fewer bursts, shorter load, no Sentinel: under 20 seconds")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status, err := run(ctx, *quick, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "verify:", err)
	}
	os.Exit(status)
}

// exit ends a process that plays a role.
func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "verify:", err)
		os.Exit(notRun)
	}
	os.Exit(held)
}

// run verifies, and writes the table to out and how it gets on to progress.
func run(ctx context.Context, quick bool, out, progress io.Writer) (status int, err error) {
	begin := time.Now()
	r, err := examine(ctx, quick, progress)
	if ctx.Err() != nil {
		return notRun, errors.Join(errors.New("interrupted: nothing is judged, all processes are stopped"), err)
	}
	if err != nil {
		return notRun, err
	}
	if _, err := fmt.Fprintf(out, "%s\n%s (%s)\n", r, r.summary(), time.Since(begin).Round(time.Second)); err != nil {
		return notRun, err
	}
	if r.wrong() > 0 {
		return failed, nil
	}
	return held, nil
}

// examine plays all scenarios. When it returns, nothing that it started runs any more.
func examine(ctx context.Context, quick bool, progress io.Writer) (r report, err error) {
	l, err := openLab(ctx, quick)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	r.variants = variants()
	r.setting = fmt.Sprintf("One Redis %s and three server processes (%s), or each by itself; HTTP over loopback in bursts behind\n"+
		"a barrier; %d CPUs for all of it, %s.", l.version, l.fleet.names(), runtime.NumCPU(), runtime.Version())
	programme := scenarios(quick)
	for i, s := range programme {
		_, _ = fmt.Fprintf(progress, "%2d/%d  %s\n", i+1, len(programme), s.title)
		cells, err := l.verdicts(ctx, s, r.variants)
		if ctx.Err() != nil {
			return r, nil
		}
		if err != nil {
			return r, fmt.Errorf("%s: %w", s.title, err)
		}
		r.rows = append(r.rows, row{s, cells})
	}
	r.bare = l.bare
	return r, nil
}

// silent is a log that keeps nothing.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
