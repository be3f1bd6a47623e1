package redisstore

import (
	"context"
	"sync"
)

// A background owns the goroutines that a store starts.
type background struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex // keeps start from running beside stop
	stopped bool
	running sync.WaitGroup
}

func newBackground() *background {
	b := new(background)
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// start runs f in a goroutine, unless b was stopped. f must end soon after its context.
func (b *background) start(f func(ctx context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return false
	}
	b.running.Go(func() { f(b.ctx) })
	return true
}

// stop ends the context of what runs and lets nothing start any more.
func (b *background) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	b.cancel()
}

// wait returns when nothing runs any more. It comes after stop.
func (b *background) wait() { b.running.Wait() }
