package ports

import (
	"context"
	"fmt"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// Release is the part of Release for ports. Those of a server that ends are deleted if compute created them, else
// they are returned to the user. Otherwise ports are unbound from the host whose claim is released. A server that ends
// may have ports that its record lacks: they were attached after the backup from which it was restored.
func (b *Binder) Release(ctx context.Context, s lifecycle.Server) error {
	ends := s.State == lifecycle.DeletingAllocation || s.State == lifecycle.Failing
	if len(s.Networks) == 0 && (!ends || b.Network == nil) {
		return nil
	}
	ports, err := b.Scheduler.PortsOf(ctx, s)
	if err != nil {
		return err
	}
	for _, p := range ports {
		if err := b.dropAddedBinding(ctx, s, p); err != nil {
			return fmt.Errorf("port %s is not released: %w", p.ID, err)
		}
		switch {
		case ends && createdFor(s, p):
			err = b.Network.DeletePort(ctx, p.ID)
		case ends:
			err = b.unbind(ctx, p, returned(s, p))
		case p.Host == s.Host && p.Host != "":
			err = b.unbind(ctx, p, map[string]any{})
		}
		if err != nil {
			return fmt.Errorf("port %s is not released: %w", p.ID, err)
		}
	}
	return nil
}

// createdFor reports whether compute has created a port of the server.
func createdFor(s lifecycle.Server, p network.Port) bool {
	inNetwork := false
	for _, r := range s.Networks {
		if r.Port == p.ID {
			return false
		}
		inNetwork = inNetwork || r.Port == "" && r.Network == p.Network
	}
	return inNetwork
}

// unbind removes the host of a port and what belongs to it. It returns nil if the port does not exist.
func (b *Binder) unbind(ctx context.Context, p network.Port, attributes map[string]any) error {
	attributes[hostID], attributes[profile] = "", network.UnboundProfile(p.Profile)
	_, err := b.Network.UpdatePort(ctx, p.ID, attributes)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
