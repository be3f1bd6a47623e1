package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// conn is a bare connection that sends lines and reads lines.
type conn struct {
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, addr string) conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return conn{c, bufio.NewReader(c)}
}

// ask sends one line and returns the first line of the answer.
func (c conn) ask(line string, within time.Duration) (string, error) {
	_ = c.SetDeadline(time.Now().Add(within))
	if _, err := io.WriteString(c, line+"\r\n"); err != nil {
		return "", err
	}
	reply, err := c.r.ReadString('\n')
	return strings.TrimSpace(reply), err
}

func mustAsk(t *testing.T, c conn, line, want string) {
	t.Helper()
	got, err := c.ask(line, 5*time.Second)
	if err != nil || got != want {
		t.Fatalf("%s: got %q, %v; want %q", line, got, err, want)
	}
}

func mustNotAnswer(t *testing.T, c conn, line string) {
	t.Helper()
	got, err := c.ask(line, 100*time.Millisecond)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%s: got %q, %v; want silence", line, got, err)
	}
}

func mustEnd(t *testing.T, c conn, line string) {
	t.Helper()
	got, err := c.ask(line, 5*time.Second)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%s: got %q, %v; want a closed connection", line, got, err)
	}
}

func TestServerLives(t *testing.T) {
	t.Parallel()
	s := Start(t)
	mustAsk(t, dial(t, s.Addr()), "PING", "+PONG")
	if got := s.CLI("set", "k", "1"); got != "OK" {
		t.Fatalf("CLI: %q", got)
	}

	c := dial(t, s.Addr())
	s.Pause()
	mustNotAnswer(t, c, "PING")
	s.Resume()

	addr := s.Addr()
	s.Restart()
	if s.Addr() != addr {
		t.Fatalf("restarted at %s, want %s", s.Addr(), addr)
	}
	if got := s.CLI("exists", "k"); got != "0" {
		t.Fatalf("after a restart the server must be empty, got %q", got)
	}

	s.Kill()
	if _, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("dial a killed server: %v", err)
	}
}

func TestServerTakesArguments(t *testing.T) {
	t.Parallel()
	s := Start(t, "--requirepass", "secret")
	if got := s.CLI("ping"); !strings.Contains(got, "NOAUTH") {
		t.Fatalf("without password: %q", got)
	}
	if got := s.CLI("-a", "secret", "--no-auth-warning", "ping"); got != "PONG" {
		t.Fatalf("with password: %q", got)
	}
}

func TestServerReportsBadArguments(t *testing.T) {
	t.Parallel()
	if _, _, err := StartShared("--no-such-option", "1"); err == nil {
		t.Fatal("a server with an unknown option started")
	}
}

// TestSweep: what a dead process left goes, and nothing else.
func TestSweep(t *testing.T) {
	t.Parallel()
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	leftovers := fmt.Sprintf("redistest%d-1", dead.Process.Pid)
	for _, name := range []string{
		leftovers, fmt.Sprintf("redistest%d-1", os.Getpid()), fmt.Sprintf("other%d-1", dead.Process.Pid),
		"redistest-1", "redistestx-1", "redistest0-1", fmt.Sprintf("redistest%d", dead.Process.Pid),
	} {
		if err := os.MkdirAll(filepath.Join(parent, name, "inner"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sweep(parent)
	left, err := os.ReadDir(parent)
	if err != nil || len(left) != 6 {
		t.Errorf("left: %v, %v, want all but %s", left, err, leftovers)
	}
	for _, l := range left {
		if l.Name() == leftovers {
			t.Errorf("%s is still there", leftovers)
		}
	}
}

// TestKilledProcess: the next process clears up what a killed one has left.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	temp, err := os.MkdirTemp("", "killed") //nolint:usetesting // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	victim := exec.Command(os.Args[0], "-test.run=^TestHang$")
	victim.Env = append(os.Environ(), "REDISTEST_HANG=1", "TMPDIR="+temp)
	if _, err := victim.StdinPipe(); err != nil { // it ends with this process, whatever happens
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	dirs := func() []string {
		found, _ := filepath.Glob(filepath.Join(temp, "redistest*", "s"))
		return found
	}
	await(t, "a server", func() bool { return len(dirs()) == 1 })
	_ = victim.Process.Kill()
	_ = victim.Wait()
	sweep(temp)
	if got := dirs(); len(got) != 0 {
		t.Errorf("%v are still there", got)
	}
}

// TestHang is the process that [TestKilledProcess] kills.
func TestHang(t *testing.T) {
	if os.Getenv("REDISTEST_HANG") == "" {
		return
	}
	Start(t)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func TestProxyModes(t *testing.T) {
	t.Parallel()
	s := Start(t)
	p := NewProxy(t, s.Addr())
	value := func() string { return s.CLI("get", "n") }

	c := dial(t, p.Addr())
	mustAsk(t, c, "INCR n", ":1")

	p.SetMode(Swallow)
	mustNotAnswer(t, c, "INCR n")
	if value() != "2" {
		t.Fatalf("swallowed: the server must have seen the request, n = %s", value())
	}
	p.SetMode(Pass)

	p.SetMode(Silent)
	c = dial(t, p.Addr())
	mustNotAnswer(t, c, "INCR n")
	if value() != "2" {
		t.Fatalf("silent: the server must not have seen the request, n = %s", value())
	}
	p.SetMode(Pass)

	c = dial(t, p.Addr())
	p.SetMode(CutReply)
	mustEnd(t, c, "INCR n")
	if value() != "3" {
		t.Fatalf("cut: the server must have seen the request, n = %s", value())
	}

	p.SetModeFor(CutReply, "incr")
	c = dial(t, p.Addr())
	mustAsk(t, c, "GET n", "$1") // spared; the value's own line follows
	_, _ = c.r.ReadString('\n')
	mustEnd(t, c, "INCR n")

	p.SetMode(Pass)
	c = dial(t, p.Addr())
	mustAsk(t, c, "PING", "+PONG")
	p.SetMode(Reset)
	mustEnd(t, c, "PING")
	if c, err := net.Dial("tcp", p.Addr()); err == nil { // else it was reset while it connected
		mustEnd(t, conn{c, bufio.NewReader(c)}, "PING")
		_ = c.Close()
	}

	p.SetMode(Refuse)
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("refused: %v", err)
	}
	p.SetMode(Pass)
	mustAsk(t, dial(t, p.Addr()), "GET n", "$1")

	if got := p.Count("incr"); got != 5 {
		t.Fatalf("counted %d INCR commands, want 5", got)
	}
}

func TestProxyDelays(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, Start(t).Addr())
	c := dial(t, p.Addr())
	p.SetDelay(200 * time.Millisecond)
	mustNotAnswer(t, c, "PING")
	p.SetDelay(0)
	mustAsk(t, dial(t, p.Addr()), "PING", "+PONG")
}

func TestProxySeesCommandsNotChunks(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, Start(t).Addr())
	c := dial(t, p.Addr())
	// Two commands in one write, one of them in two.
	if _, err := io.WriteString(c, "*2\r\n$3\r\nGET\r\n$3\r\nabc\r\n*2\r\n$3\r\nGET\r\n$3\r\na"); err != nil {
		t.Fatal(err)
	}
	_, _ = c.r.ReadString('\n')
	if _, err := io.WriteString(c, "bc\r\n"); err != nil {
		t.Fatal(err)
	}
	_, _ = c.r.ReadString('\n')
	if got := p.Count("abc"); got != 2 {
		t.Fatalf("counted %d, want 2", got)
	}
}

func TestClusterMovesSlots(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	slot := c.Slot("k")
	from := c.Owner(slot)
	to := (from + 1) % len(c.Nodes)

	mustAsk(t, dial(t, c.Proxies[from].Addr()), "SET k 1", "+OK")
	if got, _ := dial(t, c.Proxies[to].Addr()).ask("GET k", time.Second); !strings.HasSuffix(got, c.Proxies[from].Addr()) {
		t.Fatalf("redirected with %q, want the owner's proxy %s", got, c.Proxies[from].Addr())
	}

	c.BeginMove(slot, to)
	if got, _ := dial(t, c.Proxies[from].Addr()).ask("GET {k}absent", time.Second); !strings.HasPrefix(got, "-ASK") {
		t.Fatalf("got %q while the slot moves, want ASK", got)
	}
	c.EndMove(slot, to)
	if got := c.Owner(slot); got != to {
		t.Fatalf("the owner is %d, want %d", got, to)
	}
	mustAsk(t, dial(t, c.Proxies[to].Addr()), "GET k", "$1")
}

func TestClusterWithReplicaMovesSlots(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	slot := c.Slot("k")
	from := c.Owner(slot)
	to := (from + 1) % 3
	c.AddReplica(t, from)
	mustAsk(t, dial(t, c.Proxies[from].Addr()), "SET k 1", "+OK")
	c.BeginMove(slot, to)
	c.EndMove(slot, to)
	if got := c.Owner(slot); got != to {
		t.Fatalf("the owner is %d, want %d", got, to)
	}
	mustAsk(t, dial(t, c.Proxies[to].Addr()), "GET k", "$1")
}

func TestClusterReplicaTakesOver(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	slot := c.Slot("k")
	from := c.Owner(slot)
	mustAsk(t, dial(t, c.Proxies[from].Addr()), "SET k 1", "+OK")
	c.AddReplica(t, from)
	c.Nodes[from].Kill()
	c.TakeOver(t, 3)
	mustAsk(t, dial(t, c.Proxies[3].Addr()), "GET k", "$1")
}

func TestSentinelFailsOver(t *testing.T) {
	t.Parallel()
	master := Start(t)
	replica := StartReplica(t, master)
	sentinel := StartSentinel(t, "main", master)
	if got := sentinel.CLI("sentinel", "failover", "main"); got != "OK" {
		t.Fatalf("failover: %q", got)
	}
	await(t, "the replica to be master", func() bool {
		return strings.Contains(replica.CLI("info", "replication"), "role:master")
	})
}
