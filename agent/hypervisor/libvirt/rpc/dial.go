package rpc

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"

	"github.com/openberth/berth/fault"
)

// Dial connects to the daemon's socket, such as /run/libvirt/libvirt-sock, and opens a hypervisor, such as
// qemu:///system. limit is that of each call; 0: 30 seconds, and 5 minutes for those that start or end a domain.
func Dial(ctx context.Context, socket, uri string, limit time.Duration) (*Client, error) {
	dialer := net.Dialer{Timeout: cmp.Or(limit, callTime)}
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "libvirt cannot be reached at %s: %w; start libvirtd, or with "+
			"separate daemons virtproxyd.socket", socket, err)
	}
	return newClient(ctx, conn, uri, limit)
}

// newClient opens a hypervisor on a connection. It closes the connection if that fails.
func newClient(ctx context.Context, conn net.Conn, uri string, limit time.Duration) (*Client, error) {
	c := &Client{limit: limit, events: make(chan Event, maxEvents), done: make(chan struct{})}
	c.wire = newWire(conn, c.end)
	c.daemon = libvirt.NewWithDialer(dialers.NewAlreadyConnected(c.wire))
	if err := c.open(ctx, uri); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// open authenticates, opens a hypervisor and registers for events.
func (c *Client) open(ctx context.Context, uri string) error {
	err := do(ctx, c, reads, func(l *libvirt.Libvirt) error {
		defer close(c.wire.opened)
		return l.ConnectToURI(libvirt.ConnectURI(uri))
	})
	if hasCode(err, libvirt.ErrRPC) && strings.Contains(err.Error(), "authentication required") {
		return fault.New(fault.Forbidden, "libvirt requires SASL on this socket; use the local socket of the daemon")
	}
	if err != nil {
		return err
	}
	return c.subscribe(ctx, libvirt.DomainEventIDLifecycle)
}

// WatchDevices makes Events also return that running domains have lost devices, or have refused to release them.
func (c *Client) WatchDevices(ctx context.Context) error {
	return errors.Join(c.subscribe(ctx, libvirt.DomainEventIDDeviceRemoved),
		c.subscribe(ctx, libvirt.DomainEventIDDeviceRemovalFailed))
}
