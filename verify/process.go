package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const (
	startTimeout = 20 * time.Second // the machine may be busy with other things
	stopTimeout  = 5 * time.Second
)

// A process is another instance of this program that plays a role.
type process struct {
	role  string
	addr  string // what it said of itself
	stdin io.Closer
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // how it ended, once it has
}

// startProcess starts one and waits until it has told its address.
func startProcess(ctx context.Context, role string, env ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self) //nolint:gosec // this program itself
	cmd.Env = append(os.Environ(), append(env, envRole+"="+role)...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{role: role, stdin: stdin, cmd: cmd, ended: make(chan struct{})}
	said := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		said <- strings.TrimSpace(line)
		p.err = cmd.Wait()
		close(p.ended)
	}()
	select {
	case p.addr = <-said:
		if p.addr != "" {
			return p, nil
		}
		err = fmt.Errorf("%s did not start", role)
	case <-time.After(startTimeout):
		err = fmt.Errorf("%s has not started within %s", role, startTimeout)
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(err, p.stop())
}

// stop ends the process, by itself if it can, and waits until it is gone.
func (p *process) stop() error {
	_ = p.stdin.Close()
	select {
	case <-p.ended:
		if p.err != nil {
			return fmt.Errorf("%s: %w", p.role, p.err)
		}
		return nil
	case <-time.After(stopTimeout):
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
	return fmt.Errorf("%s had to be killed", p.role)
}

// A fleet is one process for each framework, all on one store.
type fleet []*process

// startFleet starts them with clocks that are off by skews, or right where these are left out.
func startFleet(ctx context.Context, url string, skews ...time.Duration) (fleet, error) {
	var f fleet
	for i, framework := range frameworks {
		env := []string{envRedis + "=" + url}
		if len(skews) > 0 {
			env = append(env, envSkew+"="+skews[i].String())
		}
		p, err := startProcess(ctx, framework, env...)
		if err != nil {
			return nil, errors.Join(err, f.stop())
		}
		f = append(f, p)
	}
	return f, nil
}

func (f fleet) stop() error {
	var errs []error
	for _, p := range slices.Backward(f) {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
}

func (f fleet) names() string {
	var names []string
	for _, p := range f {
		names = append(names, p.role)
	}
	return strings.Join(names, ", ")
}
