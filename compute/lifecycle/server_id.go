package lifecycle

import (
	"encoding/hex"

	"github.com/google/uuid"
)

// MaxRequested is how many servers one request may create: as many as ServerID can number.
const MaxRequested = 1 << 12

// ServerID returns the id of the i-th server of a request: a UUID of version 8 (RFC 9562). Its first 48 bits are those
// of the request, the next 12 count its servers, and the rest is random. So reservation_id and launch_index need no
// column.
func ServerID(request, random [16]byte, i int) string {
	id := uuid.UUID(random)
	copy(id[:6], request[:6])
	id[6] = 0x80 | byte(i>>8)
	id[7] = byte(i)
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// Reservation returns the reservation and the launch index that a server's id contains.
func Reservation(id string) (reservation string, index int) {
	u, err := uuid.Parse(id)
	if err != nil {
		return "", 0
	}
	if u.Version() == 8 {
		index = int(u[6]&0x0f)<<8 | int(u[7])
	}
	return "r-" + hex.EncodeToString(u[:6]), index
}
