package redisstore

import (
	"context"

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
	args   []any
}

// cmd returns the command for go-redis. As long as the server knows the script, its digest will do.
func (c command) cmd(ctx context.Context, known bool) *redis.Cmd {
	if c.script == nil {
		return redis.NewCmd(ctx, append([]any{c.name, c.key}, c.args...)...)
	}
	args := make([]any, 0, 4+len(c.args))
	if known {
		args = append(args, "evalsha", c.script.digest)
	} else {
		args = append(args, "eval", c.script.text)
	}
	cmd := redis.NewCmd(ctx, append(append(args, 1, c.key), c.args...)...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// exchange sends c to one server. It sends it again only if the server says that it does not know the script, so
// nothing was done.
func (c command) exchange(ctx context.Context, client *redis.Client, asking bool) (any, error) {
	cmd := c.cmd(ctx, true)
	if !asking {
		_ = client.Process(ctx, cmd)
	} else {
		pipe := client.Pipeline()
		pipe.Do(ctx, "asking")
		_ = pipe.Process(ctx, cmd)
		_, _ = pipe.Exec(ctx)
	}
	if c.script == nil || !redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		return cmd.Result()
	}
	cmd = c.cmd(ctx, false)
	pipe := client.Pipeline()
	// Not left to EVAL alone, whose scripts newer servers forget when there are many. That it is not permitted
	// is no harm.
	pipe.ScriptLoad(ctx, c.script.text)
	if asking {
		pipe.Do(ctx, "asking")
	}
	_ = pipe.Process(ctx, cmd)
	_, _ = pipe.Exec(ctx)
	return cmd.Result()
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
