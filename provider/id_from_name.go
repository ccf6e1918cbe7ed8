package provider

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"
)

// IDFromName returns the version 5 UUID (RFC 9562, section 5.5) of a name in the name space of an ID. Equal arguments
// give equal IDs, so that creating a provider may be repeated. A space that is not a UUID is used as text.
func IDFromName(space ID, name string) ID {
	h := sha1.New()
	if raw, err := hex.DecodeString(strings.ReplaceAll(string(space), "-", "")); err == nil && len(raw) == 16 {
		h.Write(raw)
	} else {
		h.Write([]byte(space))
	}
	h.Write([]byte(name))
	u := h.Sum(nil)[:16]
	u[6] = u[6]&0x0f | 0x50
	u[8] = u[8]&0x3f | 0x80
	return ID(fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]))
}
