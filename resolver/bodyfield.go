package resolver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/trafficguard-go/trafficguard/guard"
)

// BodyField identifies the client by a member of the JSON object in the body. path is its name, or several names with
// dots between, each a member of the object before: "user.id". The client chooses it freely; see [Value] for
// what it cannot choose. The kind is "body:" and the path.
//
// The member must be a string or an integer literal, of any size; 1 and "1" are the same subject, and so are all
// escaped spellings of a string. Other than that, different texts are different subjects: where the handler parses a
// number from a string, wrap it in [Integer]; see there for handlers that read numbers as float64. An empty body
// (whitespace too), a member or an object of the path that is missing or null, and a blank string are absent.
//
// It answers 400 where two readers could differ, or where the body is no identity at all:
//
//   - malformed JSON, anything after the first value, invalid UTF-8, no object at the top or on the path
//   - a name of the path that is there twice, or in another spelling that some reader takes for it: encoding/json takes
//     "USERID" for "userId", readers that compare in lower case, as jsoniter and sonic do, take the Turkish
//     "user\u0130d", and go-json takes "\u0075", the beginning with an escape
//   - a fraction, an exponent, -0, true, false, an object, an array, and strings with unpaired surrogates, which
//     most readers replace
//   - a body that breaks off, and more than one Content-Type
//   - a body with GET or HEAD, for which Gin's Bind reads the query string instead
//   - a query string that has a name of the path, or the whole path, in whatever case, since the Bind of Gin and of Echo
//     reads that for some requests; and a malformed query string. This holds for requests without a body too.
//
// A Content-Type other than application/json, spelled in just this way, is answered with 415, a missing one too: Gin's
// Bind reads the query string then. Only a space or a semicolon may follow, with parameters. See [ContentTypes] for
// other types. A Content-Encoding, and a charset other than UTF-8, are answered with 415. A body above [MaxBody] is
// answered with 413. A body that middleware has read before the guard and not put back is the application's
// fault, 503.
//
// A handler that binds must take this member from the body alone. Gin's Bind fills fields from a query string under
// other names, those of its form tags, if there is no body and no Content-Type; Echo's fills those with a param tag
// from the path before it reads the body. Gin's ShouldBindJSON and Echo's BindBody do neither.
//
// The body is read once however many resolvers, policies and chains ask, and the handler then reads every byte of it
// as though nobody had, errors included. ContentLength stays as it is.
func BodyField(path string, opts ...BodyOption) Func {
	c := bodyOptions(opts)
	mustBuild("BodyField", checkPath(path), errors.Join(c.faults...))
	f := &bodyField{
		kind:  "body:" + path,
		what:  fmt.Sprintf("the field %q of the JSON body", path),
		names: strings.Split(path, "."),
		types: append([]string{jsonType}, c.types...),
		limit: c.max,
	}
	f.elsewhere = f.names
	if len(f.names) > 1 {
		f.elsewhere = append([]string{path}, f.names...)
	}
	return f.resolve
}

func checkPath(path string) error {
	if err := checkName("the path", path); err != nil {
		return err
	}
	for name := range strings.SplitSeq(path, ".") {
		if name == "" {
			return fmt.Errorf("the path %q has an empty name", path)
		}
	}
	return nil
}

type bodyField struct {
	kind, what string
	names      []string // of the path
	elsewhere  []string // under which a handler may find the identity in the query string
	types      []string
	limit      int64
}

const jsonType = "application/json"

func (f *bodyField) resolve(x guard.Exchange) (Subject, error) {
	r := x.Request()
	if err := notInQuery(r.URL.RawQuery, f.what, f.elsewhere...); err != nil {
		return Subject{}, err
	}
	body, err := readBody(r, f.limit)
	if err != nil {
		return Subject{}, err
	}
	if len(body) > 0 && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		return Subject{}, invalid("the body cannot be read: GET and HEAD have none")
	}
	if body = bytes.TrimLeft(body, " \t\r\n"); len(body) == 0 {
		return Subject{}, nil
	}
	if err := f.check(r.Header, body); err != nil {
		return Subject{}, err
	}
	value, err := f.find(body)
	if err != nil || value == nil || value[0] == 'n' {
		return Subject{}, err
	}
	text, err := f.text(value)
	if err != nil {
		return Subject{}, err
	}
	return textSubject(f.kind, text, f.what)
}

func (f *bodyField) check(h http.Header, body []byte) error {
	line, err := contentType(h)
	if err != nil {
		return err
	}
	if !f.accepts(line) {
		return unsupported(jsonType)
	}
	if !utf8.Valid(body) {
		return invalid("the body is not valid UTF-8")
	}
	if !json.Valid(body) {
		return invalid("the body is not valid JSON")
	}
	return nil
}

// accepts reports whether every binder takes this Content-Type for one of the types. They compare what stands before
// the first space or semicolon, to the letter.
func (f *bodyField) accepts(line string) bool {
	for _, t := range f.types {
		rest, ok := strings.CutPrefix(line, t)
		switch {
		case !ok || rest != "" && rest[0] != ' ' && rest[0] != ';':
			continue
		case rest == "" || strings.EqualFold(rest, "; charset=utf-8"): // what nearly everybody sends
			return true
		}
		_, ok = parseType(line)
		return ok
	}
	return false
}

// find returns the value at the end of the path, nil if there is none.
func (f *bodyField) find(value []byte) ([]byte, error) {
	for i, name := range f.names {
		if i > 0 && value[0] == 'n' {
			return nil, nil
		}
		if value[0] != '{' {
			return nil, f.noObject(i)
		}
		inner, found := member(value, name)
		switch found {
		case missing:
			return nil, nil
		case once:
			value = inner
		case repeated:
			return nil, invalid(f.what + " is ambiguous: a name of it is given more than once")
		case otherSpelling:
			return nil, invalid(f.what + " is ambiguous: a name of it is spelled in another way")
		}
	}
	return value, nil
}

func (f *bodyField) noObject(depth int) *Fault {
	if depth == 0 {
		return invalid("the body is not a JSON object")
	}
	return invalid(f.what + " is not in a JSON object")
}

// text returns the text of a string or an integer.
func (f *bodyField) text(value []byte) (string, error) {
	switch c := value[0]; {
	case c == '"':
		text, ok := unquote(value[1 : len(value)-1])
		if !ok {
			return "", invalid(f.what + " has an unpaired surrogate")
		}
		return text, nil
	case c != '-' && (c < '0' || c > '9'), bytes.ContainsAny(value, ".eE"), string(value) == "-0":
		return "", invalid(f.what + " is neither a string nor an integer")
	default:
		return string(value), nil
	}
}
