package operations

import (
	"context"
	"slices"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/binding"
	"github.com/openberth/berth/network/store"
)

// A port has one active binding and, while its server migrates, inactive ones: a client adds that of the destination
// before the migration, activates it at the switchover, and deletes that of the source afterwards.

// Bindings performs the operations on single bindings of ports.
type Bindings struct{ *Service }

// Add adds an inactive binding to a port of a server. If no agent of the host can bind the port, nothing is
// added, and the code of the fault is PortBindingError.
func (s Bindings) Add(ctx context.Context, port string, b store.Binding) (store.Port, error) {
	return s.change(ctx, port, func(tx *store.Tx, p *store.Port, n store.Network) error {
		if !isServerPort(*p) {
			return invalid("Port %s is not a port of a server: its device_owner does not begin with compute:.", p.ID)
		}
		if _, ok := bindingOn(*p, b.Host); ok {
			return conflict("PortBindingAlreadyExists", "Binding for port %s on host %s already exists.", p.ID, b.Host)
		}
		there, err := s.bindOn(ctx, tx, *p, n, b)
		if err == nil {
			p.Inactive = append(p.Inactive, there)
		}
		return err
	})
}

// Update changes an inactive binding of a port.
func (s Bindings) Update(ctx context.Context, port, host string, update func(b *store.Binding) error) (store.Port,
	error) {
	return s.change(ctx, port, func(tx *store.Tx, p *store.Port, n store.Network) error {
		at := inactiveOn(*p, host)
		if at < 0 {
			if p.Binding.Host == host {
				return conflict("PortBindingAlreadyActive", "Binding for port %s on host %s is active; change it with PUT "+
					"/v2.0/ports/%s", p.ID, host, p.ID)
			}
			return noBinding(port, host)
		}
		b := p.Inactive[at].Binding
		if err := update(&b); err != nil {
			return err
		}
		there, err := s.bindOn(ctx, tx, *p, n, b)
		if err == nil {
			p.Inactive[at] = there
		}
		return err
	})
}

// Activate makes an inactive binding of a port the active one. The formerly active binding becomes inactive; its
// allocation belongs to the migration then, so the port has no shares there.
func (s Bindings) Activate(ctx context.Context, port, host string) (store.Port, error) {
	return s.change(ctx, port, func(tx *store.Tx, p *store.Port, n store.Network) error {
		at := inactiveOn(*p, host)
		if at < 0 {
			if p.Binding.Host == host {
				return conflict("PortBindingAlreadyActive", "Binding for port %s on host %s is already active.", p.ID, host)
			}
			return noBinding(port, host)
		}
		if err := tx.LeaveHost(ctx, *p); err != nil {
			return err
		}
		next, former := p.Inactive[at], p.Binding
		p.Inactive = slices.Delete(p.Inactive, at, at+1)
		former.VIF, former.Agent, former.Segment, former.Bridge = binding.Unbound, "", "", ""
		former.Reason = ""
		if former.Host != "" {
			p.Inactive = append(p.Inactive, store.InactiveBinding{Binding: former})
		}
		p.Binding, p.Allocated, p.Status = next.Binding, next.Allocated, active
		return takeDeviceMAC(ctx, tx, p, n, former)
	})
}

// Delete removes a binding of a port. Without its active binding the port is not bound.
func (s Bindings) Delete(ctx context.Context, port, host string) error {
	_, err := s.change(ctx, port, func(tx *store.Tx, p *store.Port, n store.Network) error {
		if p.Binding.Host == host && host != "" {
			if err := tx.LeaveHost(ctx, *p); err != nil {
				return err
			}
			kept, former := p.Inactive, p.Binding
			p.Binding.Host, p.Binding.Profile = "", nil
			err := s.bind(ctx, tx, p, n)
			p.Inactive = kept
			if err != nil {
				return err
			}
			return takeDeviceMAC(ctx, tx, p, n, former)
		}
		at := inactiveOn(*p, host)
		if at < 0 {
			return noBinding(port, host)
		}
		p.Inactive = slices.Delete(p.Inactive, at, at+1)
		return nil
	})
	return err
}

// change changes the bindings of a port in one transaction, after an unfinished change of the port. It returns the
// changed port.
func (s Bindings) change(ctx context.Context, port string,
	change func(tx *store.Tx, p *store.Port, n store.Network) error) (p store.Port, err error) {
	for attempt := 0; attempt < attempts; attempt++ {
		err = s.Store.Write(ctx, func(tx *store.Tx) error {
			if p, err = GetIn[store.Port](ctx, tx, port); err != nil {
				return err
			}
			if err := checkNotPending(ctx, tx, p.ID); err != nil {
				return err
			}
			n, err := GetIn[store.Network](ctx, tx, p.Network)
			if err != nil {
				return err
			}
			if err := change(tx, &p, n); err != nil {
				return err
			}
			s.edited(&p.Base)
			return tx.PutPort(ctx, &p)
		})
		if !repeat(ctx, s.Service, &attempt, err) {
			break
		}
	}
	return p, err
}

// bindOn returns the inactive binding of a port to a host.
func (s Bindings) bindOn(ctx context.Context, tx *store.Tx, p store.Port, n store.Network, b store.Binding) (
	there store.InactiveBinding, err error) {
	p.Binding = b
	if err := s.bind(ctx, tx, &p, n); err != nil {
		return there, err
	}
	if p.Binding.VIF == binding.Failed {
		return there, conflict("PortBindingError", "Binding for port %s on host %s could not be created: %s", p.ID, b.Host,
			p.Binding.Reason)
	}
	return store.InactiveBinding{Binding: p.Binding, Allocated: p.Allocated}, nil
}

// bindingOn returns the binding of a port to a host. ok is false if there is none.
func bindingOn(p store.Port, host string) (b store.Binding, ok bool) {
	if p.Binding.Host == host {
		return p.Binding, true
	}
	if at := inactiveOn(p, host); at >= 0 {
		return p.Inactive[at].Binding, true
	}
	return b, false
}

// inactiveOn returns the index of the inactive binding of a port to a host, or -1.
func inactiveOn(p store.Port, host string) int {
	return slices.IndexFunc(p.Inactive, func(b store.InactiveBinding) bool { return b.Host == host })
}

// dropInactive removes the inactive binding to the host of a new active one; a port without a host has none.
func dropInactive(p *store.Port, host string) {
	p.Inactive = slices.DeleteFunc(slices.Clone(p.Inactive), func(b store.InactiveBinding) bool {
		return host == "" || b.Host == host
	})
}

func noBinding(port, host string) error {
	return fault.New(fault.NotFound, "Binding for port %s on host %s could not be found.", port, host).
		WithCode("PortBindingNotFound")
}
