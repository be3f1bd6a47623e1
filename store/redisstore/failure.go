package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/trafficguard-go/trafficguard/store"
)

// A failure is an error of a kind that package store names.
type failure struct {
	kind  error
	cause error
	// ours says that it says nothing about the server: the caller has left, or this process had no room for the call.
	ours bool
}

func (f *failure) Error() string {
	return f.kind.Error() + ": redis: " + strings.TrimPrefix(f.cause.Error(), "redis: ")
}
func (f *failure) Unwrap() []error { return []error{f.kind, f.cause} }

// errOverdue is the cause of the end of a context that ran into the store's own timeout.
var errOverdue = errors.New("no answer in time")

// judge makes an error of go-redis a failure. ctx is what the command was sent with.
func judge(ctx context.Context, err error) *failure {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		// A socket's deadline can come a moment before the same one of the context, which knows whose it is.
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < time.Millisecond {
			<-ctx.Done()
		}
	}
	reply, isReply := errors.AsType[redis.Error](err)
	switch ended := ctx.Err(); {
	case isReply:
		return &failure{kind: kindOf(reply), cause: err}
	case errors.Is(context.Cause(ctx), errOverdue):
		return &failure{kind: store.ErrUnavailable, cause: fmt.Errorf("%w: %w", errOverdue, err)}
	case ended != nil:
		// A deadline is the server's failure whoever set it. Only who hangs up says nothing about the server.
		return &failure{kind: store.ErrUnavailable, cause: fmt.Errorf("%w: %w", ended, err), ours: errors.Is(ended, context.Canceled)}
	case mismatch(err):
		return &failure{kind: store.ErrMisconfigured, cause: err}
	default:
		return &failure{kind: store.ErrUnavailable, cause: err}
	}
}

// kindOf says whether what the server replied will pass by itself.
func kindOf(reply redis.Error) error {
	text := reply.Error()
	if strings.HasPrefix(text, "ERR Error running script") {
		// Before Redis 7 the error of a command within a script comes wrapped: "...: -OOM command not allowed".
		if _, inner, ok := strings.Cut(text, ": -"); ok {
			text = inner
		}
	}
	text = strings.TrimPrefix(text, "ERR ")
	if strings.HasPrefix(text, "max number of clients reached") {
		return store.ErrUnavailable
	}
	switch code, _, _ := strings.Cut(text, " "); code {
	case "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "OOM", "MISCONF", "NOREPLICAS", "UNKILLABLE":
		return store.ErrUnavailable
	// More redirections than are followed: the slots are on the move.
	case "MOVED", "ASK":
		return store.ErrUnavailable
	default:
		return store.ErrMisconfigured
	}
}

// mismatch says whether the error shows that what answers is not what was configured.
func mismatch(err error) bool {
	text := err.Error()
	return is[*tls.CertificateVerificationError](err) || is[tls.RecordHeaderError](err) || is[tls.AlertError](err) ||
		strings.HasPrefix(text, "redis: can't parse") || strings.HasPrefix(text, "redis: invalid reply")
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// repeated logs errors that come with every request: the first at once, then one in each period, with their number.
type repeated struct {
	logger *slog.Logger

	mu     sync.Mutex
	last   time.Time
	missed int
}

const repeatEvery = 10 * time.Second

func (r *repeated) report(err error) {
	r.mu.Lock()
	now := time.Now()
	if !r.last.IsZero() && now.Sub(r.last) < repeatEvery {
		r.missed++
		r.mu.Unlock()
		return
	}
	missed := r.missed
	r.last, r.missed = now, 0
	r.mu.Unlock()
	r.logger.Error("redisstore: misconfigured: limits are not enforced", "error", err, "repeated", missed)
}
