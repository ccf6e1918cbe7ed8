package store

import (
	"crypto/rand"
	"fmt"

	"github.com/openberth/berth/fault"
)

// newUUID returns a random UUID (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// wrap adds the operation to an error; a fault keeps its kind.
func wrap(err error) error { return fault.Wrap("", err) }
