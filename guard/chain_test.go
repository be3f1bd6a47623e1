package guard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/guard/guardtest"
)

// The rules that can be seen through an adapter are tested there, for all of them, by guardtest.TestAdapter.
// Here are the ones that only the caller of Do sees.

func exchange() *guardtest.Exchange {
	x := guardtest.NewExchange(httptest.NewRequest(http.MethodGet, "/posts/7", nil))
	x.Matched.Pattern = "/posts/:id"
	return x
}

func chain(policies ...guard.GuardPolicy) *guard.Chain {
	return new(guard.TrafficGuard).Chain(policies...)
}

// refuses returns a policy that refuses every request, as overloaded.
func refuses() *guardtest.Spy {
	return &guardtest.Spy{Name: "refuses", Decision: guard.Decision{Rejection: &guard.Rejection{Code: guard.Overloaded}}}
}

func recovered(f func()) (fault any) {
	defer func() { fault = recover() }()
	f()
	return nil
}

func TestDoReturnsWhatNextReturns(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	for _, want := range []error{nil, failed, fmt.Errorf("wrapped: %w", &guard.Rejection{Code: "inner"})} {
		spy := &guardtest.Spy{}
		rej, err := chain(spy).Do(exchange(), func() (int, error) { return 418, want })
		if rej != nil || err != want { //nolint:errorlint // the very same error
			t.Errorf("Do returned %v, %v, want nil, %v", rej, err, want)
		}
		var inner *guard.Rejection
		got, ran := spy.Outcomes()[0], !errors.As(want, &inner)
		if got != (guard.Outcome{Ran: ran, Status: 418, Err: want}) {
			t.Errorf("next returned 418, %v; the outcome is %+v", want, got)
		}
	}
}

func TestDoRejectsIffNextWasNotCalled(t *testing.T) {
	t.Parallel()
	called := false
	rej, err := chain(refuses()).Do(exchange(), func() (int, error) { called = true; return 0, nil })
	if rej == nil || err != nil || called {
		t.Errorf("Do returned %v, %v; next was called: %t", rej, err, called)
	}
	if rej.Policy != "refuses" || rej.Code != guard.Overloaded {
		t.Errorf("the rejection is %+v", rej)
	}
}

func TestAfterGetsTheDecisionOfItsOwnBefore(t *testing.T) {
	t.Parallel()
	var got []int
	var policies []guard.GuardPolicy
	for i := range 11 { // three more than fit on the stack
		state := &i
		policies = append(policies, &guardtest.Spy{
			Decision: guard.Decision{State: state, Quota: guard.Quota{Limit: int64(i)}},
			OnAfter: func(_ context.Context, _ guard.Exchange, d guard.Decision, _ guard.Outcome) error {
				if d.State != any(state) || d.Quota.Limit != int64(i) {
					t.Errorf("After of policy %d got the decision %+v", i, d)
				}
				got = append(got, i)
				return nil
			},
		})
	}
	_, _ = chain(policies...).Do(exchange(), func() (int, error) { return 0, nil })
	if want := []int{10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("After ran in the order %v, want %v", got, want)
	}
}

func TestEveryAfterRunsThoughSeveralPanic(t *testing.T) {
	t.Parallel()
	var policies []guard.GuardPolicy
	var spies []*guardtest.Spy
	for i := range 4 {
		s := &guardtest.Spy{OnAfter: func(context.Context, guard.Exchange, guard.Decision, guard.Outcome) error { panic(i) }}
		spies, policies = append(spies, s), append(policies, s)
	}
	fault := recovered(func() {
		_, _ = chain(policies...).Do(exchange(), func() (int, error) { panic("handler") })
	})
	if fault != 0 { // the last panic is the outermost policy's
		t.Errorf("recovered %v", fault)
	}
	for i, s := range spies {
		if n := len(s.Outcomes()); n != 1 {
			t.Errorf("After of policy %d ran %d times", i, n)
		}
	}
}

func TestGoexitInBeforeAndAfter(t *testing.T) {
	t.Parallel()
	exits := &guardtest.Spy{OnBefore: func(context.Context, guard.Exchange) (guard.Decision, error) {
		runtime.Goexit()
		return guard.Decision{}, nil
	}}
	leaves := &guardtest.Spy{OnAfter: func(context.Context, guard.Exchange, guard.Decision, guard.Outcome) error {
		runtime.Goexit()
		return nil
	}}
	for _, p := range []guard.GuardPolicy{exits, leaves} {
		outer := &guardtest.Spy{}
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = chain(outer, p).Do(exchange(), func() (int, error) { return 0, nil }) })
		wg.Wait()
		if n := len(outer.Outcomes()); n != 1 {
			t.Errorf("After of the policy outside ran %d times", n)
		}
	}
}

func TestContextIsRestored(t *testing.T) {
	t.Parallel()
	type key struct{}
	sets := &guardtest.Spy{OnBefore: func(ctx context.Context, x guard.Exchange) (guard.Decision, error) {
		x.SetContext(context.WithValue(ctx, key{}, "set"))
		return guard.Decision{}, nil
	}}
	panics := &guardtest.Spy{OnBefore: func(context.Context, guard.Exchange) (guard.Decision, error) { panic("oops") }}
	for name, c := range map[string]struct {
		inner guard.GuardPolicy
		next  func() (int, error)
	}{
		"admitted":        {guard.FailOpen(&guardtest.Spy{}), func() (int, error) { return 0, nil }},
		"handler panics":  {guard.FailOpen(&guardtest.Spy{}), func() (int, error) { panic("oops") }},
		"refused":         {refuses(), nil},
		"policy panics":   {panics, nil},
		"inner rejection": {&guardtest.Spy{}, func() (int, error) { return 0, &guard.Rejection{} }},
	} {
		x := exchange()
		was := x.Request().Context()
		_ = recovered(func() { _, _ = chain(sets, c.inner).Do(x, c.next) })
		if x.Request().Context() != was {
			t.Errorf("%s: the old context is not back", name)
		}
	}
}

func TestRequestStaysWhereNobodySetsAContext(t *testing.T) {
	t.Parallel()
	x := exchange()
	was := x.Request()
	_, _ = chain(&guardtest.Spy{Needs: guard.RequireBudget}).Do(x, func() (int, error) { return 0, nil })
	if x.Request() != was {
		t.Error("the request was replaced though no policy set a context")
	}
}

func TestRequires(t *testing.T) {
	t.Parallel()
	c := chain(
		&guardtest.Spy{Needs: guard.RequireStatus}, guard.FailClosed(&guardtest.Spy{Needs: guard.RequireLatency}), &guardtest.Spy{},
	)
	if got, want := c.Requires(), guard.RequireStatus|guard.RequireLatency; got != want {
		t.Errorf("Requires is %b, want %b", got, want)
	}
}

func TestLatencyIsTheHandlersOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := &guardtest.Spy{OnBefore: func(context.Context, guard.Exchange) (guard.Decision, error) {
			time.Sleep(time.Second)
			return guard.Decision{}, nil
		}}
		spy := &guardtest.Spy{Needs: guard.RequireLatency}
		_, _ = chain(slow, spy).Do(exchange(), func() (int, error) { time.Sleep(3 * time.Second); return 0, nil })
		if got := spy.Outcomes()[0].Latency; got != 3*time.Second {
			t.Errorf("the latency is %s, want 3s", got)
		}
	})
}

func TestBudgetIsSharedByThoseThatNeedIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var left []time.Duration
		remote := func(takes time.Duration) *guardtest.Spy {
			return &guardtest.Spy{Needs: guard.RequireBudget, OnBefore: func(ctx context.Context, _ guard.Exchange) (guard.Decision, error) {
				time.Sleep(time.Second) // reading a slow client's body, say: that is not spent
				ctx, done := guard.WithinBudget(ctx)
				defer done()
				until, _ := ctx.Deadline()
				left = append(left, time.Until(until))
				time.Sleep(takes)
				return guard.Decision{}, ctx.Err()
			}}
		}
		queue := &guardtest.Spy{OnBefore: func(ctx context.Context, _ guard.Exchange) (guard.Decision, error) {
			if _, limited := ctx.Deadline(); limited {
				t.Error("a wait in this process has a deadline")
			}
			time.Sleep(time.Second)
			return guard.Decision{}, nil
		}}
		tg := &guard.TrafficGuard{Observe: func(context.Context, guard.Event) {}}
		c := tg.Chain(remote(30*time.Millisecond), queue, remote(50*time.Millisecond), remote(40*time.Millisecond), remote(0))
		start := time.Now()
		rej, _ := c.Do(exchange(), func() (int, error) { return 0, nil })
		want := []time.Duration{100 * time.Millisecond, 70 * time.Millisecond, 20 * time.Millisecond, -20 * time.Millisecond}
		if rej != nil || !slices.Equal(left, want) {
			t.Errorf("the policies had %v left, want %v; the chain said %v", left, want, rej)
		}
		if took := time.Since(start); took != 5120*time.Millisecond {
			t.Errorf("the chain took %s", took)
		}
	})
}

func TestBudgetEndsWithTheAnswer(t *testing.T) {
	t.Parallel()
	var budget context.Context
	spy := &guardtest.Spy{Needs: guard.RequireBudget, OnBefore: func(ctx context.Context, _ guard.Exchange) (guard.Decision, error) {
		var done func()
		budget, done = guard.WithinBudget(ctx)
		done()
		return guard.Decision{}, nil
	}}
	tg := &guard.TrafficGuard{Budget: time.Hour}
	_, _ = tg.Chain(spy).Do(exchange(), func() (int, error) {
		if !errors.Is(budget.Err(), context.Canceled) {
			t.Errorf("while the handler runs, the budget's timer runs too: %v", budget.Err())
		}
		return 0, nil
	})
	if budget == nil {
		t.Error("the policy did not run")
	}
}

func TestBudgetCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	spy := &guardtest.Spy{Needs: guard.RequireBudget, OnBefore: func(ctx context.Context, _ guard.Exchange) (guard.Decision, error) {
		ctx, done := guard.WithinBudget(ctx)
		defer done()
		if _, limited := ctx.Deadline(); limited {
			t.Error("there is a deadline")
		}
		return guard.Decision{}, nil
	}}
	tg := &guard.TrafficGuard{Budget: -1}
	_, _ = tg.Chain(spy).Do(exchange(), func() (int, error) { return 0, nil })
	if len(spy.Outcomes()) != 1 {
		t.Error("the policy did not run")
	}
}

func TestChainCopiesItsPolicies(t *testing.T) {
	t.Parallel()
	list := []guard.GuardPolicy{&guardtest.Spy{}}
	c := chain(list...)
	list[0] = refuses()
	if rej, _ := c.Do(exchange(), func() (int, error) { return 0, nil }); rej != nil {
		t.Errorf("a policy that was put into the slice later refused: %v", rej)
	}
}

func TestNilTrafficGuard(t *testing.T) {
	t.Parallel()
	var tg *guard.TrafficGuard
	x := exchange()
	if rej := x.Serve(tg.Chain(refuses()), nil); rej == nil || x.Response.Code != 503 {
		t.Errorf("the rejection is %v, the response %d", rej, x.Response.Code)
	}
}

func TestChainNamesEveryFault(t *testing.T) {
	t.Parallel()
	var missing *guardtest.Spy
	got := recovered(func() {
		chain(
			&guardtest.Spy{Name: "twice"}, nil, missing, guard.FailOpen(nil), guard.FailClosed(guard.FailOpen(missing)),
			&guardtest.Spy{Name: "a\"b"}, &guardtest.Spy{Name: strings.Repeat("x", 65)}, &guardtest.Spy{Name: "twice"},
		)
	})
	want := `guard: policy 2: the policy is nil
policy 3: the policy is a nil pointer
policy 4: the policy is nil
policy 5: the policy is a nil pointer
policy 6: name "a\"b": a policy's name is printable ASCII without quotes and backslashes
policy 7: name "` + strings.Repeat("x", 65) + `": a policy's name has 1 to 64 bytes
policy 8: another policy already has the name "twice"`
	if got != want {
		t.Errorf("got\n%v\nwant\n%s", got, want)
	}
}

func TestAnswerAfterAnInformationalResponse(t *testing.T) {
	t.Parallel()
	tg := &guard.TrafficGuard{Answer: func(w http.ResponseWriter, _ *http.Request, _ *guard.Rejection) {
		w.WriteHeader(http.StatusEarlyHints)
	}}
	rec := httptest.NewRecorder()
	chain := tg.Chain()
	chain.Answer(rec, exchange().Incoming, &guard.Rejection{Code: guard.Overloaded})
	if !strings.Contains(rec.Body.String(), `"overloaded"`) {
		t.Errorf("after early hints the answer is %q", rec.Body)
	}
}

func TestAnswerCanUseAResponseController(t *testing.T) {
	t.Parallel()
	var flushed error
	tg := &guard.TrafficGuard{Answer: func(w http.ResponseWriter, _ *http.Request, _ *guard.Rejection) {
		_, _ = w.Write([]byte("wait"))
		flushed = http.NewResponseController(w).Flush()
	}}
	rec := httptest.NewRecorder()
	tg.Chain().Answer(rec, exchange().Incoming, &guard.Rejection{Code: guard.Overloaded})
	if flushed != nil || !rec.Flushed || rec.Code != 503 || rec.Body.String() != "wait" {
		t.Errorf("flush: %v; the response is %d %q", flushed, rec.Code, rec.Body)
	}
}

var handlerThatDoesNothing = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

func observe(events *[]guard.Event) func(context.Context, guard.Event) {
	return func(_ context.Context, e guard.Event) { *events = append(*events, e) }
}
