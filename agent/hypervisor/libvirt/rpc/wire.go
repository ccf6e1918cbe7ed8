package rpc

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/digitalocean/go-libvirt/socket"
)

// The numbers of virnetprotocol.x and remote_protocol.x that go-libvirt does not export.
const (
	program = 0x20008086
	version = 1

	connectOpen = 1 // procedures
	openConsole = 201
	volDownload = 209

	hole = 6 // a type of message: a hole of a stream

	headerSize = 28 // with the length of the message
	// maxMessage is the largest message with its header (VIR_NET_MESSAGE_MAX).
	maxMessage = 16 << 20
)

// wire is a connection from which go-libvirt reads whole messages that it can process. go-libvirt trusts the length of
// a message, takes a hole for data, returns an empty result for an error with the code 0, and stops forever when a
// second reply arrives to a call, or data for a stream, just after it has ended. When the connection ends, it reads a
// field that it may just be writing at the end of ConnectToURI.
type wire struct {
	net.Conn
	in       *bufio.Reader
	rest     []byte                 // of the message that go-libvirt reads
	sending  int                    // bytes of the message that go-libvirt writes which are not written yet
	calls    sync.Map               // true: without a reply; by serial
	consoles map[uint32]bool        // open, by serial
	download atomic.Pointer[Stream] // receives the data of the only download
	replied  bool                   // connectOpen has succeeded; ConnectToURI waits for nothing more
	opened   chan struct{}          // closed when ConnectToURI has ended
	end      func(why error)        // called when the connection does not work any more
}

func newWire(conn net.Conn, end func(error)) *wire {
	return &wire{Conn: conn, in: bufio.NewReader(conn), consoles: map[uint32]bool{}, opened: make(chan struct{}),
		end: end}
}

// Read reads of the next message that is for go-libvirt.
func (w *wire) Read(to []byte) (int, error) {
	for len(w.rest) == 0 {
		message, err := readMessage(w.in)
		if err == nil && w.pass(message) {
			w.rest = message
		}
		if err != nil {
			w.end(err)
			if w.replied { // otherwise ConnectToURI fails, and may wait for the end of the connection
				<-w.opened
			}
			return 0, err
		}
	}
	n := copy(to, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

// Write writes a message, or its next part. If it fails, it ends the connection, because a part has been sent.
func (w *wire) Write(data []byte) (int, error) {
	if w.sending == 0 {
		w.sending = int(word(data, 0))
		if word(data, 4) == socket.Call {
			w.calls.Store(word(data, 5), true)
		}
	}
	w.sending -= len(data)
	n, err := w.Conn.Write(data)
	if err != nil {
		w.end(err)
	}
	return n, err
}

// readMessage reads a message with its header.
func readMessage(in io.Reader) ([]byte, error) {
	message := make([]byte, headerSize)
	if _, err := io.ReadFull(in, message[:4]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(message))
	if size < headerSize || size > 4+maxMessage {
		return nil, fmt.Errorf("a message has the length %d; this is not libvirt's protocol", size-4)
	}
	message = append(message, make([]byte, size-headerSize)...)
	if _, err := io.ReadFull(in, message[4:]); err != nil {
		return nil, err
	}
	if p, v := word(message, 1), word(message, 2); p != program || v != version {
		return nil, fmt.Errorf("a message belongs to program %#x version %d", p, v)
	}
	return message, nil
}

// word returns a word of a message.
func word(message []byte, n int) uint32 { return binary.BigEndian.Uint32(message[4*n:]) }

// pass reports whether go-libvirt gets a message: an event, the reply to a call, or a part of an open console.
func (w *wire) pass(message []byte) bool {
	procedure, kind, serial, status := word(message, 3), word(message, 4), word(message, 5), word(message, 6)
	payload := message[headerSize:]
	if status == socket.StatusError && len(payload) >= 4 && word(payload, 0) == 0 {
		payload[3] = 1 // VIR_ERR_INTERNAL_ERROR
	}
	switch kind {
	case socket.Message:
		return true
	case socket.Reply:
		_, waits := w.calls.LoadAndDelete(serial)
		download := w.download.Load()
		switch opened := waits && status == socket.StatusOK; {
		case opened && procedure == connectOpen:
			w.replied = true
		case opened && procedure == openConsole:
			w.consoles[serial] = true
		case opened && procedure == volDownload && download != nil:
			download.opened()
		}
		return waits
	case socket.Stream, hole:
		if procedure == volDownload {
			return w.downloaded(kind, status, payload)
		}
		open := w.consoles[serial]
		if status != socket.StatusContinue || len(payload) == 0 {
			delete(w.consoles, serial)
		}
		return open && kind == socket.Stream
	}
	return false
}

// downloaded passes a part of a download to its stream. It reports whether go-libvirt gets the message: the first end.
func (w *wire) downloaded(kind, status uint32, payload []byte) bool {
	download := w.download.Load()
	switch {
	case download == nil:
		return false
	case kind == hole:
		length := int64(-1)
		if len(payload) >= 8 {
			length = int64(binary.BigEndian.Uint64(payload))
		}
		if length < 0 {
			download.end(fmt.Errorf("a hole of %d bytes", length))
			break
		}
		download.receive(Piece{Hole: length})
	case status == socket.StatusContinue && len(payload) > 0:
		download.receive(Piece{Data: payload})
	default:
		return w.download.CompareAndSwap(download, nil)
	}
	return false
}
