package guard_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/quick"
	"time"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/guard/guardtest"
)

func TestStatusOfEachCode(t *testing.T) {
	t.Parallel()
	for code, want := range map[guard.Code]int{
		guard.RateLimitExceeded: 429, guard.ConcurrencyLimitHit: 429, guard.CostExceedsLimit: 429, guard.Overloaded: 503,
		guard.ClientUnidentified: 401, guard.InvalidRequest: 400, guard.GuardUnavailable: 503,
		guard.ClientClosedRequest: 499, guard.RequestDeadlinePassed: 503, "closed": 403, "": 403,
	} {
		rej := &guard.Rejection{Code: code}
		if got := rej.StatusCode(); got != want {
			t.Errorf("%q has the status %d, not %d", code, got, want)
		}
		var body struct {
			Type, Title string
			Status      int
			Code        guard.Code
		}
		if err := json.Unmarshal(rej.Problem(), &body); err != nil {
			t.Fatal(err)
		}
		if body.Status != want || body.Code != code || body.Title == "" || body.Type == "" {
			t.Errorf("%q has the problem document %s", code, rej.Problem())
		}
	}
	if got := (&guard.Rejection{Code: guard.ConcurrencyLimitHit, Status: 503}).StatusCode(); got != 503 {
		t.Errorf("a status of one's own is %d, not 503", got)
	}
}

func TestRejectionIsAnErrorForLogsOnly(t *testing.T) {
	t.Parallel()
	cause := errors.New("dial tcp 10.0.0.3:6379: connection refused")
	rej := &guard.Rejection{Code: guard.GuardUnavailable, Policy: "api", Cause: cause}
	if want := `refused: guard_unavailable by policy "api": ` + cause.Error(); rej.Error() != want || !errors.Is(rej, cause) {
		t.Errorf("the error is %q", rej)
	}
	if got := (&guard.Rejection{Code: guard.Overloaded}).Error(); got != "refused: overloaded" {
		t.Errorf("the error is %q", got)
	}
	if got, want := string(rej.Problem()), `{"type":"about:blank","title":"The service is temporarily unavailable","status":503,"code":"guard_unavailable"}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestProblemUsesOwnTitleAndDetail(t *testing.T) {
	t.Parallel()
	rej := &guard.Rejection{Code: "closed", Title: "Closed", Detail: `Come back at "nine" <sharp>`}
	want := `{"type":"about:blank","title":"Closed","status":403,"detail":"Come back at \"nine\" \u003csharp\u003e","code":"closed"}`
	if got := string(rej.Problem()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// answer returns the headers of a refusal with rej.
func answer(rej guard.Rejection, q guard.Quota) http.Header {
	x := guardtest.NewExchange(httptest.NewRequest(http.MethodGet, "/", nil))
	_ = x.Serve(chain(&guardtest.Spy{Name: "api", Decision: guard.Decision{Rejection: &rej, Quota: q}}), nil)
	return x.Response.Result().Header
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rej  guard.Rejection
		want string
	}{
		{guard.Rejection{Code: guard.RateLimitExceeded, Wait: time.Nanosecond}, "1"},
		{guard.Rejection{Code: guard.RateLimitExceeded, Wait: time.Second + 1}, "2"},
		{guard.Rejection{Code: guard.RateLimitExceeded, Wait: 2 * time.Second}, "2"},
		{guard.Rejection{Code: guard.RateLimitExceeded, Wait: guard.Never, Spread: time.Hour}, ""},
		{guard.Rejection{Code: guard.GuardUnavailable}, "1"},
		{guard.Rejection{Code: guard.ClientUnidentified}, ""},
		{guard.Rejection{Code: guard.ClientClosedRequest}, ""},
		{guard.Rejection{Code: "closed"}, ""},
		{guard.Rejection{Code: "closed", Wait: time.Minute}, "60"},
	} {
		if got := answer(c.rej, guard.Quota{}).Get("Retry-After"); got != c.want {
			t.Errorf("%s after %s: Retry-After is %q, not %q", c.rej.Code, c.rej.Wait, got, c.want)
		}
	}
}

func TestRetryAfterIsNeverTooShort(t *testing.T) {
	t.Parallel()
	promise := func(wait, spread uint32) bool {
		rej := guard.Rejection{
			Code: guard.Overloaded, Wait: time.Duration(wait) * time.Microsecond, Spread: time.Duration(spread) * time.Microsecond,
		}
		s, err := strconv.ParseInt(answer(rej, guard.Quota{}).Get("Retry-After"), 10, 64)
		told := time.Duration(s) * time.Second
		return err == nil && s >= 1 && told >= rej.Wait && told < max(rej.Wait+rej.Spread+time.Second, time.Second+1)
	}
	if err := quick.Check(promise, nil); err != nil {
		t.Error(err)
	}
}

func TestSpreadSpreads(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		seen[answer(guard.Rejection{Code: guard.Overloaded, Wait: time.Second, Spread: 4 * time.Second}, guard.Quota{}).Get("Retry-After")] = true
	}
	for _, want := range []string{"2", "3", "4", "5"} {
		if !seen[want] {
			t.Errorf("of 1000 clients none was asked to come back after %s s: %v", want, seen)
		}
	}
}

func TestQuotaWhereWaitingDoesNotHelp(t *testing.T) {
	t.Parallel()
	q := guard.Quota{Format: guard.IETF, Limit: 10, Remaining: 9, Window: time.Minute, Reset: 6 * time.Second}
	h := answer(guard.Rejection{Code: guard.CostExceedsLimit, Wait: guard.Never}, q)
	if got := h.Get("RateLimit"); got != `"api";r=9;t=6` || h.Get("Retry-After") != "" {
		t.Errorf("RateLimit is %s, Retry-After %q", got, h.Get("Retry-After"))
	}
}
