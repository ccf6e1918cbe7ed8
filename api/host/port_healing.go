package host

import (
	"context"
	"net/http"
)

// HealPorts selects servers whose bound ports are healed: those on a host, or some. Without both it selects all.
type HealPorts struct {
	Host    string   `json:"host,omitempty"`
	Servers []string `json:"servers,omitempty"` // UUIDs
	Apply   bool     `json:"apply"`             // false: only show what would be written
}

// HealedPorts are the servers that need healing, or needed it. The list is never null.
type HealedPorts struct {
	Servers []HealedServer `json:"servers"`
}

// HealedServer is a server whose bound ports need healing.
type HealedServer struct {
	Server  string                    `json:"server"` // UUID
	Name    string                    `json:"name"`
	Host    string                    `json:"host"`
	State   string                    `json:"state"` // one of the states below
	Reason  string                    `json:"reason,omitempty"`
	Ports   []HealedPort              `json:"ports"`   // which are changed, or prevent the healing
	Adds    map[string]map[string]int `json:"adds"`    // to the server's allocation, by provider and resource class
	Removes map[string]map[string]int `json:"removes"` // from the server's allocation
}

// HealedPort is a port of a HealedServer.
type HealedPort struct {
	Port   string            `json:"port"`             // UUID
	Bind   bool              `json:"bind,omitempty"`   // it is bound to the host of the server again
	Groups map[string]string `json:"groups,omitempty"` // the provider that each group gets in binding:profile.allocation
	Device string            `json:"device,omitempty"` // the PCI address of its device, if Placement does not count it
	Reason string            `json:"reason,omitempty"` // why it cannot be healed
}

// The states of a HealedServer. Only the first two are no failure.
const (
	PortsNeedHealing  = "needs healing"
	PortsHealed       = "healed"
	PortsNotAllocated = "not allocated"
	PortsNotRead      = "ports not read"
	PortsNotWritten   = "ports not written"
	PortsNotRestored  = "ports not restored"
	PortsBusy         = "busy"
)

// HealPorts shows or writes what bound ports and the allocations of their servers lack. It returns NotFound for a host
// or a server that does not exist.
func (c Client) HealPorts(ctx context.Context, h HealPorts) (out HealedPorts, err error) {
	_, err = c.REST.Do(ctx, http.MethodPost, "/berth/v1/ports/heal", h, &out)
	return out, err
}
