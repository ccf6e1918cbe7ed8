package host

import (
	"context"
	"net/http"
)

// FirstBoot is what the guest of a server reads from its config drive. It is not part of the assignments: it may be
// large and contain secrets, and an agent needs it only when it makes the drive.
type FirstBoot struct {
	KeyName   string            `json:"key_name,omitempty"`   // of PublicKey; absent: no key
	PublicKey string            `json:"public_key,omitempty"` // in OpenSSH's format
	UserData  []byte            `json:"user_data,omitempty"`  // absent: none
	Hostname  string            `json:"hostname,omitempty"`   // absent: it follows from the name
	AdminPass string            `json:"admin_pass,omitempty"` // absent: none, or the guest has been built with it
	Metadata  map[string]string `json:"metadata,omitempty"`
	Project   string            `json:"project_id,omitempty"`
	Zone      string            `json:"availability_zone,omitempty"`
	Index     int               `json:"launch_index"` // of the server in its request, from 0
	Ports     []BootPort        `json:"ports"`
}

// BootPort is how a guest configures the interface of a port.
type BootPort struct {
	Port      string        `json:"port_id"`
	Network   string        `json:"network_id"`
	MTU       int           `json:"mtu,omitempty"`     // bytes; absent: not known
	VLAN      int           `json:"vlan,omitempty"`    // tag that the guest itself must add; absent: none
	Tag       string        `json:"tag,omitempty"`     // device tag; absent: none
	Trusted   bool          `json:"trusted,omitempty"` // its VF is trusted
	Addresses []BootAddress `json:"addresses"`
}

// The methods by which a guest gets an address. The others are the values of ipv6_address_mode.
const (
	StaticAddress = "static"
	DHCPAddress   = "dhcp"
)

// BootAddress is one address of a port.
type BootAddress struct {
	Method  string      `json:"method"`
	Address string      `json:"address"`
	CIDR    string      `json:"cidr"`              // of the subnet
	Gateway string      `json:"gateway,omitempty"` // absent: none
	Routes  []BootRoute `json:"routes,omitempty"`
	DNS     []string    `json:"dns,omitempty"` // addresses of name servers
}

// BootRoute is a route of a guest.
type BootRoute struct {
	Destination string `json:"destination"` // in CIDR notation
	NextHop     string `json:"next_hop"`
}

// FirstBoot returns what the guest of a server reads when it boots. It returns fault.NotFound for a server that is not
// assigned to the host.
func (c Client) FirstBoot(ctx context.Context, host, server string) (out FirstBoot, err error) {
	_, err = c.REST.Do(ctx, http.MethodGet, path(host, "guests", server), nil, &out)
	return out, err
}
