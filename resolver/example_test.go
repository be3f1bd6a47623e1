package resolver_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/trafficguard-go/trafficguard/guard"
	"github.com/trafficguard-go/trafficguard/resolver"
)

// Lead with what authenticating middleware has verified; fall back to the address for who is not logged in.
func Example() {
	who := resolver.First(resolver.Value("user_id"), resolver.ClientIP())

	visitor := &exchange{req: httptest.NewRequest("GET", "/posts", nil)}
	visitor.req.RemoteAddr = "203.0.113.7:4711"
	member := &exchange{req: visitor.req, values: map[string]any{"user_id": 42}}

	for _, x := range []guard.Exchange{visitor, member} {
		s, err := who(x)
		fmt.Println(s.Kind, s.Value, err)
	}
	// Output:
	// ip 203.0.113.7 <nil>
	// value:user_id 42 <nil>
}

func ExampleBodyField() {
	who := resolver.BodyField("user.id")
	for _, body := range []string{`{"user":{"id":9007199254740993}}`, `{"user":{"id":7,"ID":8}}`} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		s, err := who(&exchange{req: r})
		fmt.Println(s.Kind, s.Value, err)
	}
	// Output:
	// body:user.id 9007199254740993 <nil>
	//   the field "user.id" of the JSON body is ambiguous: a name of it is spelled in another way
}

// Behind a load balancer at 10.0.0.1, the address that it appended counts, not what the client has written before it.
func ExampleTrustedProxies() {
	who := resolver.ClientIP(resolver.TrustedProxies("10.0.0.0/8"))
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.1:4711"
	r.Header.Set("X-Forwarded-For", "1.2.3.4, 203.0.113.7")
	s, err := who(&exchange{req: r})
	fmt.Println(s.Value, err)
	// Output: 203.0.113.7 <nil>
}

// Handlers that parse a number take several spellings of it.
func ExampleInteger() {
	who := resolver.Integer(resolver.Query("id"))
	for _, target := range []string{"/?id=7", "/?id=07"} {
		s, err := who(&exchange{req: httptest.NewRequest("GET", target, nil)})
		fmt.Println(s.Value, err)
	}
	// Output:
	// 7 <nil>
	//  the client's identity is not an integer: write it in digits, without leading zeros, plus sign or spaces
}

// A user of a tenant. Behind a gateway that sets X-Tenant, and removes what the client has sent.
func ExampleJoin() {
	who := resolver.Join(resolver.Header("X-Tenant"), resolver.PathParam("user"))
	r := httptest.NewRequest("GET", "/users/ann", nil)
	r.Header.Set("X-Tenant", "shop")
	s, err := who(&exchange{req: r, params: map[string]string{"user": "ann"}})
	fmt.Println(s.Kind, s.Value, err)
	// Output: header:X-Tenant+path:user 4:shop3:ann <nil>
}

// The application ignores the case of e-mail addresses, so the limiter must too; and no store needs to see them.
func ExampleHashed() {
	secret := []byte("read 16 random bytes or more from your configuration")
	who := resolver.Hashed(secret, resolver.Map(resolver.BodyField("email"), strings.ToLower))
	var values []string
	for _, body := range []string{`{"email":"Ann@Example.org"}`, `{"email":"ann@example.org"}`} {
		r := httptest.NewRequest("POST", "/login", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		s, _ := who(&exchange{req: r})
		values = append(values, s.Value)
	}
	fmt.Println(len(values[0]), values[0] == values[1])
	// Output: 32 true
}

// An id may come from the token or, on old routes, from the query string: one kind makes it one subject.
func ExampleAs() {
	who := resolver.As("user", resolver.First(resolver.Value("user_id"), resolver.Query("user")))
	for _, x := range []*exchange{
		{req: httptest.NewRequest("GET", "/", nil), values: map[string]any{"user_id": "7"}},
		{req: httptest.NewRequest("GET", "/?user=7", nil)},
	} {
		s, _ := who(x)
		fmt.Println(s.Kind, s.Value)
	}
	// Output:
	// user 7
	// user 7
}

func ExampleExemptWhen() {
	who := resolver.First(
		resolver.ExemptWhen(resolver.ValueIs("role", "admin")),
		resolver.ExemptWhen(resolver.Preflight()),
		resolver.ClientIP(),
	)
	r := httptest.NewRequest("GET", "/", nil)
	for _, role := range []string{"admin", "user"} {
		s, _ := who(&exchange{req: r, values: map[string]any{"role": role}})
		fmt.Println(role, s.IsExempt())
	}
	// Output:
	// admin true
	// user false
}

// A Fault tells the client's developer what to mend, and the application's own log what the client must not know.
func ExampleFault() {
	x := &exchange{req: httptest.NewRequest("GET", "/", nil), values: map[string]any{"user_id": 7.0}}
	_, err := resolver.Value("user_id")(x)
	if fault, ok := errors.AsType[*resolver.Fault](err); ok {
		fmt.Println(fault.Status, fault.Detail)
		fmt.Println(fault.Cause)
	}
	// Output:
	// 503 the service cannot identify clients
	// resolver: the value "user_id" is a float64, not a string, an integer or a fmt.Stringer
}
