package loop

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const (
	vfPorts  = `{"product_id":"154c","physical_network":"physnet0"}`
	vfClass  = resource.Class("SRIOV_NET_VF")
	pfAndVFs = `{"vendor_id":"8086","physical_network":"physnet0"}`
)

// withPorts makes the agent report devices for ports.
func (w *testHost) withPorts(rule string) {
	setRules(w, rule)
	w.options.ReportNetwork = true
}

// parentOf returns the name of the parent of a provider; empty without the provider.
func (w *testHost) parentOf(name string) string {
	p, _ := w.placement.tree().ByID(w.provider(name).Parent)
	return p.Name
}

// picture returns each provider with its parent, inventories and traits, one a line.
func (w *testHost) picture() string {
	var lines []string
	for _, p := range w.placement.tree().Providers {
		var classes []string
		for class, inv := range p.Inventories {
			classes = append(classes, fmt.Sprintf("%s=%d", class, inv.Total))
		}
		slices.Sort(classes)
		if p.Parent != "" {
			lines = append(lines, fmt.Sprintf("%s < %s %v %v", p.Name, w.parentOf(p.Name), classes, p.Traits))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// The VFs of a PF are counted on its provider, which is below the bandwidth provider of the PF's interface; a PF
// without bandwidth is below the root. An unchanged host writes nothing.
func TestNetworkDevices(t *testing.T) {
	scenario(t, "golden tree", func(t *testing.T, w *testHost) {
		w.withPorts(vfPorts)
		w.withBandwidth(map[string]int{"ens1f0": 2000})
		_, stop := w.startReported()
		w.until("the PF is below its bandwidth", func() bool { return w.parentOf(name1) == ens1Name })
		const traits = "[COMPUTE_MANAGED_PCI_DEVICE CUSTOM_PHYSNET_PHYSNET0 CUSTOM_VNIC_TYPE_DIRECT " +
			"CUSTOM_VNIC_TYPE_MACVTAP CUSTOM_VNIC_TYPE_VIRTIO_FORWARDER OWNER_NOVA]"
		want := strings.Join([]string{
			"cmp1:NIC Switch agent < cmp1 [] [CUSTOM_VNIC_TYPE_DIRECT]",
			"cmp1:NIC Switch agent:ens1f0 < cmp1:NIC Switch agent [NET_BW_EGR_KILOBIT_PER_SEC=2000 " +
				"NET_BW_IGR_KILOBIT_PER_SEC=2000] [CUSTOM_PHYSNET_PHYSNET0 CUSTOM_VNIC_TYPE_DIRECT]",
			"cmp1:Open vSwitch agent < cmp1 [NET_PACKET_RATE_KILOPACKET_PER_SEC=500] [CUSTOM_VNIC_TYPE_NORMAL]",
			name1 + " < cmp1:NIC Switch agent:ens1f0 [SRIOV_NET_VF=2] " + traits,
			name2 + " < cmp1 [SRIOV_NET_VF=2] " + traits,
		}, "\n")
		if got := w.picture(); got != want {
			t.Errorf("\n%s\nwant\n%s", got, want)
		}
		writes := w.writes()
		time.Sleep(10 * time.Minute)
		if w.writes() != writes || w.compute.conditions() != "" {
			t.Errorf("%d writes, conditions %s", w.writes()-writes, w.compute.conditions())
		}
		must(t, stop())
		plan, err := w.agent().Plan(t.Context())
		if err != nil || !plan.Empty() || len(plan.Objections) > 0 {
			t.Errorf("%+v %v", plan, err)
		}
	})
	scenario(t, "a PF with its VFs: the VFs count; without VFs the PF counts", func(t *testing.T, w *testHost) {
		w.withPorts(pfAndVFs)
		_, stop := w.startReported()
		if w.total(name1, vfClass) != 2 || w.total(name1, "CUSTOM_PCI_NETDEV") != 0 {
			t.Errorf("%+v", w.provider(name1))
		}
		for _, end := range []string{"1", "2"} {
			w.sysfs.remove(strings.TrimSuffix(pf1, "0") + end)
		}
		w.until("the PF is counted", func() bool { return w.total(name1, "CUSTOM_PCI_NETDEV") == 1 })
		if p := w.provider(name1); len(p.Inventories) != 1 || !p.HasTrait("CUSTOM_VNIC_TYPE_DIRECT_PHYSICAL") ||
			p.HasTrait("CUSTOM_VNIC_TYPE_DIRECT") {
			t.Errorf("%+v", p)
		}
		must(t, stop())
	})
	scenario(t, "a bond", func(t *testing.T, w *testHost) {
		w.withPorts(vfPorts)
		w.withBandwidth(map[string]int{})
		w.sysfs.change(func(m fstest.MapFS) {
			m["class/net/bond0/bonding/mode"] = &fstest.MapFile{Data: []byte("802.3ad 4\n")}
			for _, name := range []string{"ens1f0", "ens2f0"} {
				m["class/net/"+name+"/master"] = &fstest.MapFile{Data: []byte("../bond0"), Mode: fs.ModeSymlink}
			}
		})
		nic := &w.options.Bandwidth[1]
		nic.Mappings = []bandwidth.Mapping{{Physnet: "physnet0", Device: "bond0"}}
		nic.Bandwidths = map[string]bandwidth.Rates{"bond0": kbit(9000)}
		_, stop := w.startReported()
		w.until("both PFs are below the bond", func() bool {
			return w.parentOf(name1) == nicName+":bond0" && w.parentOf(name2) == nicName+":bond0"
		})
		must(t, stop())
	})
	scenario(t, "without report_in_placement", func(t *testing.T, w *testHost) {
		w.withPorts(vfPorts)
		w.options.ReportInPlacement = false
		contains(t, w.refusedStart(fault.Invalid), "report_network_devices needs [pci] report_in_placement")
	})
}

// A NIC whose devices and bandwidth are removed from the configuration stays while a server has a VF of it. When the VF
// is free, one rescan deletes both: the sync that deletes the device is followed by one for its parent.
func TestNetworkDevicesAndBandwidthAreRemoved(t *testing.T) {
	scenario(t, "", func(t *testing.T, w *testHost) {
		w.withPorts(vfPorts)
		w.withBandwidth(map[string]int{"ens1f0": 2000})
		_, stop := w.startReported()
		w.until("the PF is below its bandwidth", func() bool { return w.parentOf(name1) == ens1Name })
		must(t, stop())
		w.placement.set("server-1", w.provider(name1).ID, resource.Amounts{vfClass: 1})
		setRules(w, `{"address":"`+strings.TrimSuffix(pf2, "0")+`*","physical_network":"physnet0"}`)
		w.options.Bandwidth, w.options.Rescan = nil, time.Hour
		_, stop = w.startReported()
		time.Sleep(time.Minute)
		if w.parentOf(name1) != ens1Name {
			t.Errorf("while a VF is in use:\n%s", w.picture())
		}
		w.placement.remove("server-1")
		time.Sleep(time.Hour)
		if got := w.picture(); strings.Contains(got, "NIC Switch") || strings.Contains(got, name1) {
			t.Errorf("when no VF is in use:\n%s", got)
		}
		must(t, stop())
	})
}

// Where Neutron reports the bandwidth, the agent moves only its own providers: below Neutron's provider when that
// exists, and below the root when it has no bandwidth any more, so that Neutron can delete it.
func TestNetworkDevicesBelowNeutron(t *testing.T) {
	scenario(t, "", func(t *testing.T, w *testHost) {
		w.withPorts(vfPorts)
		w.withBandwidth(map[string]int{"ens1f0": 2000})
		w.options.ReportBandwidth = false
		_, stop := w.startReported()
		if w.parentOf(name1) != "cmp1" {
			t.Errorf("%s", w.picture())
		}
		agent := bandwidth.Name{Hypervisor: "cmp1", Agent: bandwidth.NICSwitch}
		nic := agent
		nic.Device = "ens1f0"
		w.placement.SetProvider(provider.Provider{ID: agent.ID(), Name: agent.String(), Parent: rootID, Root: rootID})
		w.placement.SetProvider(provider.Provider{ID: nic.ID(), Name: nic.String(), Parent: agent.ID(), Root: rootID,
			Inventories: map[resource.Class]resource.Inventory{bandwidth.EgressBandwidth: resource.Whole(1000)}})
		before := w.provider(ens1Name)
		w.until("it is below Neutron's", func() bool { return w.parentOf(name1) == ens1Name })
		if now := w.provider(ens1Name); now.Generation != before.Generation || len(now.Traits) != 0 ||
			w.parentOf(name2) != "cmp1" {
			t.Errorf("%s", w.picture())
		}
		w.placement.change(ens1Name, func(p *provider.Provider) { p.Inventories = nil })
		w.until("it is below the root", func() bool { return w.parentOf(name1) == "cmp1" })
		must(t, stop())
	})
}

// Removing the bandwidth of an interface moves its devices below the root, with their allocations, and then deletes the
// bandwidth provider.
func TestNetworkDevicesKeepAllocations(t *testing.T) {
	scenario(t, "bandwidth is removed and added", func(t *testing.T, w *testHost) {
		w.withPorts(vfPorts)
		w.withBandwidth(map[string]int{"ens1f0": 2000})
		_, stop := w.startReported()
		w.until("it is below its bandwidth", func() bool { return w.parentOf(name1) == ens1Name })
		w.until("the VFs name it", func() bool { return w.reportedBandwidth(pf1) == string(w.provider(ens1Name).ID) })
		id := w.provider(name1).ID
		w.placement.set("other", id, resource.Amounts{vfClass: 1})
		_, stop = w.again(stop, map[string]int{})
		w.until("the bandwidth is gone", func() bool { return w.bandwidthOf(ens1Name) == "none" })
		if w.parentOf(name1) != "cmp1" || w.provider(name1).ID != id {
			t.Errorf("%s", w.picture())
		}
		w.until("the VFs name none", func() bool { return w.reportedBandwidth(pf1) == "" })
		_, stop = w.again(stop, map[string]int{"ens1f0": 3000})
		w.until("it is below its bandwidth again", func() bool { return w.parentOf(name1) == ens1Name })
		if got := w.placement.Held("other")[id][vfClass]; got != 1 {
			t.Errorf("%d VFs are allocated", got)
		}
		must(t, stop())
	})
	scenario(t, "switched on with a device in use, then off", func(t *testing.T, w *testHost) {
		setRules(w, vfPorts)
		_, stop := w.startReported()
		s := w.portServer("s1", "physnet0")
		w.compute.assign(s)
		w.untilPhase(host.Running, "s1")
		must(t, stop())
		w.options.ReportNetwork = true
		_, stop = w.startReported()
		w.until("the device is allocated", func() bool { return w.vfsOf("s1") == 1 })
		must(t, stop())
		w.options.ReportNetwork = false
		_, stop = w.startReported()
		time.Sleep(5 * time.Minute)
		if w.vfsOf("s1") != 1 || w.total(name1, vfClass)+w.total(name2, vfClass) != 1 {
			t.Errorf("%s", w.picture())
		}
		must(t, stop())
	})
}

// reportedBandwidth returns the bandwidth provider that the last report names for the VFs of a PF; "different": not all
// name the same one, or there are no VFs.
func (w *testHost) reportedBandwidth(pf string) string {
	var named []string
	for _, d := range w.compute.lastReport().Devices {
		if d.Parent == pf {
			named = append(named, d.Bandwidth)
		}
	}
	slices.Sort(named)
	if named = slices.Compact(named); len(named) != 1 {
		return "different"
	}
	return named[0]
}

// portServer returns a server with a port that needs a VF of a physical network, without providers.
func (w *testHost) portServer(id string, networks ...string) host.Server {
	s := w.server(id)
	s.Requests = []host.Request{{ID: id + "-port", Count: 1, Class: string(vfClass),
		Port: &host.RequestPort{ID: "p-" + id, PhysicalNetworks: networks}}}
	return s
}

// vfsOf returns how many VFs a consumer has in Placement.
func (w *testHost) vfsOf(id string) (n int) {
	for _, amounts := range w.placement.Held(resource.ConsumerID(id)) {
		n += amounts[vfClass]
	}
	return n
}
