package libvirt

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// plugPoll is the interval at which the devices of a guest are read while no event arrives.
const plugPoll = time.Second

// portDevices returns the interfaces of a guest that have a device.
func portDevices(g hypervisor.Guest) (out []hypervisor.Interface) {
	for _, i := range g.Interfaces {
		if i.Device != (device.ID{}) {
			out = append(out, i)
		}
	}
	return out
}

// differentDevices reports whether a guest has other devices, or other interfaces with devices, than another value.
func differentDevices(a, b hypervisor.Guest) bool {
	return !slices.Equal(ids(a), ids(b)) || !slices.Equal(portDevices(a), portDevices(b))
}

// plugger attaches devices of ports to a running guest, and detaches them. The metadata have a device from before the
// guest has it until the guest has released it. Meanwhile its interface in them has no port, so that an agent that
// starts again builds the guest again, which continues. Each step looks at what the domain has.
type plugger struct {
	*builder
	c *rpc.Client // a connection of its own, for the events
}

// plug gives a running guest the devices of its ports, and takes those of former ports. Conflict: the guest does not
// release a device, or libvirt does not attach one; then the guest keeps what it had.
func (b *builder) plug(ctx context.Context) error {
	c, err := rpc.Dial(ctx, b.d.o.Socket, b.d.o.URI, b.d.o.CallTime)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.WatchDevices(ctx); err != nil {
		return err
	}
	p := &plugger{builder: b, c: c}
	was := b.domain.guest
	if err := p.hold(ctx); err != nil {
		return err
	}
	if err := p.change(ctx, was); err != nil {
		if !fault.Is(err, fault.Unavailable) {
			err = errors.Join(err, p.restore(context.WithoutCancel(ctx), was))
		}
		return err
	}
	return p.store(ctx, b.guest)
}

// hold stores the devices that the guest has and those that it will have, with their interfaces as unfinished.
func (p *plugger) hold(ctx context.Context) error {
	p.d.defining.Lock()
	defer p.d.defining.Unlock()
	domains, _, err := p.d.list(ctx, p.c)
	if err != nil {
		return err
	}
	was := p.domain.guest
	if err := checkDevices(p.guest, was, true, domains); err != nil {
		return err
	}
	g := was
	g.Devices, g.Interfaces = slices.Clone(was.Devices), nil
	for _, one := range p.guest.Devices {
		if !slices.Contains(ids(was), one.ID) {
			g.Devices = append(g.Devices, one)
		}
	}
	slices.SortFunc(g.Devices, func(a, b hypervisor.Device) int { return a.ID.Compare(b.ID) })
	for _, i := range slices.Concat(was.Interfaces, portDevices(p.guest)) {
		changes := !slices.Contains(was.Interfaces, i) || !slices.Contains(p.guest.Interfaces, i)
		if i.Device != (device.ID{}) && changes {
			i = hypervisor.Interface{Device: i.Device, VNIC: i.VNIC, MAC: i.MAC}
		}
		if !slices.Contains(g.Interfaces, i) {
			g.Interfaces = append(g.Interfaces, i)
		}
	}
	return p.store(ctx, g)
}

// restore stores the devices that the running domain has after a refused change, among those of before and after it.
func (p *plugger) restore(ctx context.Context, was hypervisor.Guest) error {
	all := slices.Concat(portDevices(was), portDevices(p.guest))
	g := was
	g.Devices = slices.Clone(p.domain.guest.Devices)
	g.Interfaces = slices.DeleteFunc(slices.Clone(was.Interfaces), func(i hypervisor.Interface) bool {
		return i.Device != (device.ID{})
	})
	kept := map[device.ID]bool{}
	for _, i := range all {
		element, err := p.find(ctx, i, rpc.Live)
		switch {
		case err != nil:
			return err
		case element == "":
			g.Devices = slices.DeleteFunc(g.Devices, func(d hypervisor.Device) bool { return d.ID == i.Device })
		case !kept[i.Device]:
			kept[i.Device] = true
			g.Interfaces = append(g.Interfaces, i)
		}
	}
	return p.store(ctx, g)
}

// store replaces the guest in the metadata. It must run, or not, as before.
func (p *plugger) store(ctx context.Context, g hypervisor.Guest) error {
	g.Stopped, g.ShutDown, g.Build = p.domain.xml.Guest.Stopped, false, p.domain.guest.Build
	if err := p.d.storeGuest(ctx, p.c, p.domain, g); err != nil {
		return err
	}
	stopped := p.domain.guest.Stopped
	p.domain.guest = g
	p.domain.guest.Stopped = stopped
	return nil
}

// change detaches devices and attaches others, first to the running domain and then in its definition.
func (p *plugger) change(ctx context.Context, was hypervisor.Guest) error {
	host, err := p.d.withNames(p.host, p.guest)
	if err != nil {
		return err
	}
	now := portDevices(p.guest)
	for _, i := range portDevices(was) {
		if slices.Contains(now, i) {
			continue
		}
		for _, in := range []rpc.XMLKind{rpc.Live, rpc.Persistent} {
			if err := p.detach(ctx, i, in); err != nil {
				return err
			}
		}
	}
	for _, i := range now {
		element, err := domainxml.PortDevice(host, i, p.guest.Devices)
		if err != nil {
			return err
		}
		for _, in := range []rpc.XMLKind{rpc.Live, rpc.Persistent} {
			if err := p.attach(ctx, i, element, in); err != nil {
				return err
			}
		}
	}
	return nil
}

// affects returns what a change of a form of the definition affects.
func affects(in rpc.XMLKind) rpc.Impact {
	if in == rpc.Live {
		return rpc.RunningDomain
	}
	return rpc.Definition
}

// find returns the element of a device in a form of the domain's definition; empty: it has none. Unavailable: the
// guest does not run any more; then it is changed like any stopped guest.
func (p *plugger) find(ctx context.Context, i hypervisor.Interface, in rpc.XMLKind) (element string, err error) {
	current, err := p.c.Lookup(ctx, p.domain.UUID)
	if err != nil {
		return "", err
	}
	if current.ID != p.domain.ID {
		return "", fault.New(fault.Unavailable, "the guest %s has ended while its devices were changed", p.guest.ID)
	}
	text, err := p.c.XML(ctx, current, in)
	if err != nil {
		return "", err
	}
	parsed, err := domainxml.Decode(text)
	if err != nil {
		return "", fault.New(fault.Unavailable, "%s", unreadable(current, err))
	}
	return domainxml.DeviceIn(parsed, i)
}

// attach attaches the device of an interface, unless the domain has it.
func (p *plugger) attach(ctx context.Context, i hypervisor.Interface, element string, in rpc.XMLKind) error {
	has, err := p.find(ctx, i, in)
	if err != nil || has != "" {
		return err
	}
	err = p.c.Attach(ctx, p.domain.Domain, affects(in), element)
	if refused, is := errors.AsType[*rpc.Error](err); is {
		return fault.New(fault.Conflict, "the device %s of port %s cannot be attached to the running guest "+
			"%s: %w; stop the server, attach the port, and start the server", i.Device, i.Port, p.guest.ID, refused)
	}
	return err
}

// detach detaches a device, if the domain has it, and returns when it is released.
func (p *plugger) detach(ctx context.Context, i hypervisor.Interface, in rpc.XMLKind) error {
	attempts := max(1, p.d.o.Detaching.Attempts)
	var last error
	for attempt := 1; attempt <= attempts; attempt++ {
		element, err := p.find(ctx, i, in)
		if err != nil || element == "" {
			return err
		}
		err = p.c.Detach(ctx, p.domain.Domain, affects(in), element)
		refused, is := errors.AsType[*rpc.Error](err)
		switch {
		case is && refused.Code == rpc.ErrDeviceMissing:
			return nil
		case is && in == rpc.Live: // QEMU refuses another request while one is pending
			last = refused
		case err != nil:
			return err
		}
		if released, err := p.awaitRelease(ctx, i, in); released || err != nil {
			return err
		}
		p.d.o.Log.Info("device not released by its guest", "guest", p.guest.ID, "device", i.Device, "attempt", attempt,
			"error", last)
	}
	return fault.New(fault.Conflict, "the guest %s has not released the device %s after %d requests in %s, so it "+
		"keeps the device; detach the port again when the operating system of the guest has started, or stop the server "+
		"first", p.guest.ID, i.Device, attempts, time.Duration(attempts)*p.d.o.Detaching.Timeout)
}

// awaitRelease reports whether the domain has lost a device within the configured time. It reads the definition after
// each event, because another device may have been removed, and from time to time, because events may be lost.
func (p *plugger) awaitRelease(ctx context.Context, i hypervisor.Interface,
	in rpc.XMLKind) (released bool, err error) {
	late := time.After(p.d.o.Detaching.Timeout)
	tick := time.NewTicker(plugPoll)
	defer tick.Stop()
	for {
		element, err := p.find(ctx, i, in)
		if err != nil || element == "" {
			return err == nil, err
		}
		select {
		case <-ctx.Done():
			return false, fault.New(fault.Unavailable, "the guest %s has not released the device %s yet: %w",
				p.guest.ID, i.Device, context.Cause(ctx))
		case e := <-p.c.Events(): // closed with the connection; then find returns the fault
			if e.Kind == rpc.EventDeviceNotRemoved && e.Domain.UUID == p.domain.UUID {
				return false, nil
			}
		case <-tick.C:
		case <-late:
			return false, nil
		}
	}
}
