package httpadapter

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/felixge/httpsnoop"
)

// serveWatched runs next and returns the status of its response, which is 200 where it wrote none. It is 0,
// unknown, where next took the connection over.
func serveWatched(next http.Handler, w http.ResponseWriter, r *http.Request) int {
	var status int
	var hijacked bool
	note := func(s int) {
		if status == 0 && (s >= http.StatusOK || s == http.StatusSwitchingProtocols) {
			status = s
		}
	}
	next.ServeHTTP(httpsnoop.Wrap(w, httpsnoop.Hooks{
		WriteHeader: func(write httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(s int) { note(s); write(s) }
		},
		Write: func(write httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(b []byte) (int, error) { note(http.StatusOK); return write(b) }
		},
		WriteString: func(write httpsnoop.WriteStringFunc) httpsnoop.WriteStringFunc {
			return func(s string) (int, error) { note(http.StatusOK); return write(s) }
		},
		ReadFrom: func(read httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(src io.Reader) (int64, error) { note(http.StatusOK); return read(src) }
		},
		Flush: func(flush httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() { note(http.StatusOK); flush() }
		},
		Hijack: func(hijack httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, rw, err := hijack()
				hijacked = hijacked || err == nil
				return conn, rw, err
			}
		},
	}), r)
	if !hijacked {
		note(http.StatusOK)
	}
	return status
}
