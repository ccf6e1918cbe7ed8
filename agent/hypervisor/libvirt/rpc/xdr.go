package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// encoder appends values in XDR: big-endian words of four bytes; texts and data have their length before them and are
// padded with zeros.
type encoder struct{ data []byte }

func (e *encoder) word(n uint32) { e.data = binary.BigEndian.AppendUint32(e.data, n) }

func (e *encoder) text(s string) {
	e.word(uint32(len(s)))
	e.data = append(e.data, s...)
	e.data = append(e.data, make([]byte, -len(s)&3)...)
}

// long appends a number of eight bytes.
func (e *encoder) long(n uint64) { e.data = binary.BigEndian.AppendUint64(e.data, n) }

// bool appends 1 for true and 0 for false.
func (e *encoder) bool(set bool) { e.word(map[bool]uint32{true: 1}[set]) }

// opaque appends data of any length.
func (e *encoder) opaque(data []byte) { e.text(string(data)) }

// optionalText appends a text that may be missing; an empty one is.
func (e *encoder) optionalText(s string) {
	if s == "" {
		e.word(0)
		return
	}
	e.word(1)
	e.text(s)
}

// fixed appends data of a fixed length, which is a multiple of four.
func (e *encoder) fixed(data []byte) { e.data = append(e.data, data...) }

// decoder reads values in XDR. After an error all values are zero; err returns it.
type decoder struct {
	data   []byte
	failed error
}

var errShort = errors.New("the message ends in the middle of a value")

func (d *decoder) err() error { return d.failed }

// take returns the next n bytes, or nil after an error.
func (d *decoder) take(n int) []byte {
	if d.failed != nil {
		return nil
	}
	if n < 0 || n > len(d.data) {
		d.failed, d.data = errShort, nil
		return nil
	}
	taken := d.data[:n]
	d.data = d.data[n:]
	return taken
}

func (d *decoder) word() uint32 {
	if b := d.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) number() int { return int(int32(d.word())) }

func (d *decoder) long() uint64 {
	if b := d.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) text() string {
	n := int(d.word())
	if n > maxText {
		d.failed = fmt.Errorf("a text of %d bytes is longer than %d", n, maxText)
		return ""
	}
	s := string(d.take(n))
	d.take(-n & 3)
	return s
}

// opaque returns data of any length.
func (d *decoder) opaque() []byte { return []byte(d.text()) }

// optionalText returns a text that may be missing; a missing one is empty.
func (d *decoder) optionalText() string {
	if d.word() == 0 {
		return ""
	}
	return d.text()
}

// count returns the length of a list, of which each element has at least size bytes.
func (d *decoder) count(size int) int {
	n := int(d.word())
	if d.failed == nil && (n < 0 || n > len(d.data)/size) {
		d.failed = errShort
	}
	if d.failed != nil {
		return 0
	}
	return n
}

// maxText is the longest text in a message (VIR_NET_MESSAGE_STRING_MAX).
const maxText = 4 << 20
