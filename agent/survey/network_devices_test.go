package survey

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

func networkFacts(t *testing.T, rules ...string) Facts {
	f := sampleFacts(t, rules...)
	f.ReportNetwork = true
	return f
}

const vfTraits = "[COMPUTE_MANAGED_PCI_DEVICE %s CUSTOM_VNIC_TYPE_DIRECT CUSTOM_VNIC_TYPE_MACVTAP " +
	"CUSTOM_VNIC_TYPE_VIRTIO_FORWARDER OWNER_NOVA]"

func TestDesiredNetworkDevices(t *testing.T) {
	vfs := func(network string) string {
		return "cmp1_0000:81:00.0  SRIOV_NET_VF 0/2  " + strings.Replace(vfTraits, "%s", network, 1)
	}
	whole := "cmp1_0000:82:00.0  CUSTOM_PCI_NETDEV 0/1  [COMPUTE_MANAGED_PCI_DEVICE CUSTOM_PHYSNET_P_1 " +
		"CUSTOM_VNIC_TYPE_DIRECT_PHYSICAL OWNER_NOVA]"
	for name, c := range map[string]struct {
		rules []string
		want  []string
	}{
		"VFs": {[]string{`{"product_id":"1515","physical_network":"p-1"}`}, []string{rootLine,
			"└─ " + vfs("CUSTOM_PHYSNET_P_1")}},
		"a tunnelled network": {[]string{`{"product_id":"1515","physical_network":null}`}, []string{rootLine,
			"└─ " + vfs("CUSTOM_NETWORK_TUNNEL_PROVIDER")}},
		"PFs and their VFs": {[]string{`{"vendor_id":"8086","physical_network":"p-1"}`}, []string{rootLine,
			"├─ " + vfs("CUSTOM_PHYSNET_P_1"), "└─ " + whole}},
		"a PF for aliases beside VFs for ports": {[]string{`{"address":"0000:81:00.0","product_id":"1528"}`,
			`{"product_id":"1515","physical_network":"p"}`}, []string{
			`the PF 0000:81:00.0 (device_spec at nova.conf:1, {"product_id": "1528", "address": "0000:81:00.0"}) and of its ` +
				`VFs 0000:81:00.1, 0000:81:00.2 (device_spec at nova.conf:2, {"product_id": "1515", "physical_network": "p"}) ` +
				`are both offered, but only one kind can be; narrow the rules, by product_id or by the functions in the address`}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, want := strings.TrimSpace(picture(networkFacts(t, c.rules...))), strings.Join(c.want, "\n"); got != want {
				t.Errorf("\n%s\nwant\n%s", got, want)
			}
		})
	}
	f := networkFacts(t, `{"product_id":"1515","physical_network":"a","address":"0000:81:00.1"}`,
		`{"product_id":"1515","physical_network":"b"}`)
	if got := picture(f); !strings.Contains(got, "VFs of one PF need the same traits") {
		t.Errorf("two networks on one PF: %s", got)
	}
}

// VFs with remote_managed are for ports of vnic type remote-managed only, and the agent does not configure them. The
// host has the trait by which compute finds it.
func TestDesiredRemoteManagedDevices(t *testing.T) {
	f := networkFacts(t, `{"product_id":"1515","physical_network":"p-1","remote_managed":true}`)
	for i := range f.Devices {
		f.Devices[i].Serial = "S1"
	}
	want := strings.Replace(rootLine, "[OWNER", "[COMPUTE_REMOTE_MANAGED_PORTS OWNER", 1) +
		"\n└─ cmp1_0000:81:00.0  SRIOV_NET_VF 0/2  [COMPUTE_MANAGED_PCI_DEVICE CUSTOM_PHYSNET_P_1 " +
		"CUSTOM_VNIC_TYPE_REMOTE_MANAGED OWNER_NOVA]"
	if got := strings.TrimSpace(picture(f)); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
	for _, o := range Offers(f) {
		if !o.RemoteManaged || !o.ForPorts || o.Networked {
			t.Errorf("%+v", o)
		}
	}
}

// A PF that a guest holds is counted as a whole, although its VFs are there.
func TestHeldPFIsCountedInsteadOfItsVFs(t *testing.T) {
	f := networkFacts(t, `{"vendor_id":"8086","physical_network":"p"}`)
	c := f.claim(t, pf81)
	f.Held = []device.Claim{c}
	tree, _, err := Desired(f)
	p, _ := tree.ByName("cmp1_0000:81:00.0")
	if err != nil || p.Inventories[pci.PortNIC].Total != 1 || len(p.Inventories) != 1 {
		t.Errorf("%+v %v", p, err)
	}
}

// A bridge with bandwidth is the parent where it offloads the VFs of its network: it supports direct ports, it is the
// only one of the network, and the host has no SR-IOV agent.
func TestParentWithOffloading(t *testing.T) {
	rate := map[resource.Class]resource.Inventory{bandwidth.EgressBandwidth: resource.Whole(1000)}
	at := func(agent bandwidth.AgentType, device string, traits ...resource.Trait) provider.Provider {
		n := bandwidth.Name{Hypervisor: "cmp1", Agent: agent, Device: device}
		return provider.Provider{ID: n.ID(), Name: n.String(), Parent: root, Root: root, Traits: traits, Inventories: rate}
	}
	bridge := at(bandwidth.OpenVSwitch, "br-ex", "CUSTOM_PHYSNET_P", "CUSTOM_VNIC_TYPE_DIRECT")
	for name, c := range map[string]struct {
		actual []provider.Provider
		want   provider.ID
	}{
		"one bridge":      {[]provider.Provider{bridge}, bridge.ID},
		"another network": {[]provider.Provider{at(bandwidth.OpenVSwitch, "br-x", "CUSTOM_VNIC_TYPE_DIRECT")}, root},
		"no direct ports": {[]provider.Provider{at(bandwidth.OpenVSwitch, "br-x", "CUSTOM_PHYSNET_P")}, root},
		"two bridges": {[]provider.Provider{bridge, at(bandwidth.OVN, "br-x", "CUSTOM_PHYSNET_P",
			"CUSTOM_VNIC_TYPE_DIRECT")}, root},
		"an SR-IOV agent": {[]provider.Provider{bridge, at(bandwidth.NICSwitch, "ens9")}, root},
		"its interface":   {[]provider.Provider{bridge, at(bandwidth.NICSwitch, "ens1")}, at(bandwidth.NICSwitch, "ens1").ID},
	} {
		f := networkFacts(t, `{"product_id":"1515","physical_network":"p"}`)
		f.Actual.Providers = append([]provider.Provider{{ID: root, Name: "cmp1", Root: root}}, c.actual...)
		tree, _, err := Desired(f)
		p, _ := tree.ByName("cmp1_0000:81:00.0")
		if err != nil || p.Parent != c.want {
			t.Errorf("%s: below %s, want %s (%v)", name, p.Parent, c.want, err)
		}
		f.ReportNetwork = false // the devices name the provider also where Placement does not count them
		for _, o := range Offers(f) {
			if want := strings.TrimPrefix(string(c.want), string(root)); string(o.Bandwidth) != want {
				t.Errorf("%s: %s names %q, want %q", name, o.Device.Address, o.Bandwidth, want)
			}
		}
	}
}

// A bridge is the parent of vDPA devices also where an SR-IOV agent has bandwidth of their NIC: only the agent of the
// bridge binds vdpa ports.
func TestParentOfVDPA(t *testing.T) {
	rate := map[resource.Class]resource.Inventory{bandwidth.EgressBandwidth: resource.Whole(1000)}
	at := func(agent bandwidth.AgentType, device string, traits ...resource.Trait) provider.Provider {
		n := bandwidth.Name{Hypervisor: "cmp1", Agent: agent, Device: device}
		return provider.Provider{ID: n.ID(), Name: n.String(), Parent: root, Root: root, Traits: traits, Inventories: rate}
	}
	bridge := at(bandwidth.OpenVSwitch, "br-ex", "CUSTOM_PHYSNET_P", "CUSTOM_VNIC_TYPE_VDPA")
	for name, c := range map[string]struct {
		actual []provider.Provider
		want   provider.ID
	}{
		"a bridge and the SR-IOV agent": {[]provider.Provider{at(bandwidth.NICSwitch, "ens1"), bridge}, bridge.ID},
		"a bridge that has no vdpa ports": {[]provider.Provider{at(bandwidth.OpenVSwitch, "br-ex", "CUSTOM_PHYSNET_P",
			"CUSTOM_VNIC_TYPE_DIRECT")}, root},
		"no bridge": {[]provider.Provider{at(bandwidth.NICSwitch, "ens1")}, root},
	} {
		f := networkFacts(t, `{"product_id":"1515","physical_network":"p"}`)
		for i := range f.Devices {
			if f.Devices[i].Type == pci.Virtual {
				f.Devices[i].Type = pci.VDPA
			}
		}
		f.Actual.Providers = append([]provider.Provider{{ID: root, Name: "cmp1", Root: root}}, c.actual...)
		tree, _, err := Desired(f)
		p, _ := tree.ByName("cmp1_0000:81:00.0")
		if err != nil || p.Parent != c.want || p.Inventories[pci.PortVDPA].Total != 2 {
			t.Errorf("%s: below %s, want %s, %v (%v)", name, p.Parent, c.want, p.Inventories, err)
		}
	}
}

func TestVerdictsOnNetworkDevices(t *testing.T) {
	list, wrong, _ := Verdicts(networkFacts(t, `{"vendor_id":"8086","physical_network":"p"}`))
	var reported, why []string
	for _, v := range list {
		if v.Reported {
			reported = append(reported, v.Device.Address.String()+" "+string(v.Offer.ResourceClass))
		} else if v.Offered {
			why = append(why, v.Why)
		}
	}
	if !slices.Equal(reported, []string{"0000:81:00.1 SRIOV_NET_VF", "0000:81:00.2 SRIOV_NET_VF",
		"0000:82:00.0 CUSTOM_PCI_NETDEV"}) || len(why) != 1 || !strings.Contains(why[0], "counts its VFs") || len(wrong) > 0 {
		t.Errorf("%v %v %v", reported, why, wrong)
	}
}
