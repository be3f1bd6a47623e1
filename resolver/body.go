package resolver

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
)

// A BodyOption changes how [BodyField] and [FormField] read a body.
type BodyOption func(*bodyConfig)

type bodyConfig struct {
	max    int64
	types  []string
	faults []error
}

// MaxBody sets how many bytes of body are read and held in memory, from 1 to 1 GiB. The default is 1 MiB. A longer
// body is answered with 413, without reading it if its length is announced. It is no limit for routes without
// such a resolver: see [http.MaxBytesReader] for that.
func MaxBody(n int64) BodyOption {
	return func(c *bodyConfig) {
		if n < 1 || n > 1<<30 {
			c.faults = append(c.faults, fmt.Errorf("MaxBody %d is not between 1 and 1 GiB", n))
		}
		c.max = n
	}
}

// ContentTypes adds media types that [BodyField] takes for JSON besides application/json, "application/vnd.api+json" for
// instance. Each is one exact spelling, in lower case and without parameters. It may be given more than once.
//
// It is safe only where the handler decodes the body as JSON whatever its type: with json.Decoder, or Gin's
// ShouldBindJSON. Gin's Bind and ShouldBind read such a request from its query string instead, under the names of
// the struct's form tags or of its Go fields, and the client then has another identity than the one that counts.
func ContentTypes(types ...string) BodyOption {
	return func(c *bodyConfig) {
		for _, t := range types {
			switch mediaType, params, err := mime.ParseMediaType(t); {
			case err != nil || mediaType != t || len(params) > 0 || !strings.Contains(t, "/"):
				c.faults = append(c.faults, fmt.Errorf("ContentTypes: %q is no media type in lower case", t))
			case t == formType || strings.HasPrefix(t, "multipart/"):
				c.faults = append(c.faults, fmt.Errorf("ContentTypes: %s is a form", t))
			}
			c.types = append(c.types, t)
		}
	}
}

func bodyOptions(opts []BodyOption) *bodyConfig {
	c := &bodyConfig{max: 1 << 20}
	for i, o := range opts {
		if o == nil {
			c.faults = append(c.faults, fmt.Errorf("option %d is nil", i+1))
			continue
		}
		o(c)
	}
	return c
}

// errConsumed is the cause where there is nothing left to read.
var errConsumed = errors.New("resolver: the body was read before the guard ran, and not put back")

// readBody returns the whole body of r, which must not be changed, and leaves r.Body as though it had not been read.
// A body is read once, however often and with whatever limit this is called.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLarge(limit, nil)
	}
	if r.Body == nil || r.Body == http.NoBody {
		if r.ContentLength > 0 {
			return nil, misapplied(errConsumed)
		}
		return nil, nil
	}
	b, ok := r.Body.(*replay)
	if !ok {
		b = &replay{src: r.Body}
		r.Body = b
	}
	if b.begun || b.closed.Load() {
		return nil, misapplied(errConsumed)
	}
	b.fill(int(limit), int(r.ContentLength))
	return b.whole(limit, r.ContentLength)
}

func tooLarge(limit int64, cause error) *Fault {
	return &Fault{
		Status: http.StatusRequestEntityTooLarge,
		Detail: fmt.Sprintf("the body is larger than the %d bytes that are accepted", limit),
		Cause:  cause,
	}
}

// A replay is a body whose beginning has been read. It gives that out again, then the rest. Like the body of
// net/http it may be closed while it is being read: a reverse proxy does that.
type replay struct {
	src    io.ReadCloser
	buf    []byte // read from src, not yet given out
	err    error  // what ended src; nil while there may be more
	begun  bool   // giving out has begun
	closed atomic.Bool
}

// Read implements io.Reader.
func (b *replay) Read(p []byte) (int, error) {
	b.begun = true
	switch {
	case b.closed.Load():
		return 0, http.ErrBodyReadAfterClose
	case len(b.buf) > 0:
		n := copy(p, b.buf)
		if b.buf = b.buf[n:]; len(b.buf) == 0 {
			b.buf = nil // a handler may run for hours
		}
		return n, nil
	case b.err != nil:
		return 0, b.err
	default:
		return b.src.Read(p)
	}
}

// Close implements io.Closer.
func (b *replay) Close() error {
	b.closed.Store(true)
	return b.src.Close()
}

// Sizes of the first buffer. An announced length is believed up to a point: sending it costs nothing.
const (
	firstUnknown = 1 << 10
	firstMost    = 64 << 10
)

// fill reads until the body ends or more than limit bytes are there. announced is the length that the client
// promised, -1 if none.
func (b *replay) fill(limit, announced int) {
	for b.err == nil && len(b.buf) <= limit {
		if len(b.buf) == cap(b.buf) {
			b.grow(limit+1, announced)
		}
		var n int
		n, b.err = b.src.Read(b.buf[len(b.buf):cap(b.buf)])
		b.buf = b.buf[:len(b.buf)+n]
	}
}

// grow makes room for at least one byte more, up to most bytes in all. One byte above the announced length is
// room for the reading that finds the end.
func (b *replay) grow(most, announced int) {
	size := max(2*cap(b.buf), firstUnknown)
	if announced > 0 && cap(b.buf) == 0 {
		size = firstMost
	}
	if announced > 0 && announced >= cap(b.buf) {
		size = min(size, announced+1)
	}
	grown := make([]byte, len(b.buf), min(size, most))
	copy(grown, b.buf)
	b.buf = grown
}

// whole returns what fill has read if it is the whole body.
func (b *replay) whole(limit, announced int64) ([]byte, error) {
	switch {
	case int64(len(b.buf)) > limit:
		return nil, tooLarge(limit, nil)
	case b.err != io.EOF: //nolint:errorlint // readers return io.EOF itself at the end; a wrapped one is a failure
		return nil, unreadable(b.err)
	case len(b.buf) == 0 && announced > 0:
		return nil, misapplied(errConsumed)
	default:
		return b.buf, nil
	}
}

// unreadable returns the fault of a body whose reading failed with err.
func unreadable(err error) *Fault {
	if capped, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(capped.Limit, err)
	}
	if errors.Is(err, http.ErrBodyReadAfterClose) {
		return misapplied(errConsumed)
	}
	return &Fault{Status: http.StatusBadRequest, Detail: "the body could not be read to its end", Cause: err}
}

// contentType returns the Content-Type of a body that is not encoded, "" if there is none. It is as it came, spaces
// included: HTTP/2 does not strip them, and Gin does not either.
func contentType(h http.Header) (string, error) {
	for _, coding := range h["Content-Encoding"] {
		if coding != "" && !strings.EqualFold(strings.Trim(coding, " \t"), "identity") {
			return "", &Fault{
				Status: http.StatusUnsupportedMediaType,
				Detail: "the body cannot be read: send it without Content-Encoding",
			}
		}
	}
	switch lines := h["Content-Type"]; len(lines) {
	case 0:
		return "", nil
	case 1:
		return lines[0], nil
	default:
		return "", invalid("the header Content-Type is given more than once")
	}
}

// unsupported returns the fault of a body whose Content-Type is not the one that is wanted.
func unsupported(want string) *Fault {
	return &Fault{
		Status: http.StatusUnsupportedMediaType,
		Detail: "the body cannot be read: send Content-Type: " + want,
	}
}

// parseType returns the media type of a Content-Type in lower case. It reports false if that is malformed or names a
// charset other than UTF-8.
func parseType(line string) (mediaType string, ok bool) {
	mediaType, params, err := mime.ParseMediaType(line)
	if err != nil {
		return "", false
	}
	charset, given := params["charset"]
	return mediaType, !given || strings.EqualFold(charset, "utf-8")
}
