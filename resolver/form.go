package resolver

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/trafficguard-go/trafficguard/guard"
)

// FormField identifies the client by a field of an urlencoded form in the body of a POST, PUT or PATCH. The client
// chooses it freely; see [Value] for what it can not choose. The kind is "form:" and the name. A missing or blank
// field is absent, and so is every field of an empty body and of other methods.
//
// A body of another media type, a multipart form too, is answered with 415. It answers 400 where two readers could
// differ: if the field is given more than once, also in another case; if it is given in the query string, which
// [http.Request.FormValue] reads too, whatever the method; if its value is not valid UTF-8; and if anything in
// the form or the query string is malformed.
//
// The body is read as [BodyField] reads it. Where the form was parsed before the guard ran, what was parsed counts.
func FormField(name string, opts ...BodyOption) Func {
	limit, fault := bodyOptions(opts)
	mustBuild("FormField", checkName("the field's name", name), fault)
	f := &formField{name: name, kind: "form:" + name, what: fmt.Sprintf("the form field %q", name), limit: limit}
	return f.resolve
}

type formField struct {
	name, kind, what string
	limit            int64
}

func (f *formField) resolve(x guard.Exchange) (Subject, error) {
	r := x.Request()
	if _, found, err := lookup(r.URL.RawQuery, f.name, f.what); err != nil {
		return Subject{}, err
	} else if found {
		return Subject{}, invalid(f.what + " is ambiguous: it is given in the query string")
	}
	if r.Method != http.MethodPost && r.Method != http.MethodPut && r.Method != http.MethodPatch {
		return Subject{}, nil
	}
	value, err := f.value(r)
	if err != nil {
		return Subject{}, err
	}
	return textSubject(f.kind, value, f.what)
}

func (f *formField) value(r *http.Request) (string, error) {
	fault := checkContent(r.Header, formType, func(string) bool { return false })
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
	value, _, err := lookup(string(body), f.name, f.what)
	return strings.Clone(value), err // not to keep the whole body alive
}

// parsed reads the form that somebody has parsed already; the body is gone then.
func (f *formField) parsed(r *http.Request) (string, error) {
	for key, values := range r.PostForm {
		if key != f.name && strings.EqualFold(key, f.name) {
			return "", invalid(f.what + " is ambiguous: it is spelled in another case")
		}
		if key == f.name && len(values) > 1 {
			return "", invalid(f.what + " is given more than once")
		}
	}
	return r.PostForm.Get(f.name), nil
}

const formType = "application/x-www-form-urlencoded"
