package resolver_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	ginjson "github.com/gin-gonic/gin/codec/json"

	"github.com/trafficguard-go/trafficguard/resolver"
)

const jsonType = "application/json"

// object is a JSON body of known length.
func object(body string) *exchange { return post(jsonType, body) }

func TestBodyFieldValues(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("9", 400)
	check(t, resolver.BodyField("userId"), []rule{
		{"a string", object(`{"userId":"u1"}`), "body:userId=u1"},
		{"among others of all kinds", object(` { "a" : [1,{"userId":"no"},"}"] , "b":{"userId":"no"},"c":null,"d":-1.5e3,"userId" : "u1" , "e":true } `), "body:userId=u1"},
		{"an integer", object(`{"userId":42}`), "body:userId=42"},
		{"an integer and its text are one subject", object(`{"userId":"42"}`), "body:userId=42"},
		{"a negative integer", object(`{"userId":-7}`), "body:userId=-7"},
		{"zero", object(`{"userId":0}`), "body:userId=0"},
		{"2^53", object(`{"userId":9007199254740992}`), "body:userId=9007199254740992"},
		{"2^53+1, which float64 merges with it", object(`{"userId":9007199254740993}`), "body:userId=9007199254740993"},
		{"an integer beyond all types", object(`{"userId":` + long + `}`), "body:userId=" + long},
		{"an escaped value is the same subject", object(`{"userId":"\u0075\u0031"}`), "body:userId=u1"},
		{"an escaped slash", object(`{"userId":"a\/b"}`), "body:userId=a/b"},
		{"all short escapes", object(`{"userId":"x\"\\\b\f\n\r\t"}`), "body:userId=x\"\\\b\f\n\r\t"},
		{"a surrogate pair", object(`{"userId":"\uD83D\ude00"}`), "body:userId=😀"},
		{"beyond ASCII", object(`{"userId":"é"}`), "body:userId=é"},
		{"U+FFFD itself", object(`{"userId":"�"}`), "body:userId=�"},
		{"U+FFFD escaped", object(`{"userId":"\ufffd"}`), "body:userId=�"},
		{"NUL", object(`{"userId":"\u0000"}`), "body:userId=\x00"},
		{"spaces are kept", object(`{"userId":" u1"}`), "body:userId= u1"},
		{"missing", object(`{"user":"u1"}`), "absent"},
		{"an empty object", object(`{}`), "absent"},
		{"null", object(`{"userId":null}`), "absent"},
		{"an empty string", object(`{"userId":""}`), "absent"},
		{"only spaces", object(`{"userId":" \t\u2003"}`), "absent"},
		{"only deeper down", object(`{"a":{"userId":"u1"}}`), "absent"},
		{"only as a value", object(`{"a":"userId"}`), "absent"},
		{"a name that begins alike", object(`{"userId2":"u1","user":"u2"}`), "absent"},
		{"-0 equals 0 for some", object(`{"userId":-0}`), "400"},
		{"a fraction", object(`{"userId":1.0}`), "400"},
		{"an exponent", object(`{"userId":1e3}`), "400"},
		{"an exponent in capitals", object(`{"userId":1E3}`), "400"},
		{"true", object(`{"userId":true}`), "400"},
		{"false", object(`{"userId":false}`), "400"},
		{"an object", object(`{"userId":{}}`), "400"},
		{"an array", object(`{"userId":["u1"]}`), "400"},
		{"a high surrogate alone", object(`{"userId":"\ud800"}`), "400"},
		{"a low surrogate alone", object(`{"userId":"\udc00x"}`), "400"},
		{"a high surrogate before what is no escape", object(`{"userId":"\ud800xudc00"}`), "400"},
		{"two high surrogates", object(`{"userId":"\ud800\ud800"}`), "400"},
		{"a high surrogate before something else", object(`{"userId":"\ud800\n12345"}`), "400"},
	})
}

func TestBodyFieldBodies(t *testing.T) {
	t.Parallel()
	check(t, resolver.BodyField("userId"), []rule{
		{"no body", get("/"), "absent"},
		{"an empty body", object(""), "absent"},
		{"an empty body without length", chunked(jsonType, ""), "absent"},
		{"only whitespace", object(" \r\n\t"), "absent"},
		{"an empty body of another type", post("text/plain", ""), "absent"},
		{"GET", object(`{"userId":1}`).method("GET"), "400"},
		{"GET with whitespace", object(" ").method("GET"), "400"},
		{"HEAD", object(`{"userId":1}`).method("HEAD"), "400"},
		{"HEAD without a body", get("/").method("HEAD"), "absent"},
		{"DELETE", object(`{"userId":1}`).method("DELETE"), "body:userId=1"},
		{"no length", chunked(jsonType, `{"userId":1}`), "body:userId=1"},
		{"an array", object(`[]`), "400"},
		{"an array with the object", object(`[{"userId":1}]`), "400"},
		{"a string", object(`"userId"`), "400"},
		{"null", object(`null`), "400"},
		{"a number", object(`1`), "400"},
		{"broken off", object(`{"userId":1`), "400"},
		{"malformed behind the member", object(`{"userId":1,"a":}`), "400"},
		{"a second value, which a Decoder would not see", object(`{"userId":1}{"userId":2}`), "400"},
		{"something behind", object(`{"userId":1}x`), "400"},
		{"a number with a leading zero", object(`{"userId":01}`), "400"},
		{"a byte order mark", object("\ufeff" + `{"userId":1}`), "400"},
		{"invalid UTF-8, which encoding/json replaces", object("{\"userId\":\"\xff\"}"), "400"},
		{"invalid UTF-8 elsewhere", object("{\"userId\":1,\"\xc3\":2}"), "400"},
		{"nested too deep", object(`{"a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`), "400"},
		{"nested deep", object(`{"a":` + strings.Repeat("[", 5_000) + strings.Repeat("]", 5_000) + `,"userId":1}`), "body:userId=1"},
	})
}

func TestBodyFieldAmbiguity(t *testing.T) {
	t.Parallel()
	check(t, resolver.BodyField("userId"), []rule{
		{"twice", object(`{"userId":1,"userId":2}`), "400"},
		{"twice the same", object(`{"userId":1,"userId":1}`), "400"},
		{"null and a value", object(`{"userId":null,"userId":1}`), "400"},
		{"twice, once escaped", object(`{"userId":1,"user\u0049d":2}`), "400"},
		{"once, escaped", object(`{"user\u0049d":2}`), "body:userId=2"},
		{"another case, which encoding/json takes", object(`{"userid":1}`), "400"},
		{"another case beside it", object(`{"userId":1,"USERID":2}`), "400"},
		{"another case before it", object(`{"UserId":2,"userId":1}`), "400"},
		{"another case, escaped", object(`{"\u0055serId":1}`), "400"},
		{"another case with the value null", object(`{"UserId":null}`), "400"},
		{"long s", object(`{"uſerId":1}`), "400"},
		{"long s, escaped", object(`{"u\u017FerId":1}`), "400"},
		{"I with a dot, whose lower case is i: jsoniter, sonic", object(`{"userId":1,"userİd":2}`), "400"},
		{"I with a dot, alone", object(`{"userİd":2}`), "400"},
		{"I with a dot, escaped", object(`{"user\u0130d":2,"userId":1}`), "400"},
		{"i without a dot, whose upper case is I", object(`{"userId":1,"userıd":2}`), "400"},
		{"i without a dot, escaped", object(`{"userId":1,"user\u0131d":2}`), "400"},
		{"i with an accent is another letter", object(`{"userId":1,"userÍd":2}`), "body:userId=1"},
		{"a longer name, escaped", object(`{"user\u0049d2":1}`), "absent"},
		{"the beginning of the name, escaped: go-json", object(`{"userId":1,"user\u0049":2}`), "400"},
		{"the first letter, escaped, in another case", object(`{"\u0055":2}`), "400"},
		{"the beginning of the name", object(`{"userI":1}`), "absent"},
		{"no name", object(`{"":1}`), "absent"},
		{"other text behind the beginning, escaped", object(`{"user\u0049x":1}`), "absent"},
		{"another name, escaped", object(`{"\n\t\"\\\/serId":1}`), "absent"},
		{"twice, but deeper down", object(`{"userId":1,"a":{"userId":2,"userId":3}}`), "body:userId=1"},
		{"another member twice", object(`{"a":1,"userId":1,"a":2}`), "body:userId=1"},
	})
	check(t, resolver.BodyField("key"), []rule{
		{"the Kelvin sign", object("{\"\u212aey\":1}"), "400"},
		{"the Kelvin sign, escaped", object(`{"\u212aey":1}`), "400"},
		{"an accent is another letter", object(`{"key":1,"kéy":2}`), "body:key=1"},
	})
	check(t, resolver.BodyField(`a\b`), []rule{
		{"a backslash, escaped", object(`{"a\\b":1}`), `body:a\b=1`},
		{"an escape that looks like the name", object(`{"a\b":1}`), "absent"},
	})
	check(t, resolver.BodyField("a�"), []rule{
		{"encoding/json takes an unpaired surrogate in a name for U+FFFD", object(`{"a\ud800":1,"a�":2}`), "400"},
	})
}

func TestBodyFieldPath(t *testing.T) {
	t.Parallel()
	check(t, resolver.BodyField("user.id"), []rule{
		{"two levels", object(`{"a":1,"user":{"b":[],"id":"u1"}}`), "body:user.id=u1"},
		{"a name with a dot is another", object(`{"user.id":"u1"}`), "absent"},
		{"the object is missing", object(`{"id":"u1"}`), "absent"},
		{"the object is null", object(`{"user":null}`), "absent"},
		{"the member is missing", object(`{"user":{}}`), "absent"},
		{"the member is null", object(`{"user":{"id":null}}`), "absent"},
		{"the object is a string", object(`{"user":"id"}`), "400"},
		{"the object is an array", object(`{"user":[{"id":"u1"}]}`), "400"},
		{"the object is there twice, which encoding/json merges", object(`{"user":{"id":1},"user":{}}`), "400"},
		{"the object in another case", object(`{"user":{"id":1},"User":{"id":2}}`), "400"},
		{"the member is there twice", object(`{"user":{"id":1,"id":2}}`), "400"},
		{"the member in another case", object(`{"user":{"ID":1}}`), "400"},
		{"the top level is null", object(`null`), "400"},
	})
	check(t, resolver.BodyField("a.b.c"), []rule{
		{"three levels", object(`{"a":{"b":{"c":7}}}`), "body:a.b.c=7"},
		{"null in between", object(`{"a":{"b":null}}`), "absent"},
	})
}

func TestBodyFieldContent(t *testing.T) {
	t.Parallel()
	const body = `{"userId":1}`
	typed := func(contentType string) *exchange { return post(contentType, body) }
	const good = "body:userId=1"
	check(t, resolver.BodyField("userId"), []rule{
		{"no content type", typed(""), "415"},
		{"an empty content type", object(body).with("Content-Type", ""), "415"},
		{"JSON", typed("application/json"), good},
		{"JSON in another case", typed("Application/JSON"), "415"},
		{"UTF-8", typed("application/json; charset=utf-8"), good},
		{"UTF-8 in another case and quoted", typed(`application/json;charset="UTF-8"`), good},
		{"a space before the semicolon", typed("application/json ; charset=utf-8"), good},
		{"a space at the end", typed("application/json "), good},
		{"a semicolon at the end", typed("application/json;"), good},
		{"other parameters", typed("application/json; version=1"), good},
		{"a tab, at which Gin does not end the type", typed("application/json\t; charset=utf-8"), "415"},
		{"a tab at the end", object(body).with("Content-Type", "application/json\t"), "415"},
		{"a space before it, which HTTP/2 lets pass and Gin ends the type at", object(body).with("Content-Type", " application/json"), "415"},
		{"a word behind it", typed("application/json x"), "415"},
		{"+json", typed("application/vnd.api+json; charset=utf-8"), "415"},
		{"identity is no encoding", object(body).with("Content-Encoding", "Identity"), good},
		{"an empty encoding", object(body).with("Content-Encoding", ""), good},
		{"gzip", object(body).with("Content-Encoding", "gzip"), "415"},
		{"gzip on a second line", object(body).with("Content-Encoding", "identity", "gzip"), "415"},
		{"a list", object(body).with("Content-Encoding", "identity, gzip"), "415"},
		{"another charset", typed("application/json; charset=utf-16"), "415"},
		{"another charset, extended", typed("application/json; charset*=utf-8''utf-16"), "415"},
		{"two charsets", typed("application/json; charset=utf-8; charset=latin1"), "415"},
		{"text", typed("text/plain"), "415"},
		{"a form", typed(formType), "415"},
		{"multipart", typed("multipart/form-data; boundary=b"), "415"},
		{"+json that is only a parameter", typed("text/plain; a=b+json"), "415"},
		{"a type that begins alike", typed("application/jsonlines"), "415"},
		{"no type at all", typed("json"), "415"},
		{"malformed", typed("application/json, text/plain"), "415"},
		{"two content types", object(body).with("Content-Type", jsonType, jsonType), "400"},
	})
	f := fault(t, resolver.BodyField("userId"), typed("text/plain"))
	if !strings.Contains(f.Detail, "send Content-Type: application/json") {
		t.Errorf("the detail is %q, want the way out in it", f.Detail)
	}
}

func TestBodyFieldContentTypes(t *testing.T) {
	t.Parallel()
	typed := func(contentType string) *exchange { return post(contentType, `{"userId":1}`) }
	const good = "body:userId=1"
	check(t, resolver.BodyField("userId", resolver.ContentTypes("application/vnd.api+json", "text/json"), resolver.ContentTypes("a/b")), []rule{
		{"JSON still", typed("application/json"), good},
		{"a type that was added", typed("application/vnd.api+json"), good},
		{"with parameters", typed("text/json; charset=utf-8; v=1"), good},
		{"a second option adds to the first", typed("a/b"), good},
		{"in another case", typed("Text/JSON"), "415"},
		{"a type that begins alike", typed("text/json+x"), "415"},
		{"another charset", typed("text/json; charset=latin1"), "415"},
		{"another type", typed("application/hal+json"), "415"},
		{"no type", typed(""), "415"},
	})
	panics(t, func() {
		resolver.BodyField("a", resolver.ContentTypes("", "text/JSON", "text", "text/json; charset=utf-8", " text/json", formType, "multipart/form-data"))
	}, `""`, `"text/JSON"`, `"text"`, `"text/json; charset=utf-8"`, `" text/json"`, formType+" is a form", "multipart/form-data is a form")
}

// A handler that binds may find the identity in the query string, under any name of the path.
func TestBodyFieldInTheQueryString(t *testing.T) {
	t.Parallel()
	body := func() *exchange { return object(`{"user":{"id":"u1"},"id":"u2","":0}`) }
	check(t, resolver.BodyField("user.id"), []rule{
		{"other parameters", body().query("page=1&user_id=2&users=3"), "body:user.id=u1"},
		{"the member", body().query("id=u2"), "400"},
		{"the member with the same value", body().query("id=u1"), "400"},
		{"the member without a value", body().query("id"), "400"},
		{"the object", body().query("a=1&user=u2"), "400"},
		{"the path", body().query("user.id=u2"), "400"},
		{"in another case", body().query("ID=u2"), "400"},
		{"escaped", body().query("%69%64=u2"), "400"},
		{"in another case, escaped", body().query("u%C5%BFer=u2"), "400"},
		{"I with a dot", body().query("%C4%B0d=u2"), "400"},
		{"the path in another case", body().query("User.%C4%B1d=u2"), "400"},
		{"the member is null in the body", object(`{"user":{"id":null}}`).query("id=u2"), "400"},
		{"the body is empty", object("").query("id=u2"), "400"},
		{"no body", get("/?id=u2"), "400"},
		{"no body and another parameter", get("/?page=2"), "absent"},
		{"DELETE", body().method("DELETE").query("id=u2"), "400"},
		{"malformed", body().query("a=%zz"), "400"},
		{"a semicolon", body().query("a=1;id=u2"), "400"},
		{"too many parameters", body().query(strings.Repeat("&", 10_000)), "400"},
	})
}

func TestBodyFieldRefusesAtConstruction(t *testing.T) {
	t.Parallel()
	panics(t, func() { resolver.BodyField("", resolver.MaxBody(-1), nil) }, "BodyField", "path is empty", "MaxBody -1", "option 2 is nil")
	panics(t, func() { resolver.BodyField("a..b", resolver.MaxBody(1<<30+1)) }, `"a..b" has an empty name`, "MaxBody 1073741825")
	panics(t, func() { resolver.BodyField(".a") }, "empty name")
	panics(t, func() { resolver.BodyField("a\xff") }, "not valid UTF-8")
}

// Two ids that float64 cannot tell apart are two subjects.
func TestBodyFieldBigIntegers(t *testing.T) {
	t.Parallel()
	r := resolver.BodyField("user")
	seen := map[string]bool{}
	for _, id := range []string{"9007199254740992", "9007199254740993", "9223372036854775807", "9223372036854775808"} {
		seen[answer(r, object(`{"user":`+id+`}`))] = true
	}
	if len(seen) != 4 {
		t.Errorf("four ids are the subjects %v", seen)
	}
}

// decoded is what a handler of FuzzBodyField declares.
type decoded struct {
	User struct {
		ID any `json:"id"`
	} `json:"user"`
}

func FuzzBodyField(f *testing.F) {
	for _, s := range []string{
		`{"user":{"id":"u1"}}`, `{"user":{"id":9007199254740993}}`, `{"user":{"id":"\u0075\ud83d\ude00\n"}}`, `{"user":null}`,
		`{"User":{"id":1}}`, `{"user":{"id":1,"ID":2}}`, `{"\u0075ser":{"i\u0064":1}}`, `{"u\u017fer":{"id":1}}`, ` {} `, `[]`, `{"user":{"id":-0}}`, `{"user":{"id":1,"İd":2}}`, `{"user":{"\u0131d":1}}`,
		`{"user":{"id":"\ud800"}}`, `{"a":{"b":["}","\\",{}]},"user":{"x":1e9,"id":"a\/b"}}`, "{\"user\":{\"id\":\"\xff\"}}", `{"user":{"id":1}}{}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) { agree(t, body) })
}

// The same with bodies that are well formed and go for the names and values of the path; fuzzing rarely gets there.
func TestBodyFieldAgreesWithReaders(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(texts ...string) string { return texts[random.IntN(len(texts))] }
	space := func() string { return pick("", "", "", " ", "\n\t") }
	names := [][]string{
		{`"user"`, `"user"`, `"user"`, `"us\u0065r"`, `"User"`, `"u\u017Fer"`, `"uſer"`},
		{`"id"`, `"id"`, `"id"`, `"id"`, `"id"`, `"id"`, `"i\u0064"`, `"ID"`, `"\u0049d"`, `"İd"`, `"\u0130d"`, `"ıd"`, `"\u0131D"`},
	}
	var object func(depth int) string
	value := func(depth int) string {
		if random.IntN(5) < 8-4*depth {
			return object(depth)
		}
		return pick(`"u1"`, `"u2"`, "9007199254740993", `" \\\" "`, `"\u0075\ud83d\ude00"`, `"\udc00"`, "7", "-7", "-0", "1e2", "null", "true", `[{"id":"}]"}]`, `""`)
	}
	object = func(depth int) string {
		var members []string
		for range 1 + random.IntN(3) {
			key := pick(`"a"`, `"\""`, `"us"`, `"\u0069"`, `"\u00e9"`, `"users"`, `"id\u0000"`, `""`)
			if random.IntN(2) == 0 {
				key = pick(names[min(depth, 1)]...)
			}
			members = append(members, space()+key+space()+":"+space()+value(depth+1)+space())
		}
		return "{" + strings.Join(members, ",") + space() + "}"
	}
	subjects := 0
	for range 30_000 {
		if agree(t, []byte(object(0))) {
			subjects++
		}
	}
	if subjects < 500 {
		t.Errorf("only %d bodies have a subject: the test tests little", subjects)
	}
}

// agree checks that what the resolver says of body is what handlers read, and reports whether it is a subject.
func agree(t *testing.T, body []byte) bool {
	t.Helper()
	x := object(string(body))
	s, err := resolver.BodyField("user.id", resolver.MaxBody(1<<16))(x)
	replayed, readErr := io.ReadAll(x.req.Body)
	if !bytes.Equal(replayed, body) || readErr != nil {
		t.Fatalf("the handler gets %q and %v of %q", replayed, readErr, body)
	}
	var fault *resolver.Fault
	if err != nil && !errors.As(err, &fault) {
		t.Fatalf("%q: %v is no Fault", body, err)
	}
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return false
	}
	decoder := json.NewDecoder(bytes.NewReader(body)) // as Echo reads it
	decoder.UseNumber()
	var streamed, whole, inGin decoded
	var loose struct{ User map[string]any }
	if err := errors.Join(decoder.Decode(&streamed), json.Unmarshal(body, &whole), json.Unmarshal(body, &loose)); err != nil {
		t.Fatalf("%q gives %+v, a handler gets %v", body, s, err)
	}
	sameText(t, body, s, streamed.User.ID)
	tagged := ginjson.API.NewDecoder(bytes.NewReader(body)) // jsoniter, sonic or go-json with the build tags of Gin
	tagged.UseNumber()
	if tagged.Decode(&inGin) == nil { // go-json refuses some valid JSON
		sameText(t, body, s, inGin.User.ID)
	}
	if !reflect.DeepEqual(loose.User["id"], whole.User.ID) {
		t.Fatalf("%q gives %+v, but one handler reads %v and another %v", body, s, whole.User.ID, loose.User["id"])
	}
	for _, normalise := range []func(string) string{strings.ToLower, strings.ToUpper} {
		sameText(t, body, s, ignoringCase(t, body, normalise))
	}
	return !s.IsAbsent()
}

// ignoringCase reads user.id as a reader does that compares names in one case. It fails if a name is there twice.
func ignoringCase(t *testing.T, body []byte, normalise func(string) string) any {
	t.Helper()
	var value any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"user", "id"} {
		members, _ := value.(map[string]any)
		value = nil
		found := 0
		for key, v := range members {
			if normalise(key) == normalise(name) {
				value = v
				found++
			}
		}
		if found > 1 {
			t.Fatalf("%q names %q %d times for a reader that ignores case", body, name, found)
		}
	}
	return value
}

// sameText checks that what a handler has decoded is what the resolver has found.
func sameText(t *testing.T, body []byte, s resolver.Subject, decoded any) {
	t.Helper()
	var text string
	switch v := decoded.(type) {
	case nil:
	case string:
		text = v
	case json.Number:
		text = v.String()
	default:
		t.Fatalf("%q gives %+v, the handler has a %T", body, s, decoded)
	}
	if s.IsAbsent() && strings.TrimSpace(text) == "" || !s.IsAbsent() && s.Value == text {
		return
	}
	t.Fatalf("%q gives %+v, the handler has %q", body, s, text)
}
