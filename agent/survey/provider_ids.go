package survey

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/openberth/berth/provider"
)

// ProviderID returns the ID of a device provider that does not exist yet. It is derived from the root and the name, so
// that its creation may be repeated.
func ProviderID(root provider.ID, name string) provider.ID { return nameUUID(root, name) }

// nameUUID returns the version 5 UUID (RFC 9562, section 5.5) of a name in the name space of a UUID.
func nameUUID(space provider.ID, name string) provider.ID {
	h := sha1.New()
	if raw, err := hex.DecodeString(strings.ReplaceAll(string(space), "-", "")); err == nil && len(raw) == 16 {
		h.Write(raw)
	} else {
		h.Write([]byte(space)) // a root that is not a UUID is used as text
	}
	h.Write([]byte(name))
	u := h.Sum(nil)[:16]
	u[6] = u[6]&0x0f | 0x50
	u[8] = u[8]&0x3f | 0x80
	return provider.ID(fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]))
}

// id returns the ID of a device provider by its name.
func (f Facts) id(name string) provider.ID {
	if p, there := f.Actual.ByName(name); there {
		return p.ID
	}
	return ProviderID(f.Root, name)
}
