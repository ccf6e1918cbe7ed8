package rpc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/digitalocean/go-libvirt"

	"github.com/openberth/berth/fault"
)

// Client is one connection to libvirt's daemon. Its methods may be called concurrently. After the connection has ended
// all calls return fault.Unavailable; the caller dials again.
type Client struct {
	wire   *wire
	daemon *libvirt.Libvirt
	limit  time.Duration // of a call; 0: that of its effort
	events chan Event    // closed when the connection has ended
	done   chan struct{} // likewise

	Expires time.Time // when the first of the certificates of both sides ends; zero: there are none

	mu    sync.Mutex
	ended error // why the connection ended; nil while it is open
}

// maxEvents is how many events wait for a receiver. When more arrive, the oldest are dropped; a receiver that may have
// missed some lists the domains again.
const maxEvents = 256

// effort is what a call does, and how long it may take.
type effort struct {
	limit   time.Duration
	changes bool // what the call may have changed must be known
	exact   bool // the limit of the client does not count
}

// The limits of a call. Starting a guest allocates its memory, and attaching a device may reset it.
const (
	callTime   = 30 * time.Second
	changeTime = 5 * time.Minute
)

// The kinds of calls.
var (
	reads  = effort{limit: callTime}
	probes = effort{limit: changeTime} // reads, but libvirt may probe each QEMU first, for minutes
	alters = effort{limit: callTime, changes: true}
	starts = effort{limit: changeTime, changes: true}
	// saves writes the memory of a guest to a file.
	saves = effort{limit: 2 * time.Hour, changes: true, exact: true}
	// migrates is far longer than a migration takes; its caller aborts it.
	migrates = effort{limit: 30 * 24 * time.Hour, changes: true, exact: true}
)

// Close ends the connection and all calls.
func (c *Client) Close() error {
	c.end(net.ErrClosed)
	return nil
}

// Events returns the events of the domains. It is closed when the connection has ended.
func (c *Client) Events() <-chan Event { return c.events }

// Done returns a channel that is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Ended reports whether the connection has ended.
func (c *Client) Ended() bool { return c.reason() != nil }

// reason returns why the connection has ended, or nil.
func (c *Client) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// end ends the connection for a reason. Only the first reason counts.
func (c *Client) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return
	}
	c.ended = fault.New(fault.Unavailable, "the connection to libvirt has ended: %w; it is opened again", why)
	close(c.done)
	close(c.events)
	c.wire.Close()
	if download := c.wire.download.Load(); download != nil { // go-libvirt may wait for its reader
		download.end(c.ended)
	}
}

// subscribe makes Events also return the events of a kind.
func (c *Client) subscribe(ctx context.Context, kind libvirt.DomainEventID) error {
	return do(ctx, c, reads, func(l *libvirt.Libvirt) error {
		open, end := context.WithCancel(context.Background())
		events, err := l.SubscribeEvents(open, kind, nil)
		if err != nil {
			end()
			return err
		}
		go c.deliver(events)
		go func() { // go-libvirt does not end what it has just begun when the connection ends
			<-c.done
			end()
		}()
		return nil
	})
}

// deliver puts events into the queue. It does not wait for a receiver: go-libvirt would keep any number of events.
func (c *Client) deliver(events <-chan any) {
	for one := range events {
		if e, known := eventOf(one); known {
			c.push(e)
		}
	}
}

// push puts an event into the queue, and drops the oldest one if the queue is full.
func (c *Client) push(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.ended == nil {
		select {
		case c.events <- e:
			return
		default:
		}
		select {
		case <-c.events:
		default:
		}
	}
}

// answer is the result of a call.
type answer[T any] struct {
	value T
	err   error
}

// call makes a call and waits for its result. It returns fault.Unavailable when ctx ends, or when the call takes too
// long; the daemon may then have done what was requested. A call that changes something is not abandoned at once when
// ctx ends, so that its caller learns the result of a daemon that answers. go-libvirt waits for the answer to an
// abandoned call, and drops it.
func call[T any](ctx context.Context, c *Client, e effort, f func(*libvirt.Libvirt) (T, error)) (T, error) {
	limit := e.limit
	if !e.exact {
		limit = cmp.Or(c.limit, e.limit)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var got answer[T]
	if err := ctx.Err(); err != nil {
		return got.value, fault.Wrap(fault.Unavailable, err)
	}
	answers := make(chan answer[T], 1)
	go func() {
		value, err := f(c.daemon)
		answers <- answer[T]{value, err}
	}()
	select {
	case got = <-answers:
	case <-ctx.Done():
		if !e.changes || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return got.value, late(ctx)
		}
		select {
		case got = <-answers:
		case <-time.After(cmp.Or(c.limit, callTime)):
			return got.value, late(ctx)
		}
	}
	return got.value, c.failure(got.err)
}

// late returns the fault for a call whose answer is not known.
func late(ctx context.Context) error {
	return fault.New(fault.Unavailable, "libvirt has not answered in time: %w", context.Cause(ctx))
}

// failure returns the error of a call of go-libvirt: that of libvirt, or why the connection has ended.
func (c *Client) failure(err error) error {
	if err = answered(err); err == nil {
		return nil
	}
	if _, is := errors.AsType[*Error](err); !is {
		err = cmp.Or(c.reason(), err)
	}
	return fault.Wrap("", err)
}

// do makes a call that returns nothing.
func do(ctx context.Context, c *Client, e effort, f func(*libvirt.Libvirt) error) error {
	_, err := call(ctx, c, e, func(l *libvirt.Libvirt) (struct{}, error) { return struct{}{}, f(l) })
	return err
}

// openStream runs a call that lasts as long as its stream, and waits until libvirt has opened the stream.
func (c *Client) openStream(ctx context.Context, s *Stream, f func(*libvirt.Libvirt) error) error {
	go func() {
		err := c.failure(f(c.daemon))
		s.end(cmp.Or(err, io.EOF))
		close(s.known)
	}()
	err := do(ctx, c, reads, func(*libvirt.Libvirt) error { return s.awaitOpen() })
	if err != nil {
		s.end(err)
	}
	return err
}
