package resolver_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/trafficguard-go/trafficguard/resolver"
)

const formType = "application/x-www-form-urlencoded"

func (x *exchange) method(m string) *exchange {
	x.req.Method = m
	return x
}

func (x *exchange) query(raw string) *exchange {
	x.req.URL.RawQuery = raw
	return x
}

func TestFormField(t *testing.T) {
	t.Parallel()
	const multipart = "multipart/form-data; boundary=b"
	form := func(body string) *exchange { return post(formType, body) }
	check(t, resolver.FormField("user"), []rule{
		{"alone", form("user=u1"), "form:user=u1"},
		{"among others, escaped", form("a=1&us%65r=u+1"), "form:user=u 1"},
		{"PUT", form("user=u1").method("PUT"), "form:user=u1"},
		{"PATCH", form("user=u1").method("PATCH"), "form:user=u1"},
		{"no length announced", chunked(formType, "user=u1"), "form:user=u1"},
		{"a charset, UTF-8", post(formType+";charset=UTF-8", "user=u1"), "form:user=u1"},
		{"the media type in another case", post("Application/X-WWW-Form-Urlencoded", "user=u1"), "form:user=u1"},
		{"net/http reads no form from DELETE", form("user=u1").method("DELETE"), "absent"},
		{"but a multipart form", post(multipart, "--b--").method("DELETE"), "415"},
		{"from GET too", post(multipart, "--b--").method("GET"), "415"},
		{"an empty body with DELETE", post(multipart, "").method("DELETE"), "absent"},
		{"GET", get("/"), "absent"},
		{"missing", form("a=1"), "absent"},
		{"blank", form("user=+"), "absent"},
		{"an empty body of whatever type", post("text/plain", ""), "absent"},
		{"other parameters in the query string", form("user=u1").query("a=1"), "form:user=u1"},
		{"given in the query string too", form("user=u1").query("user=u1"), "400"},
		{"given only in the query string, which FormValue reads", form("").query("user=u1"), "400"},
		{"the same for GET", get("/?user=u1"), "400"},
		{"in the query string in another case", form("user=u1").query("User=u1"), "400"},
		{"a malformed query string", form("user=u1").query("%"), "400"},
		{"twice", form("user=u1&user=u2"), "400"},
		{"another case", form("User=u1"), "400"},
		{"long s", form("u%C5%BFer=u1"), "400"},
		{"malformed", form("user=u1&a=%"), "400"},
		{"a semicolon", form("user=u1;b=1"), "400"},
		{"invalid UTF-8", form("user=%ff"), "400"},
		{"two content types", form("user=u1").with("Content-Type", formType, formType), "400"},
		{"multipart", post(multipart, "--b--"), "415"},
		{"JSON", post("application/json", `{"user":"u1"}`), "415"},
		{"no content type: net/http reads no form", post("", "user=u1"), "415"},
		{"a charset other than UTF-8", post(formType+"; charset=latin1", "user=u1"), "415"},
		{"encoded", form("user=u1").with("Content-Encoding", "gzip"), "415"},
		{"larger than the default", form("user=" + strings.Repeat("u", 1<<20)), "413"},
	})
	check(t, resolver.FormField("user", resolver.MaxBody(7)), []rule{
		{"as large as the option allows", form("user=u1"), "form:user=u1"},
		{"larger than the option allows", form("user=u12"), "413"},
	})
}

// What middleware before the guard has parsed is what the handler will read; the body is gone by then.
func TestFormFieldAfterAnotherHasParsed(t *testing.T) {
	t.Parallel()
	parsed := func(contentType, body string) *exchange {
		x := post(contentType, body)
		_ = x.req.ParseMultipartForm(1 << 20) // as Gin and Echo do, faults ignored
		return x
	}
	const part = "--b\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\nu1\r\n--b--\r\n"
	check(t, resolver.FormField("user"), []rule{
		{"one", parsed(formType, "user=u1&a=2"), "form:user=u1"},
		{"missing", parsed(formType, "a=2"), "absent"},
		{"nothing that could be parsed", parsed(formType, "%zz"), "absent"},
		{"twice", parsed(formType, "user=u1&user=u2"), "400"},
		{"another case", parsed(formType, "USER=u1"), "400"},
		{"long s", parsed(formType, "u%C5%BFer=u1"), "400"},
		{"with DELETE net/http has parsed nothing", parsed(formType, "").method("DELETE"), "absent"},
		{"multipart", parsed("multipart/form-data; boundary=b", part), "415"},
		{"no form", parsed("application/json", `{"user":"u1"}`), "415"},
	})
}

func TestFormFieldRefusesAtConstruction(t *testing.T) {
	t.Parallel()
	panics(t, func() { resolver.FormField("", resolver.MaxBody(0), nil, resolver.ContentTypes("text/json")) },
		"name is empty", "MaxBody 0", "option 2 is nil", "ContentTypes is for BodyField")
}

// A subject is what FormValue reads in the handler.
func FuzzFormField(f *testing.F) {
	for _, s := range [][2]string{{"", "user=u1"}, {"user=1", ""}, {"a=1", "user=%41&b"}, {"", "User=1&user=2"}, {"", "user=1;2"}} {
		f.Add(s[0], s[1])
	}
	r := resolver.FormField("user")
	f.Fuzz(func(t *testing.T, query, body string) {
		x := post(formType, body).query(query)
		s, err := r(x)
		if err != nil {
			return
		}
		again, _ := io.ReadAll(x.req.Body)
		if string(again) != body {
			t.Fatalf("the handler gets %q of %q", again, body)
		}
		fresh := &http.Request{Method: "POST", URL: &url.URL{RawQuery: query}, Header: x.req.Header, Body: io.NopCloser(strings.NewReader(body))}
		got := fresh.FormValue("user")
		if s.IsAbsent() && strings.TrimSpace(got) != "" || !s.IsAbsent() && s.Value != got {
			t.Fatalf("query %q, body %q: the handler reads %q, the resolver %+v", query, body, got, s)
		}
	})
}

func TestFormFieldLeavesTheBody(t *testing.T) {
	t.Parallel()
	form := resolver.FormField("user")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, answer(form, &exchange{req: r})+" "+r.FormValue("user")+r.FormValue("a"))
	}))
	defer server.Close()
	res, err := http.PostForm(server.URL, url.Values{"user": {"ü 1"}, "a": {"2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if got, _ := io.ReadAll(res.Body); string(got) != "form:user=ü 1 ü 12" {
		t.Errorf("got %q", got)
	}
}
