package guardtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/trafficguard-go/trafficguard/guard"
)

// TestPolicy holds a policy to what [guard.GuardPolicy] asks of every policy. It calls newPolicy for each
// rule and expects a fresh policy each time, one that time plays no part in and whose limit is soon reached: five
// requests a day rather than five a second.
//
// The policy is shown one POST request with a JSON body, an identity in a header, in the path and on the
// framework's context. If it needs others to do its work, say so with exchanges.
func TestPolicy(t *testing.T, newPolicy func() guard.GuardPolicy, exchanges ...func() *Exchange) {
	t.Helper()
	if len(exchanges) == 0 {
		exchanges = []func() *Exchange{anExchange}
	}
	for _, rule := range policyRules {
		t.Run(rule.name, func(t *testing.T) {
			explain(t, rule.text)
			for _, newExchange := range exchanges {
				rule.check(t, newPolicy, newExchange)
			}
		})
	}
}

// explain prints the rule beside the failures of t.
func explain(t *testing.T, rule string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("the rule: " + rule)
		}
	})
}

// aBody is the body of [anExchange].
const aBody = `{"userId": "7"}`

func anExchange() *Exchange {
	r := httptest.NewRequest(http.MethodPost, "/users/7?user=7", strings.NewReader(aBody))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-User-Id", "7")
	x := NewExchange(r)
	x.Matched.Pattern = "/users/:id"
	x.Params["id"] = "7"
	x.Values["user_id"] = "7"
	return x
}

type policyRule struct {
	name, text string
	check      func(t *testing.T, newPolicy func() guard.GuardPolicy, newExchange func() *Exchange)
}

var policyRules = []policyRule{
	{
		"chain",
		"one policy value serves any number of chains: its name can be used in headers and does not change",
		checkChain,
	},
	{
		"supports",
		"Supports has no side effects: it changes neither the exchange nor what Before decides",
		checkSupports,
	},
	{
		"request",
		"a policy may wrap the request's body, and must not change anything else in the request",
		checkRequest,
	},
	{
		"body",
		"every byte of the request's body reaches the handler, whatever the policy read of it",
		checkBody,
	},
	{
		"outcomes",
		"After copes with every outcome: a handler that failed, panicked, or was never reached",
		checkOutcomes,
	},
	{
		"ended context",
		"what After releases must not depend on its context: that is cancelled when the client hangs up",
		checkEndedContext,
	},
	{
		"exchange",
		"an Exchange is valid only while the hook that received it runs",
		checkExchange,
	},
	{
		"concurrency",
		"a policy is shared by all requests: its methods are safe for concurrent use",
		checkConcurrency,
	},
	{
		"refusal",
		"a refusal is a response of the 4xx or 5xx kind, and says nothing of what the client sent",
		checkRefusal,
	},
}

func checkChain(t *testing.T, newPolicy func() guard.GuardPolicy, _ func() *Exchange) {
	defer func() {
		if fault := recover(); fault != nil {
			t.Errorf("a chain cannot be built: %v", fault)
		}
	}()
	p, tg := newPolicy(), new(guard.TrafficGuard)
	tg.Chain(p)
	tg.Chain(p)
	tg.Chain(guard.FailClosed(p))
}

func checkSupports(t *testing.T, newPolicy func() guard.GuardPolicy, newExchange func() *Exchange) {
	asked, plain := newPolicy(), newPolicy()
	for i := range rounds {
		x := newExchange()
		before := snapshot(x)
		first := asked.Supports(x)
		for range 10 {
			if asked.Supports(x) != first {
				t.Fatal("Supports changed its mind about one exchange")
			}
		}
		before.compare(t, x)
		if len(x.Response.Header()) > 0 {
			t.Fatalf("Supports set response headers: %v", x.Response.Header())
		}
		if got, want := passage(asked, x, t.Context()), passage(plain, newExchange(), t.Context()); got != want {
			t.Fatalf("request %d: a policy that was asked Supports ten times over %s, another %s", i+1, got, want)
		}
	}
}

// rounds is how many requests a check sends one after the other.
const rounds = 50

// passage sends x through p alone and tells how it went. ended is the context of After.
func passage(p guard.GuardPolicy, x *Exchange, ended context.Context) string { //nolint:revive // the context is one of two
	if !p.Supports(x) {
		return "does not support it"
	}
	d, err := p.Before(x.Incoming.Context(), x)
	switch {
	case err != nil:
		return "could not decide"
	case d.Rejection != nil:
		return "refuses it"
	}
	if err := p.After(ended, x, d, guard.Outcome{Ran: true, Status: http.StatusOK}); err != nil {
		return fmt.Sprintf("admits it, and After fails: %v", err)
	}
	return "admits it"
}

// A picture is what a policy must leave as it is.
type picture struct {
	context context.Context //nolint:containedctx // only compared
	request http.Request
	header  http.Header
	url     string
}

func snapshot(x *Exchange) picture {
	return picture{x.Incoming.Context(), *x.Incoming, x.Incoming.Header.Clone(), x.Incoming.URL.String()}
}

func (was picture) compare(t *testing.T, x *Exchange) {
	t.Helper()
	now := snapshot(x)
	for _, c := range []struct {
		what     string
		was, now any
	}{
		{"method", was.request.Method, now.request.Method},
		{"URL", was.url, now.url},
		{"header", was.header, now.header},
		{"host", was.request.Host, now.request.Host},
		{"remote address", was.request.RemoteAddr, now.request.RemoteAddr},
		{"content length", was.request.ContentLength, now.request.ContentLength},
		{"transfer encoding", was.request.TransferEncoding, now.request.TransferEncoding},
		{"trailer", was.request.Trailer, now.request.Trailer},
		{"form", was.request.Form, now.request.Form},
		{"post form", was.request.PostForm, now.request.PostForm},
		{"multipart form", was.request.MultipartForm, now.request.MultipartForm},
		{"pattern", was.request.Pattern, now.request.Pattern},
	} {
		if !reflect.DeepEqual(c.was, c.now) {
			t.Errorf("the request's %s was %v and is now %v", c.what, c.was, c.now)
		}
	}
}

func checkRequest(t *testing.T, newPolicy func() guard.GuardPolicy, newExchange func() *Exchange) {
	p := newPolicy()
	for range rounds {
		x := newExchange()
		before, incoming := snapshot(x), x.Incoming
		passage(p, x, t.Context())
		before.compare(t, x)
		if x.Incoming == incoming && x.Incoming.Context() != before.context {
			t.Error("the request's context was changed without SetContext")
		}
	}
}

func checkBody(t *testing.T, newPolicy func() guard.GuardPolicy, newExchange func() *Exchange) {
	want, err := io.ReadAll(newExchange().Incoming.Body)
	if err != nil {
		t.Fatal(err)
	}
	p, x := newPolicy(), newExchange()
	if !p.Supports(x) {
		return
	}
	d, err := p.Before(t.Context(), x)
	if err != nil || d.Rejection != nil {
		return // there is no handler to read it
	}
	got, err := io.ReadAll(x.Incoming.Body)
	if err != nil || string(got) != string(want) {
		t.Errorf("the handler reads %q (%v), the client sent %q", got, err, want)
	}
	if err := x.Incoming.Body.Close(); err != nil {
		t.Errorf("closing the body fails: %v", err)
	}
	_ = p.After(t.Context(), x, d, guard.Outcome{Ran: true, Status: http.StatusOK})
}

func checkOutcomes(t *testing.T, newPolicy func() guard.GuardPolicy, newExchange func() *Exchange) {
	for _, o := range []guard.Outcome{
		{},
		{Ran: true},
		{Ran: true, Status: http.StatusOK},
		{Ran: true, Status: http.StatusInternalServerError, Err: errors.New("the handler failed")},
		{Ran: true, Panicked: true},
	} {
		p, x := newPolicy(), newExchange()
		if !p.Supports(x) {
			return
		}
		d, err := p.Before(t.Context(), x)
		if err != nil || d.Rejection != nil {
			return
		}
		func() {
			defer func() {
				if fault := recover(); fault != nil {
					t.Errorf("After panics on %+v: %v", o, fault)
				}
			}()
			if err := p.After(t.Context(), x, d, o); err != nil {
				t.Errorf("After fails on %+v: %v", o, err)
			}
		}()
	}
}

func checkEndedContext(t *testing.T, newPolicy func() guard.GuardPolicy, newExchange func() *Exchange) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	stayed, left := newPolicy(), newPolicy()
	for i := range rounds {
		want := passage(stayed, newExchange(), t.Context())
		if got := passage(left, newExchange(), ended); got != want {
			t.Fatalf("request %d: where clients hung up before, the policy %s; where they stayed, it %s", i+1, got, want)
		}
	}
}

// lease is an Exchange that notices that it is used after its time.
type lease struct {
	x    *Exchange
	over atomic.Bool
	late atomic.Bool
}

func (l *lease) get() *Exchange {
	if l.over.Load() {
		l.late.Store(true)
	}
	return l.x
}

func (l *lease) Request() *http.Request         { return l.get().Request() }
func (l *lease) ResponseHeader() http.Header    { return l.get().ResponseHeader() }
func (l *lease) Route() guard.Route             { return l.get().Route() }
func (l *lease) PathParam(name string) string   { return l.get().PathParam(name) }
func (l *lease) Value(key string) any           { return l.get().Value(key) }
func (l *lease) SetContext(ctx context.Context) { l.get().SetContext(ctx) }

func checkExchange(t *testing.T, newPolicy func() guard.GuardPolicy, newExchange func() *Exchange) {
	p := newPolicy()
	var leases []*lease
	give := func(x *Exchange, hook func(guard.Exchange)) {
		l := &lease{x: x}
		leases = append(leases, l)
		hook(l)
		l.over.Store(true)
	}
	for range rounds {
		x := newExchange()
		var d guard.Decision
		var err error
		supports := false
		give(x, func(x guard.Exchange) { supports = p.Supports(x) })
		if !supports {
			continue
		}
		give(x, func(x guard.Exchange) { d, err = p.Before(t.Context(), x) })
		if err != nil || d.Rejection != nil {
			continue
		}
		give(x, func(x guard.Exchange) { _ = p.After(t.Context(), x, d, guard.Outcome{Ran: true}) })
	}
	runtime.Gosched() // to let a goroutine that the policy started show itself
	for _, l := range leases {
		if l.late.Load() {
			t.Fatal("the policy used an Exchange after the hook that received it had returned")
		}
	}
}

func checkConcurrency(t *testing.T, newPolicy func() guard.GuardPolicy, newExchange func() *Exchange) {
	p := newPolicy()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range rounds {
				passage(p, newExchange(), t.Context())
			}
		})
	}
	wg.Wait()
}

// checkRefusal lets admitted requests wait, so that a limit on what runs at a time is reached too.
func checkRefusal(t *testing.T, newPolicy func() guard.GuardPolicy, newExchange func() *Exchange) {
	p := newPolicy()
	for range rounds {
		x := newExchange()
		if !p.Supports(x) {
			return
		}
		d, err := p.Before(t.Context(), x)
		switch {
		case err != nil:
		case d.Rejection != nil:
			checkRejection(t, x.Incoming, *d.Rejection)
		default:
			defer func() { _ = p.After(t.Context(), x, d, guard.Outcome{Ran: true}) }()
		}
	}
}

func checkRejection(t *testing.T, r *http.Request, rej guard.Rejection) {
	t.Helper()
	if s := rej.StatusCode(); s < 400 || s > 599 {
		t.Fatalf("the refusal has the status %d", s)
	}
	if rej.Code == "" {
		t.Fatal("the refusal has no code")
	}
	body := string(rej.Problem())
	for _, secret := range []string{r.RemoteAddr, r.Header.Get("Authorization")} {
		if secret != "" && strings.Contains(body, secret) {
			t.Fatalf("the body of the refusal repeats %q: %s", secret, body)
		}
	}
}
