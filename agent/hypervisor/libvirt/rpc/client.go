package rpc

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/openberth/berth/fault"
)

// Client is one connection to libvirt's daemon. Its methods may be called concurrently. After the connection has ended
// all calls return fault.Unavailable; the caller dials again.
type Client struct {
	conn    net.Conn
	limit   time.Duration // of a call; 0: that of its procedure
	writing sync.Mutex
	events  chan Event    // closed when the connection has ended
	done    chan struct{} // likewise

	mu      sync.Mutex
	serial  uint32
	calls   map[uint32]chan reply // by serial
	streams map[uint32]*Stream    // by the serial of the call that opened the stream
	ended   error                 // why the connection ended; nil while it is open
}

// reply is the answer to a call.
type reply struct {
	payload []byte
	err     error
}

// maxEvents is how many events wait for a receiver. When more arrive, the oldest are dropped; a receiver that may have
// missed some lists the domains again.
const maxEvents = 256

// Close ends the connection and all calls.
func (c *Client) Close() error {
	c.end(net.ErrClosed)
	return nil
}

// Events returns the events of the domains. It is closed when the connection has ended.
func (c *Client) Events() <-chan Event { return c.events }

// Ended reports whether the connection has ended.
func (c *Client) Ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended != nil
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
	c.conn.Close()
	for serial, call := range c.calls {
		call <- reply{err: c.ended}
		delete(c.calls, serial)
	}
	for serial, stream := range c.streams {
		stream.end(c.ended)
		delete(c.streams, serial)
	}
}

// read distributes messages until the connection ends.
func (c *Client) read() {
	defer close(c.events)
	in := bufio.NewReader(c.conn)
	for {
		h, payload, err := readMessage(in)
		if err == nil && (h.program != program || h.version != version) {
			err = fmt.Errorf("a message belongs to program %#x version %d", h.program, h.version)
		}
		if err == nil {
			err = c.distribute(h, payload)
		}
		if err != nil {
			c.end(err)
			return
		}
	}
}

// distribute passes a message to the call, the stream or the receiver of events that it is for.
func (c *Client) distribute(h header, payload []byte) error {
	switch h.kind {
	case kindReply:
		answer := reply{payload: payload}
		if h.status == statusError {
			answer = reply{err: decodeError(payload)}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if call := c.calls[h.serial]; call != nil { // otherwise its caller has stopped waiting
			call <- answer
			delete(c.calls, h.serial)
		}
	case kindMessage:
		event, known, err := decodeEvent(h.procedure, payload)
		if err != nil || !known {
			return err
		}
		c.deliver(event)
	case kindStream:
		c.receive(h, Piece{Data: payload})
	case kindHole:
		d := decoder{data: payload}
		length := int64(d.long())
		if err := d.err(); err != nil || length < 0 {
			return fmt.Errorf("a hole of %d bytes: %w", length, err)
		}
		c.receive(h, Piece{Hole: length})
	}
	return nil
}

// deliver puts an event into the queue. It does not wait: a slow receiver must not block replies.
func (c *Client) deliver(e Event) {
	for {
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

// receive passes a piece to a stream, or ends it.
func (c *Client) receive(h header, piece Piece) {
	c.mu.Lock()
	stream := c.streams[h.serial]
	c.mu.Unlock()
	switch {
	case stream == nil: // it was closed here
		return
	case h.status == statusError:
		stream.end(decodeError(piece.Data))
	case h.status == statusOK || len(piece.Data) == 0 && piece.Hole == 0:
		stream.end(io.EOF)
	case stream.receive(piece):
		return
	}
	c.forgetStream(h.serial)
}

func (c *Client) forgetStream(serial uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.streams, serial)
}

// call sends a call and waits for its reply. It returns fault.Unavailable when ctx ends, or when the call takes too
// long; the daemon may then have done what was requested. A call that changes something is not abandoned at once when
// ctx ends, so that its caller learns the result of a daemon that answers. If stream is not nil, it receives the data
// that follows the reply.
func (c *Client) call(ctx context.Context, p Procedure, arguments encoder, stream *Stream) (*decoder, error) {
	limit := cmp.Or(c.limit, p.limit())
	if p == domainMigratePerform {
		limit = p.limit()
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer := make(chan reply, 1)
	if err := ctx.Err(); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err)
	}
	serial, err := c.enter(answer, stream)
	if err != nil {
		return nil, fault.Wrap("", err)
	}
	if err := c.send(header{procedure: p, kind: kindCall, serial: serial}, arguments.data); err != nil {
		c.end(err)
	}
	var got reply
	select {
	case got = <-answer:
	case <-ctx.Done():
		got = c.lateAnswer(ctx, p, answer)
	}
	if got.err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calls, serial)
		delete(c.streams, serial)
		return nil, fault.Wrap("", got.err)
	}
	return &decoder{data: got.payload}, nil
}

// lateAnswer returns the reply to a call after ctx has ended: to one that changes something and that its caller has
// abandoned, the reply that arrives within the limit of a usual call.
func (c *Client) lateAnswer(ctx context.Context, p Procedure, answer chan reply) reply {
	missing := reply{err: fault.New(fault.Unavailable, "libvirt has not answered in time: %w",
		context.Cause(ctx))}
	if p.onlyReads() || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return missing
	}
	timer := time.NewTimer(cmp.Or(c.limit, callTime))
	defer timer.Stop()
	select {
	case got := <-answer:
		return got
	case <-timer.C:
		return missing
	}
}

// enter adds a call, and returns its serial.
func (c *Client) enter(answer chan reply, stream *Stream) (serial uint32, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return 0, c.ended
	}
	c.serial++
	c.calls[c.serial] = answer
	if stream != nil {
		stream.serial = c.serial
		c.streams[c.serial] = stream
	}
	return c.serial, nil
}

// send writes a message.
func (c *Client) send(h header, payload []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return writeMessage(c.conn, h, payload)
}

// Done returns a channel that is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }
