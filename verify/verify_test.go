package main

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trafficguard-go/trafficguard/limit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// begin is the origin of canned times.
var begin = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func at(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }

// canned returns n shots with one status, sent at a millisecond and answered 10 ms later.
func canned(n, status, ms int, headers ...string) shots {
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return slices.Repeat(shots{{by: "gin", sent: at(ms), got: at(ms + 10), status: status, header: h}}, n)
}

func TestAllowances(t *testing.T) {
	t.Parallel()
	q := quota{50, 5 * time.Second} // one in 100 ms
	for _, tc := range []struct {
		name        string
		allows      allowance
		ms          int
		least, most int
	}{
		{"bucket, at once", bucket, 0, 50, 50},
		{"bucket, just before a token", bucket, 99, 50, 50},
		{"bucket, with a token", bucket, 100, 51, 51},
		{"bucket, twice the period", bucket, 10_000, 150, 150},
		{"lenient", lenient, 1000, 50, 60},
	} {
		if least, most := tc.allows(q, begin, at(tc.ms)); least != tc.least || most != tc.most {
			t.Errorf("%s: %d..%d, want %d..%d", tc.name, least, most, tc.least, tc.most)
		}
	}
}

func TestCountsAreJudgedByTheTimeTheyTook(t *testing.T) {
	t.Parallel()
	q := quota{50, 5 * time.Second}
	degraded := canned(1, 200, 0, degradedHeader, "1")
	for _, tc := range []struct {
		name    string
		got     shots
		numbers string
		fault   string
		tooMany bool
	}{
		{name: "exact", got: append(canned(50, 200, 0), canned(25, 429, 5)...), numbers: "50"},
		{name: "one too many", got: append(canned(51, 200, 0), canned(25, 429, 5)...), fault: "51 were admitted, at most 50 may be", tooMany: true},
		{name: "one too few", got: append(canned(49, 200, 0), canned(25, 429, 5)...), fault: "49 were admitted, at least 50 must be"},
		// From the first answer at 10 ms to the last refusal, sent at 1005: nine tokens. From 0 to 1015: ten.
		{name: "refill, least", got: append(canned(59, 200, 0), canned(25, 429, 1005)...), numbers: "59 in 59..60"},
		{name: "refill, most", got: append(canned(60, 200, 0), canned(25, 429, 1005)...), numbers: "60 in 59..60"},
		{name: "refill, too few", got: append(canned(58, 200, 0), canned(25, 429, 1005)...), fault: "58 were admitted, at least 59 must be"},
		{name: "refill, too many", got: append(canned(61, 200, 0), canned(25, 429, 1005)...), fault: "61 were admitted, at most 60 may be", tooMany: true},
		{name: "no answer", got: append(canned(50, 200, 0), canned(1, 0, 0)...), fault: "1 of 51 requests got neither 200 nor 429"},
		{name: "undecided", got: append(canned(49, 200, 0), degraded...), fault: "1 of 50 requests passed undecided"},
	} {
		v := judgeCount(bucket, q, tc.got)
		if v.fault != tc.fault || v.over != tc.tooMany || tc.fault == "" && v.numbers != tc.numbers {
			t.Errorf("%s: %+v, want %q, fault %q", tc.name, v, tc.numbers, tc.fault)
		}
	}
}

func TestRoundsAreWrongTogetherIfOneIs(t *testing.T) {
	t.Parallel()
	if v := together([]verdict{judgeNumber(100, 100, 100), judgeNumber(100, 100, 100)}); v != (verdict{numbers: "2x 100"}) {
		t.Errorf("%+v", v)
	}
	v := together([]verdict{judgeNumber(100, 100, 100), judgeNumber(101, 100, 100), judgeNumber(102, 100, 100)})
	if v.numbers != "100 101 102" || v.fault != "101 were admitted, at most 100 may be (2 of 3 rounds)" || !v.over {
		t.Errorf("%+v", v)
	}
}

func TestRemainingMustNotRise(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		remaining []int
		fault     string
	}{
		{[]int{4, 3, 2, 1, 0}, ""},
		{[]int{4, 3, 3, 1, 0}, ""}, // something grew again
		{[]int{4, 3, 4, 1, 0}, "Remaining rose from 3 to 4 at request 3"},
		{[]int{4, 3, 2, 1}, "the quota is spent and 1 remain"},
		{[]int{4, -1, 0}, "answer 2 does not tell what remains"},
	} {
		var got shots
		for _, n := range tc.remaining {
			said := strconv.Itoa(n)
			if n < 0 {
				said = "many"
			}
			got = append(got, canned(1, 200, 0, "RateLimit-Remaining", said)...)
		}
		if v := judgeDescending(got); v.fault != tc.fault {
			t.Errorf("%v: fault %q, want %q", tc.remaining, v.fault, tc.fault)
		}
	}
}

func TestHeadersMustAgreeWithTheState(t *testing.T) {
	t.Parallel()
	q := quota{100, time.Hour}
	admitted := func(of, remaining string) shot {
		return canned(1, 200, 0, "RateLimit-Limit", of, "RateLimit-Remaining", remaining)[0]
	}
	refused := func(after, remaining string) shot {
		return canned(1, 429, 0, "Retry-After", after, "RateLimit-Remaining", remaining)[0]
	}
	next := func(remaining int64) limit.Verdict { return limit.Verdict{OK: true, Remaining: remaining} }
	empty := limit.Verdict{Wait: 35500 * time.Millisecond}
	for _, tc := range []struct {
		name string
		reading
		ok bool
	}{
		{"half spent", reading{admitted("100", "50"), 50, next(49)}, true},
		{"all spent", reading{admitted("100", "0"), 100, empty}, true},
		{"refused", reading{refused("36", "0"), 100, empty}, true},
		{"another limit", reading{admitted("99", "50"), 50, next(49)}, false},
		{"header behind the count", reading{admitted("100", "51"), 50, next(50)}, false},
		{"state behind the header", reading{admitted("100", "50"), 50, next(50)}, false},
		{"state refuses, header does not", reading{admitted("100", "50"), 50, empty}, false},
		{"wait too short", reading{refused("35", "0"), 100, empty}, false},
		{"wait too long", reading{refused("38", "0"), 100, empty}, false},
		{"refused with a rest", reading{refused("36", "1"), 100, empty}, false},
	} {
		if fault := judgeReading(q, tc.reading); (fault == "") != tc.ok {
			t.Errorf("%s: fault %q, want ok %t", tc.name, fault, tc.ok)
		}
	}
}

func TestComebacks(t *testing.T) {
	t.Parallel()
	good := comeback{
		first:   canned(1, 200, 0)[0],
		refused: canned(1, 429, 20, "Retry-After", "3")[0],
		early:   canned(1, 429, 1520)[0],
		due:     canned(1, 200, 3030)[0],
	}
	early, due, slow, unlimited := good, good, good, good
	early.early.status, due.due.status, unlimited.refused.status = 200, 429, 200
	slow.early.status, slow.early.got = 200, at(2021) // it may have been decided 2 s after the refusal, where the wait may end
	for _, tc := range []struct {
		name  string
		all   []comeback
		fault string // a part of it
	}{
		{"as told", []comeback{good, good, good}, ""},
		{"one early request delayed", []comeback{good, good, slow}, ""},
		{"most delayed", []comeback{good, slow, slow}, "2 of 3 early requests were held up"},
		{"admitted early", []comeback{good, early, good}, "user 2: admitted 1.5 s before"},
		{"refused when due", []comeback{good, good, due}, "user 3: refused exactly after"},
		{"never refused", []comeback{unlimited}, "user 1: of two requests at once"},
	} {
		v := judgeComebacks(tc.all)
		if !strings.Contains(v.fault, tc.fault) || (v.fault == "") != (tc.fault == "") {
			t.Errorf("%s: fault %q, want %q", tc.name, v.fault, tc.fault)
		}
	}
}

func TestOutagesAreJudgedWithoutTheDegradedPasses(t *testing.T) {
	t.Parallel()
	q := quota{100, time.Hour}
	// Half is spent until 500 ms, when the server dies. It is back at 1000 ms.
	story := func(before, between, after, undecided int, enforcedAt int) shots {
		got := slices.Concat(canned(before, 200, 100), canned(between, 200, 450), canned(after, 200, 1500),
			canned(undecided, 200, 600, degradedHeader, "1"))
		for _, by := range frameworks {
			refusal := canned(1, 429, enforcedAt)[0]
			refusal.by = by
			got = append(got, refusal)
		}
		return got
	}
	kept := outage{struck: at(500), mended: at(1000)}
	unsure := outage{struck: at(500), mended: at(1000), unsure: 100 * time.Millisecond}
	inFlight := func(got shots) shots { return append(got, canned(2, 200, 495, degradedHeader, "1")...) }
	lone := story(50, 0, 50, 7, 2000)
	for _, tc := range []struct {
		name    string
		outage  outage
		got     shots
		numbers string
		fault   string // a part of it
	}{
		{"the limit and no more", kept, story(50, 0, 50, 7, 2000), "100 +7, 1.0 s", ""},
		{"one too many", kept, story(50, 0, 51, 7, 2000), "", "101 were admitted, at most 100"},
		{"one too few", kept, story(50, 0, 49, 7, 2000), "", "99 were admitted, at least 100"},
		{"two charged without an answer", kept, inFlight(story(50, 0, 48, 7, 2000)), "98 in 98..100 +9, 1.0 s", ""},
		{"last charges forgotten", unsure, story(40, 10, 60, 7, 2000), "110 in 100..110 +7, 1.0 s", ""},
		{"more forgotten than is unsure", unsure, story(40, 10, 61, 7, 2000), "", "111 were admitted, at most 110"},
		{"not felt", kept, story(50, 0, 50, 0, 2000), "", "not felt"},
		{"enforced late", kept, story(50, 0, 50, 7, 6500), "", "5s after the server's return"},
		{"never enforced in one process", kept, lone[:len(lone)-1], "", "5s after the server's return"},
		{"no answer", kept, append(canned(1, 0, 600), story(50, 0, 50, 7, 2000)...), "", "neither 200 nor 429"},
	} {
		v := judgeOutage(bucket, q, tc.outage, tc.got)
		if !strings.Contains(v.fault, tc.fault) || (v.fault == "") != (tc.fault == "") || tc.fault == "" && v.numbers != tc.numbers {
			t.Errorf("%s: %+v, want %q, fault %q", tc.name, v, tc.numbers, tc.fault)
		}
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	var sorted []time.Duration
	for i := range 100 {
		sorted = append(sorted, time.Duration(i+1))
	}
	if quantile(nil, 0.99) != 0 || quantile(sorted, 0.99) != 100 || quantile(sorted, 0.5) != 51 || quantile(sorted, 1) != 100 {
		t.Errorf("%d %d %d", quantile(sorted, 0.99), quantile(sorted, 0.5), quantile(sorted, 1))
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	vs := []variant{
		{title: "good\nalgorithm"},
		{title: "a control", wrong: newProcessMap, caughtBy: []string{"a"}},
	}
	first, second := scenario{key: "a", title: "first", judged: "how a\nis judged"}, scenario{key: "b", title: "second"}
	over, off := judgeNumber(300, 100, 100), verdict{fault: "3 of 300 requests got neither 200 nor 429"}
	for _, tc := range []struct {
		name  string
		cells [2][2]verdict
		wrong int
		texts []string
	}{
		{"verified", [2][2]verdict{{judgeNumber(100, 100, 100), over}, {{info: true, numbers: "9/s"}, {skipped: true}}}, 0,
			[]string{"PASS 100", "CAUGHT 300", "9/s", "VERIFIED: all 1 checks of TrafficGuard hold, and all 1 faults"}},
		{"a limit that does not hold", [2][2]verdict{{over, over}, {over, over}}, 2,
			[]string{"FAIL 300", "fails 300", "1 first, good algorithm: 300 were admitted, at most 100 may be", "NOT VERIFIED: 2 of 3"}},
		{"a control that is not caught", [2][2]verdict{{judgeNumber(100, 100, 100), judgeNumber(100, 100, 100)}, {{skipped: true}, judgeNumber(100, 100, 100)}}, 1,
			[]string{"MISSED 100", "holds 100", "1 first, a control: what is wrong with it was not seen", "NOT VERIFIED: 1 of 2"}},
		{"a control that is not caught in the act", [2][2]verdict{{judgeNumber(100, 100, 100), off}, {{skipped: true}, {skipped: true}}}, 1,
			[]string{"MISSED", "what is wrong with it was not seen: 3 of 300 requests"}},
	} {
		r := report{variants: vs, rows: []row{{first, tc.cells[0][:]}, {second, tc.cells[1][:]}}}
		text := r.String() + r.summary()
		if r.wrong() != tc.wrong {
			t.Errorf("%s: %d cells are wrong, want %d", tc.name, r.wrong(), tc.wrong)
		}
		for _, part := range tc.texts {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q is missing from\n%s", tc.name, part, text)
			}
		}
	}
}

// TestControlsAreMeantForScenariosThatRun keeps a control from being caught by nothing.
func TestControlsAreMeantForScenariosThatRun(t *testing.T) {
	t.Parallel()
	keys := map[string]scenario{}
	for _, s := range scenarios(true) {
		keys[s.key] = s
	}
	for _, v := range variants() {
		if v.ours() == (len(v.caughtBy) > 0) || v.ours() != (v.limit != nil) {
			t.Errorf("%s: a control, and only a control, is caught; all others have a limit", v.key)
		}
		for _, key := range v.caughtBy {
			if s, ok := keys[key]; !ok || !s.fits(v) {
				t.Errorf("%s: no scenario %q of -quick runs it", v.key, key)
			}
		}
	}
}

// A program is the built program in a process group of its own, with a temporary directory of its own, so that
// whatever it leaves behind is seen.
type program struct {
	t        *testing.T
	cmd      *exec.Cmd
	cancel   context.CancelFunc
	temp     string
	out      strings.Builder // what it found out
	progress *bufio.Scanner  // how it gets on
	said     strings.Builder // what of that was read
}

func startProgram(t *testing.T, args ...string) *program {
	t.Helper()
	dir, err := os.MkdirTemp("", "v") //nolint:usetesting // the path of t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	binary, temp := filepath.Join(dir, "verify"), filepath.Join(dir, "t")
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	p := &program{t: t, cmd: exec.CommandContext(ctx, binary, args...), cancel: cancel, temp: temp}
	p.cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stdout = &p.out
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.progress = bufio.NewScanner(stderr)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// read reads what the program says of its progress, up to a line that begins with prefix.
func (p *program) read(prefix string) bool {
	for p.progress.Scan() {
		p.said.WriteString(p.progress.Text() + "\n")
		if prefix != "" && strings.HasPrefix(p.progress.Text(), prefix) {
			return true
		}
	}
	return false
}

// end waits for the end, wants a status, and nothing left behind.
func (p *program) end(status int) {
	p.t.Helper()
	defer p.cancel()
	p.read("")
	_ = p.cmd.Wait() // the status is looked at below
	if got := p.cmd.ProcessState.ExitCode(); got != status {
		p.t.Errorf("exit status %d, want %d\n%s\n%s", got, status, p.out.String(), p.said.String())
	}
	if err := syscall.Kill(-p.cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		p.t.Errorf("processes are left behind: %v", err)
	}
	left, err := os.ReadDir(p.temp)
	if err != nil || len(left) > 0 {
		p.t.Errorf("files are left behind: %v, %v", left, err)
	}
}

// TestProgram runs the whole thing, reduced.
func TestProgram(t *testing.T) {
	t.Parallel()
	p := startProgram(t, "-quick")
	p.end(held)
	text := p.out.String()
	for _, part := range []string{"\nVERIFIED: ", "\nTRAFFICGUARD\n", "\nWRONG ON PURPOSE", " PASS 4x 100 ", " CAUGHT 4x 300 "} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing from the output", part)
		}
	}
	planted := 0
	for _, v := range variants() {
		planted += len(v.caughtBy)
	}
	if n := strings.Count(text, "CAUGHT ") - 1; n != planted { // one is in the title
		t.Errorf("%d faults are caught, want %d", n, planted)
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestInterrupt stops it as Ctrl-C in a terminal does, which is sent to all processes of the group.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	p := startProgram(t)
	if !p.read(" 5/") {
		t.Error("the program does not say how it gets on")
	}
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Error(err)
	}
	p.end(notRun)
	if !strings.Contains(p.said.String(), "interrupted") || p.out.Len() > 0 {
		t.Errorf("interrupted, it says\n%s\n%s", p.said.String(), p.out.String())
	}
}
