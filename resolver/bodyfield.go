package resolver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/trafficguard-go/trafficguard/guard"
)

// BodyField identifies the client by a member of the JSON object in the body. path is its name, or several names with
// dots between, each a member of the object before: "user.id". The client chooses it freely; see [Value] for
// what it can not choose. The kind is "body:" and the path.
//
// The member must be a string or an integer literal, of any size; 1 and "1" are the same subject, and so are all
// escaped spellings of a string. An empty body (whitespace too), a member or an object of the path that is missing or
// null, and a blank string are absent.
//
// It answers 400 where two readers could differ, or where the body is no identity at all:
//
//   - malformed JSON, anything after the first value, invalid UTF-8, no object at the top or on the path
//   - a name of the path that is there twice, or in another case: encoding/json takes "USERID" for "userId"
//   - a fraction, an exponent, -0, true, false, an object, an array, and strings with unpaired surrogates, which
//     encoding/json replaces
//   - a body that breaks off, and more than one Content-Type
//
// A Content-Encoding, a Content-Type other than application/json or +json, and a charset other than UTF-8 are answered
// with 415; Content-Type may be missing. A body above [MaxBody] is answered with 413. A body that middleware has
// read before the guard and not put back is the application's fault, 503.
//
// The body is read once however many resolvers, policies and chains ask, and the handler then reads every byte of it
// as though nobody had, errors included. ContentLength stays as it is.
func BodyField(path string, opts ...BodyOption) Func {
	limit, fault := bodyOptions(opts)
	mustBuild("BodyField", checkPath(path), fault)
	f := &bodyField{kind: "body:" + path, what: fmt.Sprintf("the field %q of the JSON body", path), limit: limit}
	for name := range strings.SplitSeq(path, ".") {
		f.names = append(f.names, []byte(name))
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
	names      [][]byte
	limit      int64
}

const jsonType = "application/json"

func acceptsJSON(mediaType string) bool {
	return mediaType == "" || strings.HasSuffix(mediaType, "+json")
}

func (f *bodyField) resolve(x guard.Exchange) (Subject, error) {
	r := x.Request()
	body, err := readBody(r, f.limit)
	if err != nil {
		return Subject{}, err
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
	if err := checkContent(h, jsonType, acceptsJSON); err != nil {
		return err
	}
	if !utf8.Valid(body) {
		return invalid("the body is not valid UTF-8")
	}
	if !json.Valid(body) {
		return invalid("the body is not valid JSON")
	}
	return nil
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
		case otherCase:
			return nil, invalid(f.what + " is ambiguous: a name of it is spelled in another case")
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
