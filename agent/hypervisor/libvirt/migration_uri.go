package libvirt

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// Locate returns the address that another host has reported for migrations; empty: it has reported none.
type Locate func(ctx context.Context, host string) (string, error)

// uriOf returns the address of the libvirt of a host.
func (o *Options) uriOf(ctx context.Context, host string) (string, error) {
	address := ""
	switch {
	case host == o.Host:
		address = o.Migration.Address
	case o.Locate != nil:
		var err error
		if address, err = o.Locate(ctx, host); err != nil {
			return "", fault.New(fault.KindOf(err), "the address of host %s is not known: %w", host, err)
		}
	}
	return o.Migration.uri(cmp.Or(address, host))
}

// uri returns the address of the libvirt at an IP address or a name.
func (m Migration) uri(at string) (string, error) {
	if m.URI == "" {
		return "", fault.New(fault.Conflict, "no address of other hosts is configured; set [libvirt] "+
			"live_migration_uri")
	}
	return strings.ReplaceAll(m.URI, "%s", bracketed(at)), nil
}

// bracketed returns an address for the host of a URI.
func bracketed(at string) string {
	if strings.Contains(at, ":") && !strings.HasPrefix(at, "[") {
		return "[" + at + "]"
	}
	return at
}

// drain receives the events of a connection, which are not used.
func drain(c *rpc.Client) {
	go func() {
		for range c.Events() {
		}
	}()
}

// dialer returns a function that connects to the libvirt of another host.
func dialer(uri string, limit time.Duration) func(ctx context.Context) (*rpc.Client, error) {
	return func(ctx context.Context) (*rpc.Client, error) {
		c, err := rpc.DialURI(ctx, uri, limit)
		if err == nil {
			drain(c)
		}
		return c, err
	}
}
