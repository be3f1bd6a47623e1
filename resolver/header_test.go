package resolver_test

import (
	"strings"
	"testing"

	"github.com/trafficguard-go/trafficguard/resolver"
)

func TestHeader(t *testing.T) {
	t.Parallel()
	check(t, resolver.Header("x-user-id"), []rule{
		{"one line", with("X-User-Id", "u1"), "header:X-User-Id=u1"},
		{"surrounding spaces, which HTTP/2 keeps", with("X-User-Id", "\t u1 "), "header:X-User-Id=u1"},
		{"a comma does not make two", with("X-User-Id", "a, b"), "header:X-User-Id=a, b"},
		{"missing", get("/"), "absent"},
		{"empty", with("X-User-Id", ""), "absent"},
		{"only spaces", with("X-User-Id", "  "), "absent"},
		{"two lines", with("X-User-Id", "u1", "u2"), "400"},
		{"two equal lines", with("X-User-Id", "u1", "u1"), "400"},
		{"an empty line beside one", with("X-User-Id", "", "u1"), "400"},
		{"invalid UTF-8", with("X-User-Id", "u\xff"), "400"},
	})
}

func TestHeaderRefusesAtConstruction(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, why string }{
		{"", "name is empty"},
		{"host", "takes Host out"},
		{"Trailer", "takes Trailer out"},
		{"transfer-encoding", "takes Transfer-Encoding out"},
		{"X User", "not a header's name"},
		{"X-User:", "not a header's name"},
		{"Üser", "not a header's name"},
	} {
		panics(t, func() { resolver.Header(c.name) }, c.why)
	}
}

func TestFaultsNameTheFieldAndNeverTheValue(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t"
	for _, c := range []struct {
		r    resolver.Func
		x    *exchange
		name string
	}{
		{resolver.Header("X-User-Id"), with("X-User-Id", secret, secret), "X-User-Id"},
		{resolver.Header("X-User-Id"), with("X-User-Id", secret+"\xff"), "X-User-Id"},
		{resolver.Query("user"), get("/?user=" + secret + "&user="), `"user"`},
		{resolver.Query("user"), get("/?user=" + secret + ";"), `"user"`},
		{resolver.FormField("user"), post(formType, "user="+secret+"&user="), `"user"`},
		{resolver.PathParam("id"), &exchange{req: get("/").req, params: map[string]string{"id": secret + "\xff"}}, `"id"`},
		{resolver.BodyField("user.id"), post(jsonType, `{"user":{"id":"`+secret+`\ud800"}}`), `"user.id"`},
		{resolver.BodyField("user.id"), post(jsonType, `{"user":{"id":1,"id":"`+secret+`"}}`), `"user.id"`},
		{resolver.ClientIP(resolver.TrustedProxies("192.0.2.1")), with("X-Forwarded-For", secret), "X-Forwarded-For"},
	} {
		f := fault(t, c.r, c.x)
		if !strings.Contains(f.Detail, c.name) || strings.Contains(f.Detail, secret) {
			t.Errorf("the detail is %q, want %s in it and no value", f.Detail, c.name)
		}
	}
}
