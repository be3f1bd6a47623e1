package resolver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/resolver"
)

// exchange is a guard.Exchange without a framework.
type exchange struct {
	req    *http.Request
	values map[string]any
	params map[string]string
}

func (x *exchange) Request() *http.Request         { return x.req }
func (x *exchange) ResponseHeader() http.Header    { return nil }
func (x *exchange) Route() guard.Route             { return guard.Route{Method: x.req.Method, Pattern: "/"} }
func (x *exchange) PathParam(name string) string   { return x.params[name] }
func (x *exchange) Value(key string) any           { return x.values[key] }
func (x *exchange) SetContext(ctx context.Context) { x.req = x.req.WithContext(ctx) }
func get(target string) *exchange                  { return &exchange{req: httptest.NewRequest("GET", target, nil)} }
func with(name string, lines ...string) *exchange  { return get("/").with(name, lines...) }
func storing(key string, v any) *exchange          { x := get("/"); x.values = map[string]any{key: v}; return x }
func (x *exchange) with(name string, lines ...string) *exchange {
	if lines != nil {
		x.req.Header[name] = lines
	}
	return x
}

// post has a known length; chunked has none.
func post(contentType, body string) *exchange {
	x := &exchange{req: httptest.NewRequest("POST", "/", strings.NewReader(body))}
	if contentType != "" {
		x.req.Header.Set("Content-Type", contentType)
	}
	return x
}

func chunked(contentType, body string) *exchange {
	x := post(contentType, body)
	x.req.Body = io.NopCloser(onlyReader{strings.NewReader(body)})
	x.req.ContentLength = -1
	return x
}

type onlyReader struct{ io.Reader }

// What a resolver answers, in one word: the subject as "kind=value", "absent", "exempt", or a fault's status.
func answer(r resolver.Func, x guard.Exchange) string {
	s, err := r(x)
	var f *resolver.Fault
	switch {
	case errors.As(err, &f):
		if s != (resolver.Subject{}) {
			return fmt.Sprintf("%d with the subject %+v", f.Status, s)
		}
		return fmt.Sprint(f.Status)
	case err != nil:
		return "error: " + err.Error()
	case s.IsExempt():
		return "exempt"
	case s.IsAbsent():
		return "absent"
	default:
		return s.Kind + "=" + s.Value
	}
}

// rule is a line of a table: why is the rule that a wrong answer breaks.
type rule struct {
	why  string
	x    *exchange
	want string
}

func check(t *testing.T, r resolver.Func, rules []rule) {
	t.Helper()
	for _, c := range rules {
		t.Run(c.why, func(t *testing.T) {
			if got := answer(r, c.x); got != c.want {
				t.Errorf("got %q, want %q: %s", got, c.want, c.why)
			}
		})
	}
}

// fault returns the Fault that r must find.
func fault(t *testing.T, r resolver.Func, x guard.Exchange) *resolver.Fault {
	t.Helper()
	_, err := r(x)
	var f *resolver.Fault
	if !errors.As(err, &f) {
		t.Fatalf("got %v, want a Fault", err)
	}
	return f
}

// panics checks that build panics and that the message has all of parts.
func panics(t *testing.T, build func(), parts ...string) {
	t.Helper()
	defer func() {
		t.Helper()
		message := fmt.Sprint(recover())
		for _, part := range append(parts, "resolver: ") {
			if !strings.Contains(message, part) {
				t.Errorf("panic is %q, want %q in it", message, part)
			}
		}
	}()
	build()
}

func constant(kind, value string) resolver.Func {
	return func(guard.Exchange) (resolver.Subject, error) {
		return resolver.Subject{Kind: kind, Value: value}, nil
	}
}

func fails(err error) resolver.Func {
	return func(guard.Exchange) (resolver.Subject, error) { return resolver.Subject{Kind: "rest", Value: "x"}, err }
}

func absent(guard.Exchange) (resolver.Subject, error) { return resolver.Subject{}, nil }
func exempt(guard.Exchange) (resolver.Subject, error) { return resolver.Exempt, nil }
