// Package redistest runs real Redis servers for tests: single ones, a cluster, and a proxy between client and server
// that fails in the ways networks fail. It is for tests only.
//
// Everything listens on loopback, keeps nothing on disk beyond a temporary directory, and ends with the test that
// started it, or with the test process if that dies first (on Linux). It needs redis-server and redis-cli in PATH; a test
// that finds none fails and says how to install them.
package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// Ports lie below those that the system gives to outgoing connections, so that nothing takes a server's port
	// while it is down, and low enough that a cluster's bus, 10000 above, does too.
	firstPort, lastPort = 10000, 22000
	// startTimeout is long because the machine may be busy with other tests.
	startTimeout = 20 * time.Second
	attempts     = 20
)

// A Server is one redis-server process. Its methods must not be called concurrently.
type Server struct {
	port int
	dir  string
	args []string
	// sentinel holds the lines of a Sentinel's configuration, "" for a server.
	sentinel string

	process *os.Process
	exited  chan struct{}
}

// Start starts a server with the given command line arguments, such as "--requirepass", "secret", and waits until it
// answers. It is killed when the test ends.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s, stop, err := StartShared(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return s
}

// StartShared is [Start] for a TestMain: the caller calls stop when all tests have run. After an error there is
// nothing to stop.
func StartShared(args ...string) (s *Server, stop func(), err error) {
	for range attempts {
		s, err = start(&Server{port: freePort(), args: args})
		if !errors.Is(err, errExited) {
			break // anything else would only come again
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return s, s.stop, nil
}

// errExited says that the server ended by itself, which it does if its port is taken.
var errExited = errors.New("redis-server exited at once")

func start(s *Server) (*Server, error) {
	for _, name := range []string{"redis-server", "redis-cli"} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, fmt.Errorf("%s is not in PATH: install Redis, for example with \"apt-get install redis-server\" or \"brew install redis\"", name)
		}
	}
	sweep(os.TempDir())
	// Not testing.TB.TempDir: its path may be too long for a socket.
	dir, err := os.MkdirTemp("", dirPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return nil, err
	}
	s.dir = dir
	if err := s.run(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

// dirPrefix begins the names of the servers' directories; the number of the process that made it and "-" follow.
const dirPrefix = "redistest"

// sweep removes from parent what processes have left behind that are no more: one that is killed cleans nothing up.
func sweep(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, dirPrefix+"*-*")) // the pattern is good
	for _, dir := range dirs {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		if pid, err := strconv.Atoi(number); err == nil && pid > 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir)
		}
	}
}

// run starts the process and waits until it answers.
func (s *Server) run() error {
	output, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }()
	args, err := s.arguments()
	if err != nil {
		return err
	}
	cmd := exec.Command("redis-server", args...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = output, output, dieWithParent()

	started, exited := make(chan error), make(chan struct{})
	go func() {
		// The kernel ties the child to the thread that started it, so that thread waits for it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // killed, as a rule
		}
		close(exited)
	}()
	if err := <-started; err != nil {
		return err
	}
	s.process, s.exited = cmd.Process, exited
	return s.awaitReady()
}

func (s *Server) arguments() ([]string, error) {
	if s.sentinel == "" {
		return append([]string{
			"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--unixsocket", s.Socket(),
			"--dir", s.dir, "--save", "", "--appendonly", "no", "--daemonize", "no",
		}, s.args...), nil
	}
	// A Sentinel insists on a file, to write its state into.
	file := filepath.Join(s.dir, "sentinel.conf")
	lines := fmt.Sprintf("port %d\nbind 127.0.0.1\nunixsocket %s\ndir %s\n%s", s.port, s.Socket(), s.dir, s.sentinel)
	return []string{file, "--sentinel"}, os.WriteFile(file, []byte(lines), 0o600)
}

func (s *Server) awaitReady() error {
	deadline := time.Now().Add(startTimeout)
	for time.Now().Before(deadline) {
		select {
		case <-s.exited:
			said, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("%w: %s", errExited, lastLine(string(said)))
		case <-time.After(5 * time.Millisecond):
		}
		if s.answers() {
			return nil
		}
	}
	s.Kill()
	return fmt.Errorf("redis-server did not answer within %s", startTimeout)
}

// answers asks through the socket, which cannot be another test's server.
func (s *Server) answers() bool {
	c, err := net.DialTimeout("unix", s.Socket(), time.Second)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return err == nil && (strings.HasPrefix(line, "+PONG") || strings.HasPrefix(line, "-NOAUTH"))
}

func (s *Server) stop() {
	s.Kill()
	_ = os.RemoveAll(s.dir)
}

// Addr returns host:port.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// URL returns the address as a URL of database 0.
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0" }

// Socket returns the path of the server's Unix socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, "s") }

// Kill ends the process at once and waits until it is gone. Killing a dead server does nothing.
func (s *Server) Kill() {
	_ = s.process.Kill() // also ends a stopped process; fails only if it has ended
	<-s.exited
}

// Restart kills the process if it runs and starts it again, empty, on the same port.
func (s *Server) Restart() {
	s.Kill()
	var err error
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = s.run(); !errors.Is(err, errExited) {
			break
		}
	}
	if err != nil {
		panic(fmt.Sprintf("redistest: restart on port %d: %v", s.port, err))
	}
}

// Pause freezes the process: connections are accepted, nothing is answered.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume wakes a frozen process.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	if err := s.process.Signal(sig); err != nil {
		panic(fmt.Sprintf("redistest: %s: %v", sig, err))
	}
}

// CLI runs redis-cli against the server and returns what it prints, without the line end. An error reply is
// printed like any other; if redis-cli itself fails, CLI panics.
func (s *Server) CLI(args ...string) string {
	return cli(append([]string{"-s", s.Socket()}, args...)...)
}

func cli(args ...string) string {
	for attempt := 1; ; attempt++ {
		out, err := exec.Command("redis-cli", args...).CombinedOutput()
		if err == nil {
			return strings.TrimRight(string(out), "\n")
		}
		if attempt == attempts || !hungUp(err) {
			panic(fmt.Sprintf("redistest: redis-cli %s: %v\n%s", strings.Join(args, " "), err, out))
		}
	}
}

// hungUp reports whether redis-cli ended because the server closed the connection before the command was written, as
// one does to all its clients when its role changes.
func hungUp(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGPIPE
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// freePort returns a port that was free just now, and whose cluster bus port was.
func freePort() int {
	for {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if free(port) && free(port+10000) {
			return port
		}
	}
}

func free(port int) bool {
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}
