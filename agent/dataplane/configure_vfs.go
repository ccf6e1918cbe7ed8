// Package dataplane configures the VFs of a host for the ports of its guests: it reads the ports from the network
// service, and changes what differs. It decides nothing about guests; package reconcile says when a VF is configured
// and when it is reset.
package dataplane

import (
	"context"
	"log/slog"
	"sync"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// Links finds, reads and changes VFs; vflink.Links implements it. The faults are NotFound for a VF that does not exist
// or whose PF is not a network interface, and Invalid for what the NIC does not support.
type Links interface {
	Find(address pci.Address) (vfconfig.VF, error)
	Read(vf vfconfig.VF) (vfconfig.Settings, error)
	Set(vf vfconfig.VF, o vfconfig.Operation) error
}

// Ports returns the ports of a host; *network.Client implements it. NotFound: the network service has no such request,
// as Neutron.
type Ports interface {
	HostPorts(ctx context.Context, host string, since int64) (network.HostPorts, error)
}

// DataPlane configures the VFs of one host. Its methods may be called concurrently.
type DataPlane struct {
	host  string
	links Links
	log   *slog.Logger

	cache cache
	mu    sync.Mutex // one change of VFs at a time; not held during calls of the network service
}

// New returns the data plane of a host.
func New(host string, links Links, ports Ports, log *slog.Logger) *DataPlane {
	return &DataPlane{host: host, links: links, log: log, cache: cache{service: ports}}
}

// Configure configures VFs that a guest is about to get. A VF without a port remains as it is. Unavailable: the network
// service does not answer. Other faults are those of Links: a VF is not in the network of its port.
func (d *DataPlane) Configure(ctx context.Context, vfs []vfconfig.Assigned) error {
	if err := d.cache.refresh(ctx, d.host); err != nil {
		return fault.Wrap("", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range vfs {
		port, found := d.cache.port(a)
		if !found {
			continue
		}
		if _, _, err := d.apply(a.Device, port, vfconfig.Operations); err != nil {
			return fault.New(fault.KindOf(err), "port %s cannot have %s: %w", port.ID, a.Device, err)
		}
	}
	return nil
}

// Reset removes the configuration for ports from VFs that no guest has. What a NIC does not support to reset remains;
// the next port that gets the VF replaces it. It also remains if the process may not change VFs: then it has not
// configured any.
func (d *DataPlane) Reset(_ context.Context, devices []device.ID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range devices {
		vf, present, err := d.read(id)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		for _, o := range vfconfig.ResetOperations(present) {
			err := d.links.Set(vf, o)
			switch {
			case fault.Is(err, fault.Invalid), fault.Is(err, fault.Forbidden):
				d.log.Warn("VF not reset completely", "device", id.String(), "error", err)
			case err != nil && !fault.Is(err, fault.NotFound):
				return err
			}
		}
		d.log.Info("VF reset", "device", id.String(), "interface", vf.Interface)
	}
	return nil
}

// Compare configures all VFs that guests have, if they differ from their ports, and returns the conditions of VFs and
// PFs. assigned returns those VFs; it is called while no VF is reset.
func (d *DataPlane) Compare(ctx context.Context, assigned func() []vfconfig.Assigned) (list []condition.Condition) {
	if len(assigned()) == 0 {
		return nil
	}
	add := func(subject, text string) { list = append(list, condition.New(condition.Network, subject, text)) }
	if err := d.cache.refresh(ctx, d.host); err != nil {
		add("", "the ports of this host cannot be read, so changes of their rates and VLANs have no "+
			"effect: "+fault.TextOf(err))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	total := map[string]int{} // guaranteed rates by interface
	speed := map[string]int{}
	for _, a := range assigned() {
		port, found := d.cache.port(a)
		if !found {
			continue
		}
		vf, warnings, err := d.apply(a.Device, port, vfconfig.Corrections)
		for _, text := range warnings {
			add(a.Device.String(), text)
		}
		if err != nil {
			add(a.Device.String(), "port "+port.ID+" of server "+a.Server+" does not have its configuration on "+
				a.Device.String()+": "+fault.TextOf(err))
			continue
		}
		total[vf.Interface] += port.Settings().MinRate
		speed[vf.Interface] = vf.Speed
	}
	for pf, guaranteed := range total {
		if c := vfconfig.ExceededSpeed(pf, speed[pf], guaranteed); c != "" {
			add(pf, c)
		}
	}
	return condition.Sorted(list)
}

// apply changes a VF to the configuration of a port, and returns the conditions of what the NIC does not support.
func (d *DataPlane) apply(id device.ID, port vfconfig.Port,
	differences func(present, want vfconfig.Settings) []vfconfig.Operation) (vf vfconfig.VF, conditions []string,
	err error) {
	vf, present, err := d.read(id)
	if err != nil {
		return vf, nil, err
	}
	list := differences(present, port.Settings())
	for _, o := range list {
		condition, err := d.set(vf, present, o)
		if err != nil {
			return vf, conditions, err
		}
		if condition != "" {
			conditions = append(conditions, condition)
		}
	}
	if len(list) > len(conditions) {
		d.log.Info("VF configured", "device", id.String(), "interface", vf.Interface, "port", port.ID,
			"operations", len(list))
	}
	if c := vfconfig.NoIngressLimit(vf, port); c != "" {
		conditions = append(conditions, c)
	}
	return vf, conditions, nil
}

// read finds a VF and reads its configuration.
func (d *DataPlane) read(id device.ID) (vf vfconfig.VF, present vfconfig.Settings, err error) {
	if vf, err = d.links.Find(id.Address()); err == nil {
		present, err = d.links.Read(vf)
	}
	return vf, present, err
}

// set performs an operation, and returns the condition if the NIC does not support what is not necessary. If it does
// not support a guarantee, the limit of the rate is set alone.
func (d *DataPlane) set(vf vfconfig.VF, present vfconfig.Settings, o vfconfig.Operation) (condition string, err error) {
	err = d.links.Set(vf, o)
	if !fault.Is(err, fault.Invalid) || o.Necessary() {
		return "", err
	}
	condition = vfconfig.Unsupported(vf, o, fault.TextOf(err))
	limit, ok := o.WithoutGuarantee()
	if ok && (present.MinRate != 0 || present.MaxRate != limit.Settings.MaxRate) {
		if err := d.links.Set(vf, limit); err != nil && !fault.Is(err, fault.Invalid) {
			return condition, err
		}
	}
	return condition, nil
}
