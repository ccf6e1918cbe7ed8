package rpc

import (
	"bytes"
	"cmp"
	"io"
	"sync"
	"time"

	"github.com/openberth/berth/fault"
)

// maxUnread is how many bytes of a stream wait for their reader. A reader of a console that is slower loses it, because
// the connection carries the replies to all calls, too.
const maxUnread = 1 << 20

// Stream is data in both directions, such as a console. Read and Write may be called concurrently with each other.
type Stream struct {
	waits  bool           // a slow reader lets the connection wait, instead of losing the stream
	input  *io.PipeReader // of go-libvirt: what Write sends; an error aborts the stream
	output *io.PipeWriter
	opened func()        // called when libvirt has opened the stream
	open   chan struct{} // closed by opened
	over   chan struct{} // closed when the stream has ended
	known  chan struct{} // closed when the daemon knows that, or the connection has ended

	mu      sync.Mutex
	changed *sync.Cond
	unread  []Piece
	waiting int   // bytes in unread
	ended   error // io.EOF or a reason; nil while it is open
}

// Piece is a piece of a stream: data, or a hole of a file, which reads as zeros.
type Piece struct {
	Data []byte
	Hole int64 // bytes; 0: Data
}

func newStream(waits bool) *Stream {
	s := &Stream{waits: waits, open: make(chan struct{}), over: make(chan struct{}),
		known: make(chan struct{})}
	s.input, s.output = io.Pipe()
	s.opened = sync.OnceFunc(func() { close(s.open) })
	s.changed = sync.NewCond(&s.mu)
	return s
}

// Read waits for data. It returns io.EOF after the end of the stream.
func (s *Stream) Read(to []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.await(); err != nil {
		return 0, err
	}
	n := copy(to, s.unread[0].Data)
	if s.unread[0].Data = s.unread[0].Data[n:]; len(s.unread[0].Data) == 0 {
		s.unread = s.unread[1:]
	}
	s.waiting -= n
	return n, nil
}

// Next waits for the next piece. It returns io.EOF after the end of the stream.
func (s *Stream) Next() (Piece, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.await(); err != nil {
		return Piece{}, err
	}
	next := s.unread[0]
	s.unread = s.unread[1:]
	s.waiting -= len(next.Data)
	s.changed.Broadcast() // receive may wait
	return next, nil
}

// await waits until there is something to read. It returns why the stream has ended if there is not. The caller holds
// s.mu.
func (s *Stream) await() error {
	for len(s.unread) == 0 && s.ended == nil {
		s.changed.Wait()
	}
	if len(s.unread) == 0 {
		return s.ended
	}
	return nil
}

// Write sends data. After the end of the stream it returns why that has ended.
func (s *Stream) Write(data []byte) (n int, err error) {
	if n, err = s.output.Write(data); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		err = cmp.Or(s.ended, err)
	}
	return n, err
}

// closeTime is how long Close waits for a daemon that does not answer.
const closeTime = 5 * time.Second

// Close ends the stream. A reader that waits receives io.ErrClosedPipe. It waits until the daemon has ended the stream,
// because a console can only be opened again then.
func (s *Stream) Close() error {
	s.end(io.ErrClosedPipe)
	select {
	case <-s.known:
	case <-time.After(closeTime):
	}
	return nil
}

// awaitOpen waits until libvirt has opened the stream. It returns why the stream has ended if it was not opened, or if
// an error has ended it at once.
func (s *Stream) awaitOpen() error {
	select {
	case <-s.open:
	case <-s.over:
		if s.ended != io.EOF { // it does not change any more
			return s.ended
		}
	}
	return nil
}

// receive appends a piece.
func (s *Stream) receive(piece Piece) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.waits && s.waiting > maxUnread && s.ended == nil {
		s.changed.Wait()
	}
	switch {
	case s.ended != nil:
	case !s.waits && s.waiting+len(piece.Data) > maxUnread:
		s.finish(fault.New(fault.Unavailable, "the stream was closed: %d bytes wait to be read, which is the limit",
			s.waiting))
	default:
		s.unread = append(s.unread, piece)
		s.waiting += len(piece.Data)
	}
	s.changed.Broadcast()
}

// end ends the stream for a reason. Only the first reason counts.
func (s *Stream) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.finish(why)
	}
	s.changed.Broadcast()
}

// finish ends an open stream. The caller holds s.mu.
func (s *Stream) finish(why error) {
	s.ended = why
	close(s.over)
	_ = s.input.CloseWithError(why) // both never return an error
	_ = s.output.CloseWithError(io.ErrUnexpectedEOF)
}

// consoleEnd is the end of a console that go-libvirt uses. It begins to read what is sent when the console is open. A
// write never waits and never fails: go-libvirt would then stop to receive the replies to all calls.
type consoleEnd struct{ *Stream }

func (c consoleEnd) Read(to []byte) (int, error) {
	c.opened()
	return c.input.Read(to)
}

func (c consoleEnd) Write(data []byte) (int, error) {
	c.receive(Piece{Data: bytes.Clone(data)})
	return len(data), nil
}
