package rpc

import (
	"cmp"
	"context"
	"errors"
	"net"
	"time"

	"github.com/openberth/berth/fault"
)

// The limits of a call. Starting a guest allocates its memory, and attaching a device may reset it.
const (
	callTime   = 30 * time.Second
	changeTime = 5 * time.Minute
	// migrationTime is far longer than a migration takes; its caller aborts it.
	migrationTime = 30 * 24 * time.Hour
)

// Dial connects to the daemon's socket, such as /run/libvirt/libvirt-sock, and opens a hypervisor, such as
// qemu:///system. limit is that of each call; 0: 30 seconds, and 5 minutes for those that start or end a domain.
func Dial(ctx context.Context, socket, uri string, limit time.Duration) (*Client, error) {
	dialer := net.Dialer{Timeout: cmp.Or(limit, callTime)}
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "libvirt cannot be reached at %s: %w; start libvirtd", socket, err)
	}
	return newClient(ctx, conn, uri, limit)
}

// newClient opens a hypervisor on a connection. It closes the connection if that fails.
func newClient(ctx context.Context, conn net.Conn, uri string, limit time.Duration) (*Client, error) {
	c := &Client{conn: conn, limit: limit, events: make(chan Event, maxEvents),
		done: make(chan struct{}), calls: map[uint32]chan reply{},
		streams: map[uint32]*Stream{}}
	go c.read()
	if err := c.open(ctx, uri); err != nil {
		return nil, errors.Join(fault.Wrap("", err), c.Close())
	}
	return c, nil
}

// The authentication that a daemon requires of this connection (remote_auth_type).
const authPolkitType = 2

// open authenticates, opens a hypervisor and registers for events.
func (c *Client) open(ctx context.Context, uri string) error {
	d, err := c.call(ctx, authList, encoder{}, nil)
	if err != nil {
		return err
	}
	var types []int
	for range d.count(4) {
		types = append(types, d.number())
	}
	if len(types) > 0 && types[0] == authPolkitType {
		if d, err = c.call(ctx, authPolkit, encoder{}, nil); err != nil {
			return err
		}
		d.number()
	} else if len(types) > 0 && types[0] != 0 {
		return fault.New(fault.Forbidden, "libvirt requires SASL on this socket; use the local socket of the daemon")
	}
	var open encoder
	open.optionalText(uri)
	open.word(0)
	if _, err := c.call(ctx, connectOpen, open, nil); err != nil {
		return err
	}
	return registerEvents(ctx, c, 0) // VIR_DOMAIN_EVENT_ID_LIFECYCLE
}

// WatchDevices makes Events also return that running domains have lost devices, or have refused to release them.
func (c *Client) WatchDevices(ctx context.Context) error {
	const removed, notRemoved = 15, 22 // VIR_DOMAIN_EVENT_ID_DEVICE_…
	return errors.Join(registerEvents(ctx, c, removed), registerEvents(ctx, c, notRemoved))
}

// registerEvents registers for a kind of events of all domains.
func registerEvents(ctx context.Context, c *Client, kind uint32) error {
	var e encoder
	e.word(kind)
	e.word(0) // of all domains
	_, err := c.call(ctx, registerDomainEvent, e, nil)
	return err
}
