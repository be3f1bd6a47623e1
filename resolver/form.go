package resolver

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/trafficguard-go/trafficguard/guard"
)

// FormField identifies the client by a field of an urlencoded form in the body of a POST, PUT or PATCH. The client
// chooses it freely; see [Value] for what it cannot choose. The kind is "form:" and the name. A missing or blank
// field is absent, and so is every field of an empty body and of other methods.
//
// A body of another media type is answered with 415, whatever the method: of a multipart form [http.Request.FormValue]
// would read the field even then. It answers 400 where two readers could differ: if the field is given more than
// once, also in another case; if it is given in the query string, which FormValue reads too, whatever the method; if
// its value is not valid UTF-8; and if anything in the form or the query string is malformed.
//
// The body is read as [BodyField] reads it. Where the form was parsed before the guard ran, what was parsed counts.
// [ContentTypes] is refused. Different texts are different subjects; where the handler parses a number, wrap it in
// [Integer].
func FormField(name string, opts ...BodyOption) Func {
	c := bodyOptions(opts)
	if len(c.types) > 0 {
		c.faults = append(c.faults, errors.New("ContentTypes is for BodyField"))
	}
	mustBuild("FormField", checkName("the field's name", name), errors.Join(c.faults...))
	f := &formField{name: name, kind: "form:" + name, what: fmt.Sprintf("the form field %q", name), limit: c.max}
	return f.resolve
}

type formField struct {
	name, kind, what string
	limit            int64
}

func (f *formField) resolve(x guard.Exchange) (Subject, error) {
	r := x.Request()
	if err := notInQuery(r.URL.RawQuery, f.what, f.name); err != nil {
		return Subject{}, err
	}
	value, err := f.value(r)
	if err != nil {
		return Subject{}, err
	}
	return textSubject(f.kind, value, f.what)
}

func (f *formField) value(r *http.Request) (string, error) {
	fault := checkForm(r.Header)
	if r.MultipartForm != nil || r.PostForm != nil && fault == nil {
		if fault != nil {
			return "", fault
		}
		return f.parsed(r)
	}
	body, err := readBody(r, f.limit)
	if err != nil || len(body) == 0 {
		return "", err
	}
	if fault != nil {
		return "", fault
	}
	if r.Method != http.MethodPost && r.Method != http.MethodPut && r.Method != http.MethodPatch {
		return "", nil
	}
	value, err := lookup(string(body), f.name, f.what)
	return strings.Clone(value), err // not to keep the whole body alive
}

// checkForm refuses what net/http does not take for an urlencoded form, and another charset than UTF-8.
func checkForm(h http.Header) error {
	line, err := contentType(h)
	if err != nil {
		return err
	}
	if mediaType, ok := parseType(line); !ok || mediaType != formType {
		return unsupported(formType)
	}
	return nil
}

// parsed reads the form that somebody has parsed already; the body is gone then.
func (f *formField) parsed(r *http.Request) (string, error) {
	for key, values := range r.PostForm {
		if key != f.name && sameName(key, f.name) {
			return "", invalid(f.what + " is ambiguous: it is spelled in another case")
		}
		if key == f.name && len(values) > 1 {
			return "", invalid(f.what + " is given more than once")
		}
	}
	return r.PostForm.Get(f.name), nil
}

const formType = "application/x-www-form-urlencoded"
