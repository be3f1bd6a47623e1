package guard

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
)

// The problem types of draft-ietf-httpapi-ratelimit-headers, section 5. Codes without one are
// "about:blank", which RFC 9457 defines as "see the status".
const (
	problemBlank    = "about:blank"
	problemQuota    = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	problemCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// problem is the body of a refusal, RFC 9457. Its members, their order and their spelling are the same in
// every adapter.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Code     Code     `json:"code"`
	Violated []string `json:"violated-policies,omitempty"`
}

// Problem returns the body of the answer that a client gets by default: an RFC 9457 problem document of
// the type application/problem+json.
func (r *Rejection) Problem() []byte { return slices.Clone(r.document().body) }

func (r *Rejection) document() *document {
	if r.prepared != nil && r.prepared.answers(r) {
		return r.prepared
	}
	return newDocument(r)
}

// A document is a problem document ready to be written, and what it says. It is immutable.
type document struct {
	code                  Code
	status                int
	title, detail, policy string

	body   []byte
	length string
}

func newDocument(r *Rejection) *document {
	body := r.marshal()
	return &document{
		code: r.Code, status: r.Status, title: r.Title, detail: r.Detail, policy: r.Policy,
		body: body, length: strconv.Itoa(len(body)),
	}
}

// answers reports whether d is what r has to say.
func (d *document) answers(r *Rejection) bool {
	return d.code == r.Code && d.status == r.Status && d.title == r.Title && d.detail == r.Detail && d.policy == r.Policy
}

// lastDocument remembers what a policy of a chain said last: it is nearly always the same, above all in a flood, when
// refusing must be cheap.
type lastDocument struct{ p atomic.Pointer[document] }

func (l *lastDocument) prepare(r *Rejection) {
	r.prepared = l.p.Load()
	if r.prepared == nil || !r.prepared.answers(r) {
		r.prepared = newDocument(r)
		l.p.Store(r.prepared)
	}
}

func (r *Rejection) marshal() []byte {
	_, title := r.Code.status()
	if r.Title != "" {
		title = r.Title
	}
	p := problem{Type: problemBlank, Title: title, Status: r.StatusCode(), Detail: r.Detail, Code: r.Code}
	switch {
	case p.Status == http.StatusTooManyRequests:
		p.Type = problemQuota
	case p.Status == http.StatusServiceUnavailable && r.Code != GuardUnavailable && r.Code != RequestDeadlinePassed:
		p.Type = problemCapacity
	}
	if p.Type != problemBlank && r.Policy != "" {
		p.Violated = []string{r.Policy}
	}
	body, err := json.Marshal(p)
	if err != nil { // a struct of strings and a number always marshals
		panic(err)
	}
	return body
}

// Answer writes the answer to a refused request: r's headers are already set by [Chain.Do]. It calls
// [TrafficGuard.Answer] if there is one, and writes the problem document where that wrote nothing.
// Adapters call it in place of the handler.
func (c *Chain) Answer(w http.ResponseWriter, req *http.Request, r *Rejection) {
	if hook := c.tg.Answer; hook != nil {
		seen := &writeWatch{ResponseWriter: w, status: r.StatusCode()}
		hook(seen, req, r)
		if seen.wrote {
			return
		}
	}
	writeProblem(w, req, r)
}

func writeProblem(w http.ResponseWriter, req *http.Request, r *Rejection) {
	d := r.document()
	h := w.Header()
	v := []string{"application/problem+json", d.length, "nosniff"}
	h["Content-Type"], h["Content-Length"], h["X-Content-Type-Options"] = v[0:1:1], v[1:2:2], v[2:3:3]
	w.WriteHeader(r.StatusCode())
	if req.Method != http.MethodHead {
		_, _ = w.Write(d.body) // the client may be gone: there is nobody to tell
	}
}

// writeWatch notes whether a custom answer wrote anything. A body without a status gets the refusal's: net/http
// would make a 200 of it.
type writeWatch struct {
	http.ResponseWriter
	status int
	wrote  bool
}

func (w *writeWatch) WriteHeader(status int) {
	w.wrote = w.wrote || status >= http.StatusOK
	w.ResponseWriter.WriteHeader(status)
}

func (w *writeWatch) Write(b []byte) (int, error) {
	if !w.wrote {
		w.WriteHeader(w.status)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets [http.ResponseController] reach the writer below.
func (w *writeWatch) Unwrap() http.ResponseWriter { return w.ResponseWriter }
