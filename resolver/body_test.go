package resolver_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/trafficguard-go/trafficguard/resolver"
)

// source is a body that counts.
type source struct {
	io.Reader
	read, closed int
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.read += n
	return n, err
}

func (s *source) Close() error {
	s.closed++
	return errors.New("closed")
}

// reading is a JSON request whose body is r, announced as length.
func reading(r io.Reader, length int64) (*exchange, *source) {
	x, src := object("x"), &source{Reader: r}
	x.req.Body, x.req.ContentLength = src, length
	return x, src
}

const sample = `{"userId":"u1","x":"é","n":9007199254740993}`

func TestBodyIsReplayed(t *testing.T) {
	t.Parallel()
	r := resolver.BodyField("userId")
	readers := map[string]func(io.Reader) io.Reader{
		"at once":            func(r io.Reader) io.Reader { return r },
		"byte by byte":       iotest.OneByteReader,
		"with the end early": iotest.DataErrReader,
	}
	for name, wrap := range readers {
		for _, length := range []int64{int64(len(sample)), -1} {
			t.Run(fmt.Sprint(name, length), func(t *testing.T) {
				t.Parallel()
				x, src := reading(wrap(strings.NewReader(sample)), length)
				if got := answer(r, x); got != "body:userId=u1" {
					t.Fatalf("got %s", got)
				}
				if x.req.ContentLength != length {
					t.Errorf("ContentLength is %d, was %d", x.req.ContentLength, length)
				}
				if err := iotest.TestReader(x.req.Body, []byte(sample)); err != nil {
					t.Error(err)
				}
				if err := x.req.Body.Close(); err == nil || err.Error() != "closed" || src.closed != 1 {
					t.Errorf("Close returned %v, the original was closed %d times", err, src.closed)
				}
			})
		}
	}
}

func TestBodyIsReadOnceForAll(t *testing.T) {
	t.Parallel()
	x, src := reading(strings.NewReader(sample), -1)
	all := []struct {
		r    resolver.Func
		want string
	}{
		{resolver.BodyField("userId"), "body:userId=u1"},
		{resolver.BodyField("n"), "body:n=9007199254740993"},
		{resolver.BodyField("x", resolver.MaxBody(10_000)), "body:x=é"},
		{resolver.BodyField("x", resolver.MaxBody(10)), "413"},
		{resolver.FormField("x"), "415"},
		{resolver.BodyField("x"), "body:x=é"},
	}
	body := x.req.Body
	for i, c := range all {
		if got := answer(c.r, x); got != c.want {
			t.Errorf("resolver %d: got %s, want %s", i+1, got, c.want)
		}
		if i > 0 && x.req.Body != body {
			t.Errorf("resolver %d has wrapped the body again", i+1)
		}
		body = x.req.Body
	}
	if src.read != len(sample) {
		t.Errorf("%d bytes were read, the body has %d", src.read, len(sample))
	}
	if got, _ := io.ReadAll(x.req.Body); string(got) != sample {
		t.Errorf("the handler gets %q", got)
	}
}

// A smaller limit that has refused must not spoil the body for a larger one, nor for the handler.
func TestBodyLimits(t *testing.T) {
	t.Parallel()
	exact, below := resolver.MaxBody(int64(len(sample))), resolver.MaxBody(int64(len(sample))-1)
	for _, length := range []int64{int64(len(sample)), -1} {
		x, src := reading(strings.NewReader(sample), length)
		if got := answer(resolver.BodyField("userId", below), x); got != "413" {
			t.Errorf("length %d: one byte above the limit gives %s", length, got)
		}
		if length > 0 && src.read > 0 {
			t.Errorf("an announced length was refused after reading %d bytes", src.read)
		}
		if got := answer(resolver.BodyField("userId", resolver.MaxBody(3)), x); got != "413" {
			t.Errorf("length %d: far above the limit gives %s", length, got)
		}
		if got := answer(resolver.BodyField("userId", exact), x); got != "body:userId=u1" {
			t.Errorf("length %d: exactly the limit gives %s", length, got)
		}
		if got, err := io.ReadAll(x.req.Body); string(got) != sample || err != nil {
			t.Errorf("length %d: the handler gets %q, %v", length, got, err)
		}
	}
}

func TestBodyAboveTheLimitCanBeDrained(t *testing.T) {
	t.Parallel()
	x, src := reading(strings.NewReader(sample), -1)
	if got := answer(resolver.BodyField("userId", resolver.MaxBody(10)), x); got != "413" {
		t.Fatalf("got %s", got)
	}
	if src.read > 11 {
		t.Errorf("%d bytes were read for a limit of 10", src.read)
	}
	if got, err := io.ReadAll(x.req.Body); string(got) != sample || err != nil {
		t.Errorf("the rest is lost: %q, %v", got, err)
	}
}

// A length costs nothing to announce: it must not be believed for memory.
func TestBodyAnnouncedLength(t *testing.T) {
	t.Parallel()
	r := resolver.BodyField("userId", resolver.MaxBody(1<<29))
	largest := 0
	probe := readerFunc(func(p []byte) (int, error) {
		largest = max(largest, len(p))
		return 0, io.ErrUnexpectedEOF
	})
	for _, length := range []int64{1 << 29, 1 << 20, -1} {
		x, _ := reading(probe, length)
		if got := answer(r, x); got != "400" {
			t.Errorf("got %s", got)
		}
	}
	if largest > 64<<10 {
		t.Errorf("a buffer of %d bytes was made for a body that did not come", largest)
	}
	for _, length := range []int64{1, 0, 10} { // other middleware may have put a longer body in place
		x, _ := reading(strings.NewReader(sample), length)
		if got := answer(r, x); got != "body:userId=u1" {
			t.Errorf("announced %d: got %s", length, got)
		}
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestBodyGrows(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 1023, 1024, 1025, 64 << 10, 300_000, 1 << 20} {
		for _, announce := range []bool{true, false} {
			body := `{"userId":"u1","pad":"` + strings.Repeat("p", size) + `"}`
			length := int64(-1)
			if announce {
				length = int64(len(body))
			}
			x, _ := reading(iotest.HalfReader(strings.NewReader(body)), length)
			if got := answer(resolver.BodyField("userId", resolver.MaxBody(2<<20)), x); got != "body:userId=u1" {
				t.Errorf("size %d: got %s", size, got)
			}
			if got, _ := io.ReadAll(x.req.Body); string(got) != body {
				t.Errorf("size %d: the handler gets %d bytes of %d", size, len(got), len(body))
			}
		}
	}
}

func TestBodyErrorsAreReplayed(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset by peer")
	for _, c := range []struct {
		err  error
		want string
	}{
		{broken, "400"}, {io.ErrUnexpectedEOF, "400"}, {&http.MaxBytesError{Limit: 20}, "413"}, {http.ErrBodyReadAfterClose, "503"},
	} {
		x, _ := reading(io.MultiReader(strings.NewReader(`{"userId":1}`), iotest.ErrReader(c.err)), -1)
		r := resolver.BodyField("userId")
		for range 2 {
			if got := answer(r, x); got != c.want {
				t.Errorf("%v: got %s, want %s", c.err, got, c.want)
			}
		}
		if f := fault(t, r, x); c.want != "503" && !errors.Is(f, c.err) {
			t.Errorf("the cause is %v, want %v", f.Cause, c.err)
		}
		if got, err := io.ReadAll(x.req.Body); string(got) != `{"userId":1}` || !errors.Is(err, c.err) {
			t.Errorf("%v: the handler gets %q and %v", c.err, got, err)
		}
	}
}

func TestBodyOfMaxBytesReader(t *testing.T) {
	t.Parallel()
	x := chunked(jsonType, sample)
	x.req.Body = http.MaxBytesReader(httptest.NewRecorder(), x.req.Body, 20)
	if got := answer(resolver.BodyField("userId"), x); got != "413" {
		t.Errorf("got %s", got)
	}
}

// Nothing to read is not nobody: silence would lift the limit.
func TestBodyThatIsGone(t *testing.T) {
	t.Parallel()
	r := resolver.BodyField("userId")
	read := object(sample)
	_, _ = io.Copy(io.Discard, read.req.Body)
	replaced := object(sample)
	replaced.req.Body = http.NoBody
	replayed := chunked(jsonType, sample)
	answer(r, replayed)
	_, _ = io.ReadFull(replayed.req.Body, make([]byte, 1))
	closed := object(sample)
	answer(r, closed)
	_ = closed.req.Body.Close()
	check(t, r, []rule{
		{"read before the guard", read, "503"},
		{"replaced by no body", replaced, "503"},
		{"read between two guards", replayed, "503"},
		{"closed between two guards", closed, "503"},
	})
	f := fault(t, r, read)
	if strings.Contains(f.Detail, "body") || f.Cause == nil || !strings.Contains(f.Cause.Error(), "not put back") {
		t.Errorf("the client is told %q, the application %v", f.Detail, f.Cause)
	}
	if _, err := closed.req.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("reading a closed body gives %v", err)
	}
}

// Middleware that reads the body and puts it back, between two guards, does no harm.
func TestBodyPutBack(t *testing.T) {
	t.Parallel()
	x, r := object(sample), resolver.BodyField("userId")
	for range 3 {
		if got := answer(r, x); got != "body:userId=u1" {
			t.Errorf("got %s", got)
		}
		b, _ := io.ReadAll(x.req.Body)
		x.req.Body = io.NopCloser(bytes.NewReader(b))
	}
}

// The whole way: what a client sends, with a length and chunked, is what a handler behind the resolver reads, and a
// connection whose request was refused goes on to serve the next one.
func TestBodyOverAConnection(t *testing.T) {
	t.Parallel()
	field := resolver.BodyField("userId", resolver.MaxBody(100))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		length := r.ContentLength
		if got := answer(field, &exchange{req: r}); got != "body:userId=u1" || r.ContentLength != length {
			http.Error(w, got, http.StatusBadRequest)
			return
		}
		_, _ = fmt.Fprintf(w, "%d ", length)
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	replies := bufio.NewReader(conn)
	for _, c := range []struct{ request, want string }{
		{"Content-Length: 45\r\n\r\n" + sample, "45 " + sample},
		{"Transfer-Encoding: chunked\r\n\r\n2d\r\n" + sample + "\r\n0\r\n\r\n", "-1 " + sample},
		{"Content-Length: 2\r\n\r\n{}", "absent\n"},
		{"Content-Length: 0\r\n\r\n", "absent\n"},
		{"Transfer-Encoding: chunked\r\n\r\nc8\r\n" + strings.Repeat(" ", 200) + "\r\n0\r\n\r\n", "413\n"},
		{"Content-Length: 45\r\n\r\n" + sample, "45 " + sample},
	} {
		_, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s", c.request)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(replies, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		if string(got) != c.want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, c.want)
		}
	}
}

// A reverse proxy closes a body while it is being read; the race detector watches.
func TestBodyClosedWhileRead(t *testing.T) {
	t.Parallel()
	x, r := object(sample), resolver.BodyField("userId")
	answer(r, x)
	done := make(chan error)
	go func() {
		_, err := io.Copy(io.Discard, iotest.OneByteReader(x.req.Body))
		done <- err
	}()
	_ = x.req.Body.Close()
	if err := <-done; err != nil && !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Error(err)
	}
}
