package rpc

import (
	"io"
	"sync"

	"github.com/openberth/berth/fault"
)

// maxUnread is how many bytes of a stream wait for their reader. A reader that is slower loses the stream, because the
// connection carries the replies to all calls, too.
const maxUnread = 1 << 20

// Stream is data in both directions, such as a console. Read and Write may be called concurrently with each other.
type Stream struct {
	procedure Procedure
	serial    uint32
	waits     bool // a slow reader lets the connection wait, instead of losing the stream
	send      func(header, []byte) error
	forget    func(serial uint32) // called at most once

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

func newStream(p Procedure, send func(header, []byte) error, forget func(serial uint32)) *Stream {
	s := &Stream{procedure: p, send: send, forget: forget}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// Read waits for data. It returns io.EOF after the end of the stream.
func (s *Stream) Read(to []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.unread) == 0 && s.ended == nil {
		s.changed.Wait()
	}
	if len(s.unread) == 0 {
		return 0, s.ended
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
	for len(s.unread) == 0 && s.ended == nil {
		s.changed.Wait()
	}
	if len(s.unread) == 0 {
		return Piece{}, s.ended
	}
	next := s.unread[0]
	s.unread = s.unread[1:]
	s.waiting -= len(next.Data)
	s.changed.Broadcast() // receive may wait
	return next, nil
}

// maxStreamData is the largest piece of data in one message (VIR_NET_MESSAGE_LEGACY_PAYLOAD_MAX).
const maxStreamData = 256 << 10

// Write sends data.
func (s *Stream) Write(data []byte) (n int, err error) {
	for len(data) > 0 {
		if err := s.state(); err != nil {
			return n, err
		}
		part := data[:min(len(data), maxStreamData)]
		if err := s.send(s.header(statusContinue), part); err != nil {
			return n, fault.Wrap(fault.Unavailable, err)
		}
		n, data = n+len(part), data[len(part):]
	}
	return n, nil
}

// Close ends the stream. A reader that waits receives io.ErrClosedPipe.
func (s *Stream) Close() error {
	if s.end(io.ErrClosedPipe) {
		s.forget(s.serial)
		return s.send(s.header(statusError), nil) // an abort: a finished stream would be awaited
	}
	return nil
}

func (s *Stream) header(status uint32) header {
	return header{procedure: s.procedure, kind: kindStream, serial: s.serial, status: status}
}

// state returns why the stream has ended, or nil.
func (s *Stream) state() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// receive appends a piece. It reports whether the stream continues.
func (s *Stream) receive(piece Piece) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.waits && s.waiting > maxUnread && s.ended == nil {
		s.changed.Wait()
	}
	if !s.waits && s.waiting+len(piece.Data) > maxUnread && s.ended == nil {
		s.ended = fault.New(fault.Unavailable, "the stream was closed: %d bytes wait to be read, which "+
			"is the limit", s.waiting)
	}
	if s.ended == nil {
		s.unread = append(s.unread, piece)
		s.waiting += len(piece.Data)
	}
	s.changed.Broadcast()
	return s.ended == nil
}

// end ends the stream for a reason and reports whether it was open.
func (s *Stream) end(why error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.ended == nil
	if was {
		s.ended = why
	}
	s.changed.Broadcast()
	return was
}
