package libvirt

import (
	"context"
	"strings"
	"time"

	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// uriOf returns the address of the libvirt of a host.
func (m Migration) uriOf(host string) (string, error) {
	if m.URI == "" {
		return "", fault.New(fault.Conflict, "no address of other hosts is configured; set [libvirt] "+
			"live_migration_uri")
	}
	return strings.ReplaceAll(m.URI, "%s", host), nil
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
