package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/trafficguard-go/trafficguard/internal/redistest"
	"github.com/trafficguard-go/trafficguard/limit"
	"github.com/trafficguard-go/trafficguard/store"
)

// mustRefuse opens what cannot work and returns the error. A machine may be too busy for the server to be reached in the half
// second that Open gives it.
func mustRefuse(t *testing.T, url string) error {
	t.Helper()
	var refusal error
	await(t, "Open to refuse "+url, func() error {
		s, err := Open(url, "test", Timeout(patient), Logger(slog.New(slog.DiscardHandler)))
		if err == nil {
			_ = s.Close()
			return errors.New("it succeeded")
		}
		refusal = err
		return nil
	})
	mustBe(t, refusal, store.ErrMisconfigured)
	return refusal
}

func TestOpenReportsWhatTheServerRefuses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "right")
	at := server.Addr()
	cli := func(args ...string) {
		if out := server.CLI(append([]string{"-a", "right", "--no-auth-warning"}, args...)...); out != "OK" {
			t.Fatalf("%v: %s", args, out)
		}
	}
	cli("acl", "setuser", "stranger", "on", ">pw", "~other:*", "+@all")
	cli("acl", "setuser", "reader", "on", ">pw", "~test:*", "+@read", "+evalsha", "+eval", "+time")
	cli("acl", "setuser", "mute", "on", ">pw", "~test:*", "+get", "+set", "+del", "+time")
	cli("acl", "setuser", "enough", "on", ">pw", "~test:*", "+evalsha", "+eval", "+script|load", "+time", "+get", "+set", "+del")

	_ = mustRefuse(t, "redis://"+at)
	if err := mustRefuse(t, "redis://:wr0ng@"+at); strings.Contains(err.Error(), "wr0ng") {
		t.Errorf("the error tells the password: %v", err)
	}
	_ = mustRefuse(t, "redis://:right@"+at+"/99")
	_ = mustRefuse(t, "redis://stranger:pw@"+at)
	_ = mustRefuse(t, "redis://reader:pw@"+at)
	_ = mustRefuse(t, "redis://mute:pw@"+at)

	s := open(t, "redis://enough:pw@"+at)
	r := request(t, "a", limit.PerHour(3))
	g := take(t, s, r)
	if err := s.Settle(context.Background(), g.Receipt(r), 0); err != nil {
		t.Errorf("Settle: %v", err)
	}
	if got := takeUntilRefused(t, s, r); got != 3 {
		t.Errorf("%d passed, want 3", got)
	}
	if err := s.Reset(context.Background(), r.Key); err != nil {
		t.Errorf("Reset: %v", err)
	}
}

// TestWrongPasswordStaysLoud: a password that changes under a running program is not mistaken for an outage.
func TestWrongPasswordStaysLoud(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "old")
	logged := new(record)
	s := open(t, "redis://:old@"+server.Addr(), logged.logger())
	r := request(t, "a", limit.PerHour(100))
	take(t, s, r)
	server.CLI("-a", "old", "--no-auth-warning", "config", "set", "requirepass", "new")
	server.CLI("-a", "new", "--no-auth-warning", "client", "kill", "type", "normal")
	await(t, "the refusal", func() error { // the dead connection first
		_, err := s.Take(context.Background(), r)
		if logged.count("misconfigured") == 0 {
			return err
		}
		return nil
	})
	for range 4 * tripAfter {
		_, err := s.Take(context.Background(), r)
		mustBe(t, err, store.ErrMisconfigured)
	}
	if got := logged.count("level=ERROR"); got != 1 {
		t.Errorf("logged %d times:\n%s", got, logged.text.String())
	}
}

func TestOpenReportsFaultsOfArguments(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		url  string
		want string
	}{
		{"localhost:6379", "must begin with"},
		{"http://localhost", "must begin with"},
		{"redis+magic://localhost", "must begin with"},
		{"unix+cluster:///tmp/s", "must begin with"},
		{"redis://localhost/x", "database"},
		{"redis://:s3cret@localhost:port/0", "cannot be read"},
		{"redis://user:s3c/ret@localhost/0", "cannot be read"},
		{"redis://localhost?max_retries=3", "max_retries=3"},
		{"redis+cluster://localhost?max_redirects=3&max_retries=2", "max_redirects=3"},
		{"redis+cluster://localhost/3", "database"},
		{"redis://h1:1,h2:2/3", "database"},
		{"redis+sentinel://localhost", "master_name"},
		{"redis+sentinel://localhost?master_name=m&replica_only=true", "replica_only"},
		{"redis+sentinel://localhost?master_name=m&max_retries=1", "max_retries=1"},
		{"redis://localhost?no_such_option=1", "no_such_option"},
	} {
		err := mustRefuse(t, tc.url)
		if !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want it to say %q", tc.url, err, tc.want)
		}
		if strings.Contains(err.Error(), "s3c") {
			t.Errorf("%s: the error tells the password: %v", tc.url, err)
		}
	}

	_, err := Open("http://x", "{", Timeout(0), Logger(nil), nil)
	for _, want := range []string{"must begin with", "namespace", "timeout", "logger", "option"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want all faults at once, %q among them", err, want)
		}
	}
	mustBe(t, err, store.ErrMisconfigured)
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][3]string{
		"redis://h":                                 {"redis://", "", "h"},
		"redis://u:p@h:1/2?a=b":                     {"redis://", "", "u:p@h:1/2?a=b"},
		"rediss+cluster://u:p@h:1,i:2":              {"rediss://", "cluster", "u:p@h:1?addr=i%3A2"},
		"redis://h:1,i:2,j:3/0?a=b":                 {"redis://", "cluster", "h:1/0?a=b&addr=i%3A2&addr=j%3A3"},
		"redis://h:1?addr=i:2":                      {"redis://", "cluster", "h:1?addr=i:2"},
		"redis+sentinel://h:1,i:2/3?master_name=m":  {"redis://", "sentinel", "h:1/3?master_name=m&addr=i%3A2"},
		"redis+sentinel://h:1?master_name=m&addr=x": {"redis://", "sentinel", "h:1?master_name=m&addr=x"},
		"redis://u:p@q@h:1":                         {"redis://", "", "u:p@q@h:1"},
		"unix://u:p@/tmp/a,b?db=1":                  {"unix://", "", "u:p@/tmp/a,b?db=1"},
	} {
		scheme, kind, rest, err := split(url)
		if got := [3]string{scheme, kind, rest}; err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", url, got, err, want)
		}
	}
}

func TestOpenBySocket(t *testing.T) {
	t.Parallel()
	s := open(t, "unix://"+shared.Socket()+"?db=1")
	if got := takeUntilRefused(t, s, request(t, "a", limit.PerDay(3))); got != 3 {
		t.Errorf("%d passed, want 3", got)
	}
}

// TestDatabasesAreApart: the number in the URL counts.
func TestDatabasesAreApart(t *testing.T) {
	t.Parallel()
	r := request(t, "a", limit.PerDay(3))
	for _, url := range []string{"redis://" + shared.Addr() + "/2", "redis://" + shared.Addr() + "/3"} {
		if got := takeUntilRefused(t, open(t, url), r); got != 3 {
			t.Errorf("%s: %d passed, want 3", url, got)
		}
	}
}

func TestNewRefusesUnsafeClients(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		client redis.UniversalClient
		want   []string
	}{
		"default":      {redis.NewClient(&redis.Options{}), []string{"MaxRetries is 3", "ContextTimeoutEnabled"}},
		"no deadlines": {redis.NewClient(&redis.Options{MaxRetries: -1}), []string{"ContextTimeoutEnabled"}},
		"retries":      {redis.NewClient(&redis.Options{ContextTimeoutEnabled: true, MaxRetries: 1}), []string{"MaxRetries is 1"}},
		"default cluster": {redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}),
			[]string{"MaxRedirects is 3", "ContextTimeoutEnabled"}},
		"cluster that repeats": {redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, MaxRetries: 2, MaxRedirects: -1, ContextTimeoutEnabled: true}),
			[]string{"MaxRetries is 2"}},
		"default sentinel": {redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}}),
			[]string{"MaxRetries is 3", "ContextTimeoutEnabled"}},
		"ring":        {redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}}), []string{"*redis.Ring"}},
		"nil":         {nil, []string{"nil"}},
		"nil client":  {(*redis.Client)(nil), []string{"nil"}},
		"nil cluster": {(*redis.ClusterClient)(nil), []string{"nil"}},
	} {
		_, err := New(tc.client, "test")
		mustBe(t, err, store.ErrMisconfigured)
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want it to say %q", name, err, want)
			}
		}
		if !strings.HasPrefix(name, "nil") {
			_ = tc.client.Close()
		}
	}
}

func TestNewLeavesTheClientOpen(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: shared.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	defer func() { _ = client.Close() }()
	s, err := New(client, "test", Timeout(patient))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(context.Background()); err != nil {
		t.Errorf("Ping: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := client.Ping(context.Background()).Err(); err != nil {
		t.Errorf("the caller's client is closed: %v", err)
	}
}

func TestClosedStore(t *testing.T) {
	t.Parallel()
	s, err := Open(shared.URL(), "test", Timeout(time.Second), Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = s.Take(context.Background(), request(t, "a", limit.PerDay(3)))
	mustBe(t, err, store.ErrUnavailable)
}
