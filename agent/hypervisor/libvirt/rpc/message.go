package rpc

import (
	"encoding/binary"
	"fmt"
	"io"
)

// The numbers of virnetprotocol.x.
const (
	program = 0x20008086
	version = 1

	kindCall    = 0
	kindReply   = 1
	kindMessage = 2 // an event
	kindStream  = 3
	kindHole    = 6 // of a stream

	statusOK       = 0
	statusError    = 1
	statusContinue = 2

	lengthSize = 4
	headerSize = 24
	// maxMessage is the largest message with its header (VIR_NET_MESSAGE_MAX).
	maxMessage = 16 << 20
)

// header is the beginning of a message.
type header struct {
	program, version uint32
	procedure        Procedure
	kind             uint32
	serial           uint32 // of the call that a reply or stream belongs to; 0 for events
	status           uint32
}

// writeMessage writes a message in one piece.
func writeMessage(w io.Writer, h header, payload []byte) error {
	size := lengthSize + headerSize + len(payload)
	if size > lengthSize+maxMessage {
		return fmt.Errorf("the message has %d bytes, and libvirt accepts %d", size, maxMessage)
	}
	e := encoder{data: make([]byte, 0, size)}
	for _, word := range []uint32{uint32(size), program, version, uint32(h.procedure), h.kind, h.serial, h.status} {
		e.word(word)
	}
	e.fixed(payload)
	_, err := w.Write(e.data)
	return err
}

// readMessage reads the next message.
func readMessage(r io.Reader) (h header, payload []byte, err error) {
	var length [lengthSize]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return h, nil, err
	}
	size := int(binary.BigEndian.Uint32(length[:])) - lengthSize
	if size < headerSize || size > maxMessage {
		return h, nil, fmt.Errorf("a message has the length %d; this is not libvirt's protocol", size)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		return h, nil, err
	}
	d := decoder{data: data}
	h = header{program: d.word(), version: d.word(), procedure: Procedure(d.word()), kind: d.word(), serial: d.word(),
		status: d.word()}
	return h, d.data, d.err()
}

// ErrorCode is the number of an error of libvirt (virErrorNumber).
type ErrorCode int

// The errors that the driver distinguishes.
const (
	ErrNoSupport        ErrorCode = 3  // the daemon has no driver for this
	ErrNoPool           ErrorCode = 49 // there is no storage pool with this name
	ErrNoVolume         ErrorCode = 50 // no storage pool has a volume with this path
	ErrNoDomain         ErrorCode = 42 // there is no domain with this name or UUID
	ErrOperationInvalid ErrorCode = 55 // not in this state of the domain
	ErrNoSecret         ErrorCode = 66 // there is no secret with this UUID
	ErrOperationTimeout ErrorCode = 68
	ErrNoDevice         ErrorCode = 23
	ErrDeviceMissing    ErrorCode = 99 // the domain does not have the device
)

// Error is an error that libvirt returned.
type Error struct {
	Code    ErrorCode
	Message string
}

// Error returns the message with the number.
func (e *Error) Error() string { return fmt.Sprintf("libvirt: %s (error %d)", e.Message, e.Code) }

// decodeError decodes virNetMessageError. The other fields repeat parts of the message.
func decodeError(payload []byte) error {
	d := decoder{data: payload}
	code := ErrorCode(d.number())
	d.number() // the part of libvirt
	message := d.optionalText()
	if err := d.err(); err != nil {
		return fmt.Errorf("an error of libvirt cannot be decoded: %w", err)
	}
	return &Error{Code: code, Message: message}
}
