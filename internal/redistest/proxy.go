package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Mode says how a [Proxy] treats its connections.
type Mode int

const (
	// Pass forwards everything.
	Pass Mode = iota
	// Refuse lets nobody connect and closes what is connected.
	Refuse
	// Silent accepts connections and requests; the server never sees them, and nothing is answered.
	Silent
	// Swallow lets requests reach the server and drops its replies.
	Swallow
	// CutReply lets requests reach the server and closes the connection in place of the first reply.
	CutReply
	// Reset resets every connection, old or new.
	Reset
)

// A Proxy forwards TCP connections to a Redis server, or fails to. It starts in mode [Pass]. It is safe for
// concurrent use.
type Proxy struct {
	target string
	addr   string

	mu       sync.Mutex
	listener net.Listener // nil while refusing
	mode     Mode
	only     string // faults hit replies to commands that hold this; "" for all
	delay    time.Duration
	links    map[*link]struct{}
	commands []string
	closed   bool

	running sync.WaitGroup
}

// link is one proxied connection.
type link struct {
	client, server net.Conn
	// struck says that a command which the fault is meant for has passed. Guarded by Proxy.mu.
	struck bool
}

// NewProxy returns a proxy in front of target, host:port, which need not listen yet. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := newProxy(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

func newProxy(target string) (*Proxy, error) {
	p := &Proxy{target: target, links: make(map[*link]struct{})}
	var err error
	for range attempts {
		p.addr = "127.0.0.1:" + strconv.Itoa(freePort())
		if err = p.listen(); err == nil {
			return p, nil
		}
	}
	return nil, err
}

// Addr returns the host:port that clients connect to.
func (p *Proxy) Addr() string { return p.addr }

// URL returns the address as a URL of database 0.
func (p *Proxy) URL() string { return "redis://" + p.addr + "/0" }

// SetMode switches to m, for connections that exist as well.
func (p *Proxy) SetMode(m Mode) { p.SetModeFor(m, "") }

// SetModeFor is [Proxy.SetMode] for [Swallow] and [CutReply] that spares what precedes a command holding part, in any
// case: a client can still shake hands on a new connection.
func (p *Proxy) SetModeFor(m Mode, part string) {
	p.mu.Lock()
	was := p.mode
	p.mode, p.only = m, strings.ToLower(part)
	for l := range p.links {
		l.struck = false
		switch {
		case m == Refuse:
			l.close()
		case m == Reset:
			l.reset()
		case was == Silent || was == Swallow:
			// Requests or replies are missing from it, so it is of no use any more.
			l.close()
		}
	}
	if m == Refuse && p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.mu.Unlock()
	if was == Refuse && m != Refuse {
		p.listenAgain()
	}
}

// SetDelay holds every reply back for d.
func (p *Proxy) SetDelay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Count returns how many commands that hold part, in any case, have arrived from clients so far.
func (p *Proxy) Count(part string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, c := range p.commands {
		if strings.Contains(c, strings.ToLower(part)) {
			n++
		}
	}
	return n
}

func (p *Proxy) listen() error {
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.listener = l
	p.mu.Unlock()
	p.running.Go(func() { p.accept(l) })
	return nil
}

// listenAgain waits for the old listener's port, which it gave up a moment ago.
func (p *Proxy) listenAgain() {
	var err error
	for range 100 {
		if err = p.listen(); err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	panic("redistest: proxy: " + err.Error())
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	if p.listener != nil {
		_ = p.listener.Close()
	}
	for l := range p.links {
		l.close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

func (p *Proxy) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // closed
		}
		p.running.Go(func() { p.serve(c) })
	}
}

// serve runs one connection to its end.
func (p *Proxy) serve(client net.Conn) {
	l := &link{client: client}
	defer l.close()
	if !p.join(l) {
		return
	}
	defer p.leave(l)
	server, err := net.DialTimeout("tcp", p.target, time.Second)
	if err != nil {
		return
	}
	if !p.attach(l, server) {
		return
	}
	var replies sync.WaitGroup
	replies.Go(func() {
		defer l.close()
		p.backward(l)
	})
	p.forward(l)
	l.close()
	replies.Wait()
}

func (p *Proxy) join(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode == Reset {
		l.reset()
	}
	if p.closed || p.mode == Refuse || p.mode == Reset {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

// attach gives l its server side, unless the proxy was closed meanwhile.
func (p *Proxy) attach(l *link, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.server = server
	return !p.closed && p.mode != Refuse && p.mode != Reset
}

func (p *Proxy) leave(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// forward carries commands to the server.
func (p *Proxy) forward(l *link) {
	r := bufio.NewReader(l.client)
	for {
		command, err := readCommand(r)
		if err != nil {
			return
		}
		if !p.arrived(l, command) {
			continue
		}
		if _, err := l.server.Write(command); err != nil {
			return
		}
	}
}

// arrived notes a command and says whether the server may have it.
func (p *Proxy) arrived(l *link, command []byte) bool {
	const kept = 512 // of a command; enough for names and keys, not for whole scripts
	p.mu.Lock()
	defer p.mu.Unlock()
	text := strings.ToLower(string(command[:min(len(command), kept)]))
	p.commands = append(p.commands, text)
	if strings.Contains(text, p.only) {
		l.struck = true
	}
	return p.mode != Silent
}

// backward carries replies to the client.
func (p *Proxy) backward(l *link) {
	buf := make([]byte, 32<<10)
	for {
		n, err := l.server.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		mode, delay := p.mode, p.delay
		struck := l.struck
		p.mu.Unlock()
		if delay > 0 {
			time.Sleep(delay)
		}
		switch {
		case mode == Silent, mode == Swallow && struck:
			continue
		case mode == CutReply && struck:
			return
		}
		if _, err := l.client.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (l *link) close() {
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}

func (l *link) reset() {
	if c, ok := l.client.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	l.close()
}

var errCommand = errors.New("redistest: not a Redis command")

// readCommand reads one command as it was sent: an array of bulk strings, or a line.
func readCommand(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil || line[0] != '*' {
		return line, err
	}
	command := line
	parts, err := number(line)
	if err != nil {
		return nil, err
	}
	for range parts {
		head, err := r.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		size, err := number(head)
		if err != nil || head[0] != '$' {
			return nil, errCommand
		}
		body := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(r, body); err != nil {
			return nil, err
		}
		command = append(append(command, head...), body...)
	}
	return command, nil
}

func number(line []byte) (int, error) {
	n, err := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	if err != nil || n < 0 {
		return 0, errCommand
	}
	return n, nil
}
