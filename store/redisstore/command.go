package redisstore

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// maxRedirects bounds how often one command follows a slot that is on the move.
const maxRedirects = 3

// A script is a Lua script and the digest that Redis knows it by.
type script struct{ text, digest string }

func newScript(text string) script {
	return script{text: text, digest: redis.NewScript(text).Hash()}
}

// A command is what is asked of the server that holds key: to run script, or where that is nil, the command name.
type command struct {
	script *script
	name   string
	key    string
	// args begins with room for what precedes the arguments of a script. It belongs to one exchange at a time.
	args []any
}

// head is how many arguments precede those of a script.
const head = 4

// A mark is the argument that says that one key follows. It learns when go-redis writes the command to a connection.
type mark struct {
	written bool
	text    [1]byte
}

// MarshalBinary implements [encoding.BinaryMarshaler].
func (m *mark) MarshalBinary() ([]byte, error) {
	m.written, m.text[0] = true, '1'
	return m.text[:], nil
}

// cmd returns the command for go-redis and its mark. As long as the server knows the script, its digest will do.
func (c command) cmd(ctx context.Context, known bool) (*redis.Cmd, *mark) {
	if c.script == nil {
		return redis.NewCmd(ctx, c.name, c.key), &mark{written: true}
	}
	m := new(mark)
	if known {
		c.args[0], c.args[1] = "evalsha", c.script.digest
	} else {
		c.args[0], c.args[1] = "eval", c.script.text
	}
	c.args[2], c.args[3] = m, c.key
	cmd := redis.NewCmd(ctx, c.args...)
	cmd.SetFirstKeyPos(3)
	return cmd, m
}

// exchange sends c to one server. It sends it again only if the server says that it does not know the script, so
// nothing was done. After an error, sent says whether the server may have seen c.
func (c command) exchange(ctx context.Context, client *redis.Client, asking bool) (reply any, sent bool, err error) {
	cmd, m := c.cmd(ctx, true)
	if !asking {
		_ = client.Process(ctx, cmd)
	} else {
		pipe := client.Pipeline()
		pipe.Do(ctx, "asking")
		_ = pipe.Process(ctx, cmd)
		_, _ = pipe.Exec(ctx)
	}
	if c.script != nil && redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		cmd, m = c.cmd(ctx, false)
		pipe := client.Pipeline()
		// Not left to EVAL alone, whose scripts newer servers forget when there are many. That it is not permitted
		// is no harm.
		pipe.ScriptLoad(ctx, c.script.text)
		if asking {
			pipe.Do(ctx, "asking")
		}
		_ = pipe.Process(ctx, cmd)
		_, _ = pipe.Exec(ctx)
	}
	reply, err = cmd.Result()
	return reply, m.written && !unwritten(err), err
}

// unwritten reports whether err says that a connection did not take all that was written to it, in which a command
// comes last.
func unwritten(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "write"
}

// send sends c to the server that holds its key, following redirections. Its errors are failures.
func send(ctx context.Context, to servers, c command) (any, error) {
	n, err := to.holder(ctx, c.key)
	if err != nil {
		return nil, err
	}
	asking := false
	for redirects := 0; ; redirects++ {
		reply, err := n.ask(ctx, c, asking)
		if err == nil {
			return reply, nil
		}
		addr, isMoved := redis.IsMovedError(err)
		if !isMoved {
			addr, asking = redis.IsAskError(err)
		} else {
			asking = false
		}
		if addr == "" || redirects == maxRedirects {
			to.failed(err)
			return nil, err
		}
		if n, err = to.follow(n, addr, isMoved); err != nil {
			return nil, err
		}
	}
}
