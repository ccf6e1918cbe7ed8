package sim

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// rest does operations in a cloud, and lets it come to rest.
func rest(t *testing.T, w *World, operations int) {
	t.Helper()
	for range operations {
		w.n++
		w.advance(time.Second)
		w.operate()
		w.checkMarked()
	}
	if w.quiesce(); w.failure != "" {
		t.Fatal(w.failure)
	}
}

// restingWithPorts returns a small quiescent cloud, and a bound port with a guarantee in it.
func restingWithPorts(t *testing.T) (*World, network.Port) {
	t.Helper()
	for seed := uint64(1); seed <= 8; seed++ {
		w := newWorld(Options{Seed: seed, Hosts: 24})
		rest(t, w, 4000)
		for _, id := range w.network.ids {
			if p := w.network.ports[id]; p.Host != "" && p.Request != nil && p.VNIC != direct {
				return w, p
			}
		}
	}
	t.Fatal("no port with a guarantee is bound")
	return nil, network.Port{}
}

// rememberPorts returns a function that undoes what a test did to the ports of a cloud, to the allocation of the server
// of a port and to the VFs that are configured on a machine, which may be nil. The failure is forgotten.
func rememberPorts(w *World, p network.Port, m *simHost) (undo func()) {
	ports, ids := maps.Clone(w.network.ports), slices.Clone(w.network.ids)
	consumer := resource.ConsumerID(p.Device)
	held := maps.Clone(w.placement.Held(consumer))
	var configured map[pci.Address]string
	if m != nil {
		configured = maps.Clone(m.configured)
	}
	return func() {
		w.network.ports, w.network.ids, w.failure = ports, ids, ""
		w.placement.SetAllocation(consumer, held)
		if m != nil {
			m.configured = configured
		}
	}
}

// What is wrong with the ports of a quiescent cloud is noticed, and nothing when it is undone.
func TestPortFaultsAreNoticed(t *testing.T) {
	w, p := restingWithPorts(t)
	check := func() {
		for _, id := range slices.Sorted(maps.Keys(w.compute.servers)) {
			if w.failure == "" {
				w.checkPorts(w.compute.servers[id])
			}
		}
	}
	for name, tamper := range map[string]func(w *World, p network.Port){
		"bound to another host": func(w *World, p network.Port) {
			p.Host = "elsewhere"
			w.network.ports[p.ID] = p
		},
		"not bound": func(w *World, p network.Port) {
			p.VIF = "binding_failed"
			w.network.ports[p.ID] = p
		},
		"another policy": func(w *World, p network.Port) {
			p.Request = request(p, 900)
			w.network.ports[p.ID] = p
		},
		"a lost guarantee": func(w *World, p network.Port) {
			c := resource.ConsumerID(p.Device)
			held := maps.Clone(w.placement.Held(c))
			delete(held, bridgeOf(p.Host))
			w.placement.SetAllocation(c, held)
		},
		"a port too many": func(w *World, p network.Port) {
			more := w.network.create(plainNetwork, "normal", 0)
			more.Device, more.Host, more.VIF = p.Device, p.Host, "ovs"
			w.network.ports[more.ID] = more
		},
		"a port of no server": func(w *World, p network.Port) {
			more := w.network.create(plainNetwork, "normal", 0)
			more.Device = "no server"
			w.network.ports[more.ID] = more
			w.repairPorts()
		},
	} {
		t.Run(name, func(t *testing.T) {
			undo := rememberPorts(w, p, nil)
			tamper(w, p)
			if check(); !strings.Contains(w.failure, "port: ") {
				t.Errorf("not noticed: %q", w.failure)
			}
			undo()
			if check(); w.failure != "" {
				t.Errorf("the cloud is not as it was: %s", w.failure)
			}
		})
	}
}

// restingWithVFs returns a small quiescent cloud, a bound port with a VF and a guarantee in it, the machine and the VF.
func restingWithVFs(t *testing.T) (*World, network.Port, *simHost, pci.Device) {
	t.Helper()
	w := newWorld(Options{Seed: 1, Hosts: 12, Direct: true, Without: []string{"steal", Restore, Lose, Copy, Replace}})
	rest(t, w, 3000)
	for _, id := range w.network.ids {
		p := w.network.ports[id]
		if p.Host == "" || p.Request == nil || p.VNIC != direct {
			continue
		}
		m := w.byName[p.Host]
		if vf, ok := m.portVF(network.SlotOf(p.Profile)); ok && m.guests[p.Device] != nil && !m.guests[p.Device].Stopped {
			return w, p, m, vf
		}
	}
	t.Fatal("no port with a VF and a guarantee is bound")
	return w, network.Port{}, nil, pci.Device{}
}

// What is wrong with the VFs of ports in a quiescent cloud is noticed by the check for it, and nothing is wrong when it
// is undone.
func TestVFFaultsAreNoticed(t *testing.T) {
	w, p, m, vf := restingWithVFs(t)
	type tamper func(w *World, p network.Port, m *simHost, vf pci.Device)
	profile := func(w *World, p network.Port, key string, value any) {
		p.Profile = maps.Clone(p.Profile)
		p.Profile[key] = value
		w.network.ports[p.ID] = p
	}
	otherNIC := func(m *simHost, vf pci.Device) string {
		for _, d := range m.made {
			if isPortVF(d) && *d.Parent != *vf.Parent {
				return d.Address.String()
			}
		}
		return ""
	}
	for name, c := range map[string]struct {
		noticed string
		tamper  tamper
	}{
		"a VF of another NIC": {"port: ", func(w *World, p network.Port, m *simHost, vf pci.Device) {
			profile(w, p, "pci_slot", otherNIC(m, vf))
		}},
		"bound with a VF of another NIC": {"nic: ", func(w *World, p network.Port, m *simHost, vf pci.Device) {
			profile(w, p, "pci_slot", otherNIC(m, vf))
			w.network.checkNIC(w.network.ports[p.ID])
		}},
		"an allocation of another group": {"port: ", func(w *World, p network.Port, _ *simHost, _ pci.Device) {
			profile(w, p, "allocation", map[string]any{"group": "elsewhere"})
		}},
		"no allocation of the VF": {"freed: ", func(w *World, p network.Port, m *simHost, vf pci.Device) {
			e, _ := m.agent.state.Devices().At(device.PCI(vf.Address))
			held := maps.Clone(w.placement.Held(resource.ConsumerID(p.Device)))
			delete(held, e.Provider)
			w.placement.SetAllocation(resource.ConsumerID(p.Device), held)
		}},
		"too much of a NIC": {"capacity: ", func(w *World, p network.Port, m *simHost, vf pci.Device) {
			held := maps.Clone(w.placement.Held(resource.ConsumerID(p.Device)))
			held[m.nicOf(vf)] = resource.Amounts{bandwidth.EgressBandwidth: 9000}
			w.placement.SetAllocation(resource.ConsumerID(p.Device), held)
		}},
		"two ports of one VF": {"vf: ", func(w *World, p network.Port, m *simHost, _ pci.Device) {
			more := w.network.create(directNetwork, direct, 0)
			more.Host, more.Profile = p.Host, p.Profile
			w.network.ports[more.ID] = more
			w.checkSlots(m)
		}},
		"a port that does not exist": {"held port: ", func(w *World, p network.Port, m *simHost, _ pci.Device) {
			delete(w.network.ports, p.ID)
			w.checkHeldForPorts(m)
		}},
		"configured without a guest": {"vf: ", func(w *World, _ network.Port, m *simHost, _ pci.Device) {
			for _, d := range m.made {
				if e, _ := m.agent.state.Devices().At(device.PCI(d.Address)); isPortVF(d) && e.Holder == "" {
					m.configured[d.Address] = "port"
				}
			}
			for _, d := range m.devices() { // if all are held
				if d.Type == pci.Physical {
					m.configured[d.Address] = "port"
				}
			}
			w.checkHeldForPorts(m)
		}},
		"not configured": {"port: ", func(_ *World, _ network.Port, m *simHost, vf pci.Device) {
			delete(m.configured, vf.Address)
		}},
		"started unconfigured": {"vf: ", func(w *World, p network.Port, m *simHost, vf pci.Device) {
			delete(m.configured, vf.Address)
			w.hypervisor.checkConfigured(m, *m.guests[p.Device])
		}},
		"reset while its guest runs": {"vf: ", func(w *World, _ network.Port, m *simHost, vf pci.Device) {
			_ = w.hypervisor.resetVFs(m, []device.ID{device.PCI(vf.Address)})
		}},
		"configured without a claim": {"vf: ", func(w *World, _ network.Port, m *simHost, vf pci.Device) {
			_ = w.hypervisor.configureVFs(m, state.ConfigureVFs{Work: "another", VFs: []vfconfig.Assigned{
				{Device: device.PCI(vf.Address), Port: vfconfig.Port{ID: "port"}}}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			undo := rememberPorts(w, p, m)
			c.tamper(w, p, m, vf)
			if w.failure == "" && c.noticed != "port: " {
				w.checkAll()
			} else if w.failure == "" {
				w.checkPorts(w.compute.servers[p.Device])
			}
			if !strings.Contains(w.failure, c.noticed) {
				t.Errorf("want %q, got %q", c.noticed, w.failure)
			}
			undo()
			w.checkPorts(w.compute.servers[p.Device])
			if w.checkAll(); w.failure != "" {
				t.Errorf("the cloud is not as it was: %s", w.failure)
			}
		})
	}
}
