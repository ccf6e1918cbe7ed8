package compute

import (
	"context"
	"net/http"
	"net/url"
)

// Interface is a port of a server in os-interface.
type Interface struct {
	Port      string             `json:"port_id"`
	Network   string             `json:"net_id"`
	MAC       string             `json:"mac_addr"`
	PortState string             `json:"port_state"`
	FixedIPs  []InterfaceAddress `json:"fixed_ips"`
	*Tagged                      // 2.70
}

// Tagged holds the device tag of an Interface; null: none.
type Tagged struct {
	Tag *string `json:"tag"`
}

// InterfaceAddress is an address of an Interface.
type InterfaceAddress struct {
	Subnet  string `json:"subnet_id"`
	Address string `json:"ip_address"`
}

// AttachInterface is a request to attach a port: a given one, or a new one of a network.
type AttachInterface struct {
	Port     string             `json:"port_id,omitempty"`
	Network  string             `json:"net_id,omitempty"`
	FixedIPs []RequestedAddress `json:"fixed_ips,omitempty"` // at most one, with Network
	Tag      string             `json:"tag,omitempty"`
}

// RequestedAddress is an address of a port that is to be created.
type RequestedAddress struct {
	Address string `json:"ip_address"`
}

func interfacesOf(server string) string {
	return "/v2.1/servers/" + url.PathEscape(server) + "/os-interface"
}

// Interfaces lists the ports of a server, in the order of the server.
func (c *Client) Interfaces(ctx context.Context, server string) ([]Interface, error) {
	var out struct {
		List []Interface `json:"interfaceAttachments"`
	}
	_, err := c.REST.Do(ctx, http.MethodGet, interfacesOf(server), nil, &out)
	return out.List, err
}

// AttachInterface attaches a port to a server. It returns fault.Unavailable if the service has not finished the change
// when it answers; Why.PortChange shows when it has.
func (c *Client) AttachInterface(ctx context.Context, server string, want AttachInterface) (Interface, error) {
	var out struct {
		Interface Interface `json:"interfaceAttachment"`
	}
	_, err := c.REST.Do(ctx, http.MethodPost, interfacesOf(server), map[string]any{"interfaceAttachment": want}, &out)
	return out.Interface, err
}

// DetachInterface requests the detachment of a port. It returns as soon as the request is recorded.
func (c *Client) DetachInterface(ctx context.Context, server, port string) error {
	_, err := c.REST.Do(ctx, http.MethodDelete, interfacesOf(server)+"/"+url.PathEscape(port), nil, nil)
	return err
}
