package loop

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const (
	ovsName    = "cmp1:Open vSwitch agent"
	bridgeName = "cmp1:Open vSwitch agent:br-ex"
	nicName    = "cmp1:NIC Switch agent"
	ens1Name   = "cmp1:NIC Switch agent:ens1f0"
	otherRoot  = "22222222-2222-4222-8222-222222222222"
)

// kbit returns equal rates for both directions.
func kbit(n int) bandwidth.Rates {
	r := bandwidth.Rate{Amount: n, Set: true}
	return bandwidth.Rates{Egress: r, Ingress: r}
}

// withBandwidth configures an Open vSwitch agent with the bridge br-ex and an SR-IOV agent with ens1f0 and ens2f0, of
// which those in rates have bandwidth. Both PFs of the host have an interface.
func (w *testHost) withBandwidth(rates map[string]int) {
	ovs := bandwidth.Agent{Type: bandwidth.OpenVSwitch, DefaultHypervisor: "cmp1", Tunnelled: "rp_tunnelled",
		Mappings:    []bandwidth.Mapping{{Physnet: "physnet0", Device: "br-ex"}},
		Bandwidths:  map[string]bandwidth.Rates{},
		PacketRates: map[string]bandwidth.Rate{"cmp1": {Amount: 500, Set: true}}, VNICTypes: []string{"normal"}}
	nic := bandwidth.Agent{Type: bandwidth.NICSwitch, DefaultHypervisor: "cmp1", VNICTypes: []string{"direct"},
		Mappings:   []bandwidth.Mapping{{Physnet: "physnet0", Device: "ens1f0"}, {Physnet: "physnet1", Device: "ens2f0"}},
		Bandwidths: map[string]bandwidth.Rates{}}
	for device, n := range rates {
		if device == "br-ex" {
			ovs.Bandwidths[device] = kbit(n)
		} else {
			nic.Bandwidths[device] = kbit(n)
		}
	}
	w.options.ReportBandwidth, w.options.Bandwidth = true, []bandwidth.Agent{ovs, nic}
	w.sysfs.change(func(m fstest.MapFS) {
		m["bus/pci/devices/"+pf1+"/net/ens1f0/address"] = &fstest.MapFile{Data: []byte("x")}
		m["bus/pci/devices/"+pf2+"/net/ens2f0/address"] = &fstest.MapFile{Data: []byte("x")}
		m["class/net/ens1f0/speed"] = &fstest.MapFile{Data: []byte("10000\n")}
	})
}

// bandwidthOf returns the egress total and reserved amount of a provider, or nothing.
func (w *testHost) bandwidthOf(name string) string {
	p := w.provider(name)
	if p.ID == "" {
		return "none"
	}
	inv := p.Inventories[bandwidth.EgressBandwidth]
	return fmt.Sprintf("%d/%d", inv.Total, inv.Reserved)
}

// synced returns the agent types that are synced, or not.
func synced(a *Agent) string {
	var out []string
	for _, h := range a.Heartbeats() {
		text := "null"
		if h.Synced != nil {
			text = fmt.Sprint(*h.Synced)
		}
		out = append(out, string(h.Agent)+" "+text)
	}
	return strings.Join(out, ", ")
}

const allSynced = "Open vSwitch agent true, NIC Switch agent true"

// again stops the agent and starts another with other rates.
func (w *testHost) again(stop func() error, rates map[string]int) (*Agent, func() error) {
	w.t.Helper()
	must(w.t, stop())
	w.withBandwidth(rates)
	a, next := w.startReported()
	w.until("a sync", func() bool { s := synced(a); return s != "" && !strings.Contains(s, "null") })
	return a, next
}

func TestReportBandwidth(t *testing.T) {
	scenario(t, "names, traits and inventories; an unchanged host writes nothing", func(t *testing.T, w *testHost) {
		w.withBandwidth(map[string]int{"br-ex": 1000, "ens1f0": 2000})
		a, stop := w.startReported()
		w.until("it is synced", func() bool { return synced(a) == allSynced })
		ovs, bridge, nic, ens1 := w.provider(ovsName), w.provider(bridgeName), w.provider(nicName), w.provider(ens1Name)
		if ovs.Parent != rootID || nic.Parent != rootID || bridge.Parent != ovs.ID || ens1.Parent != nic.ID {
			t.Errorf("%+v", w.placement.tree())
		}
		if ovs.Inventories[bandwidth.PacketRate].Total != 500 || len(bridge.Inventories) != 2 ||
			w.bandwidthOf(ens1Name) != "2000/0" || !slices.Equal(bridge.Traits,
			[]resource.Trait{"CUSTOM_PHYSNET_PHYSNET0", "CUSTOM_VNIC_TYPE_NORMAL"}) {
			t.Errorf("%+v", w.placement.tree())
		}
		w.placement.change(ens1Name, func(p *provider.Provider) { p.Traits = append(p.Traits, "CUSTOM_OF_OTHERS") })
		writes := w.writes()
		time.Sleep(10 * time.Minute)
		_, stop = w.again(stop, map[string]int{"br-ex": 1000, "ens1f0": 2000})
		time.Sleep(10 * time.Minute)
		if n := w.writes() - writes; n != 0 || w.compute.conditions() != "" {
			t.Errorf("%d writes, conditions %s", n, w.compute.conditions())
		}
		must(t, stop())
		plan, err := w.agent().Plan(t.Context())
		if err != nil || !plan.Empty() || len(plan.Objections) > 0 {
			t.Errorf("%+v %v", plan, err)
		}
	})
	scenario(t, "changed and removed configuration", func(t *testing.T, w *testHost) {
		w.withBandwidth(map[string]int{"br-ex": 1000, "ens1f0": 2000, "ens2f0": 1})
		_, stop := w.startReported()
		_, stop = w.again(stop, map[string]int{"br-ex": 1500, "ens2f0": 1})
		if w.bandwidthOf(bridgeName) != "1500/0" || w.bandwidthOf(ens1Name) != "none" ||
			w.bandwidthOf(nicName+":ens2f0") != "1/0" {
			t.Errorf("%+v", w.placement.tree())
		}
		must(t, stop())
		w.options.Bandwidth = nil
		_, stop = w.startReported()
		w.until("all are deleted", func() bool { return len(w.placement.tree().Providers) == 3 })
		if owned := w.journalled().Owned(); len(owned) != 3 {
			time.Sleep(2 * time.Minute)
		}
		if owned := w.journalled().Owned(); len(owned) != 3 {
			t.Errorf("the journal has %v", owned)
		}
		must(t, stop())
	})
	scenario(t, "a removed device in use is reserved and reported", func(t *testing.T, w *testHost) {
		w.withBandwidth(map[string]int{"br-ex": 1000, "ens1f0": 2000})
		_, stop := w.startReported()
		w.until("it is reported", func() bool { return w.bandwidthOf(ens1Name) == "2000/0" })
		w.placement.set("server-1", w.provider(ens1Name).ID, resource.Amounts{bandwidth.EgressBandwidth: 7})
		a, stop := w.again(stop, map[string]int{"br-ex": 1000})
		w.until("it is reserved", func() bool { return w.bandwidthOf(ens1Name) == "2000/2000" })
		contains(t, w.compute.conditions(), ens1Name, "server-1", "reserved")
		if got := synced(a); got != "Open vSwitch agent true, NIC Switch agent false" {
			t.Error(got)
		}
		writes := w.writes()
		time.Sleep(5 * time.Minute)
		if w.writes() != writes {
			t.Error("a reserved provider is written again")
		}
		w.placement.remove("server-1")
		w.until("it is deleted", func() bool { return w.bandwidthOf(ens1Name) == "none" && w.compute.conditions() == "" })
		must(t, stop())
	})
	scenario(t, "report_bandwidth = false changes nothing", func(t *testing.T, w *testHost) {
		w.withBandwidth(map[string]int{"br-ex": 1000, "ens1f0": 2000})
		_, stop := w.startReported()
		w.until("it is reported", func() bool { return w.bandwidthOf(ens1Name) == "2000/0" })
		must(t, stop())
		writes := w.writes()
		w.withBandwidth(map[string]int{"br-ex": 5})
		w.options.ReportBandwidth = false
		a, stop := w.startReported()
		time.Sleep(5 * time.Minute)
		if got := synced(a); w.writes() != writes || got != "Open vSwitch agent null, NIC Switch agent null" {
			t.Errorf("%d writes, synced: %s", w.writes()-writes, got)
		}
		must(t, stop())
	})
}

// Neutron's stale providers of a reported agent type are removed from the host's own tree, also without a record in the
// journal; those of other agent types are left.
func TestStaleBandwidthOfNeutron(t *testing.T) {
	scenario(t, "", func(t *testing.T, w *testHost) {
		w.withBandwidth(map[string]int{"br-ex": 1000})
		_, stop := w.startReported()
		w.until("it is reported", func() bool { return w.bandwidthOf(bridgeName) == "1000/0" })
		for _, n := range []bandwidth.Name{{Hypervisor: "cmp1", Agent: bandwidth.OpenVSwitch, Device: "br-old"},
			{Hypervisor: "cmp1", Agent: bandwidth.OVN}} {
			parent := provider.ID(rootID)
			if n.Device != "" {
				parent = w.provider(ovsName).ID
			}
			w.placement.SetProvider(provider.Provider{ID: n.ID(), Name: n.String(), Parent: parent, Root: rootID})
		}
		w.until("the stale one is deleted", func() bool { return w.provider(ovsName+":br-old").ID == "" })
		time.Sleep(3 * time.Minute)
		if w.provider("cmp1:OVN Controller agent").ID == "" {
			t.Error("a provider of another reporter is deleted")
		}
		must(t, stop())
	})
}

func TestBandwidthOfAnotherHypervisor(t *testing.T) {
	scenario(t, "a missing root is retried", func(t *testing.T, w *testHost) {
		w.withBandwidth(map[string]int{"br-ex": 1000, "ens1f0": 2000})
		w.options.Bandwidth[1].Hypervisors = map[string]string{"ens1f0": "other"}
		a, stop := w.startReported()
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "hypervisor other") })
		if w.bandwidthOf(bridgeName) != "1000/0" || synced(a) != "Open vSwitch agent true, NIC Switch agent false" {
			t.Errorf("%s %s", w.bandwidthOf(bridgeName), synced(a))
		}
		plan, err := w.agent().Plan(t.Context())
		must(t, err)
		if len(plan.Objections) != 1 {
			t.Errorf("%v", plan.Objections)
		}
		w.placement.SetProvider(provider.Provider{ID: otherRoot, Name: "other", Root: otherRoot})
		w.until("it is reported", func() bool { return w.bandwidthOf("other:NIC Switch agent:ens1f0") == "2000/0" })
		w.until("no condition", func() bool { return w.compute.conditions() == "" && synced(a) == allSynced })
		must(t, stop())
		w.withBandwidth(map[string]int{"br-ex": 1000, "ens1f0": 2000}) // the device is the own host's again
		_, stop = w.startReported()
		w.until("it has moved", func() bool {
			return w.bandwidthOf(ens1Name) == "2000/0" && w.provider("other:NIC Switch agent").ID == ""
		})
		if w.provider("other").ID == "" {
			t.Error("the root of another host is deleted")
		}
		must(t, stop())
	})
	scenario(t, "a hypervisor that is not a root", func(t *testing.T, w *testHost) {
		w.withBandwidth(map[string]int{"ens1f0": 2000})
		w.options.Bandwidth[1].Hypervisors = map[string]string{"ens1f0": name1}
		_, stop := w.startReported()
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "is not a root") })
		must(t, stop())
	})
}

func TestInterfacesOfBandwidth(t *testing.T) {
	scenario(t, "an interface vanishes and returns", func(t *testing.T, w *testHost) {
		w.withBandwidth(map[string]int{"ens1f0": 2000})
		_, stop := w.startReported()
		w.until("it is reported", func() bool { return w.bandwidthOf(ens1Name) == "2000/0" })
		w.sysfs.change(func(m fstest.MapFS) {
			maps.DeleteFunc(m, func(name string, _ *fstest.MapFile) bool { return strings.Contains(name, "/ens1f0/") })
		})
		w.until("it is reserved", func() bool { return w.bandwidthOf(ens1Name) == "2000/2000" })
		w.until("a condition", func() bool {
			return strings.Contains(w.compute.conditions(), "interface ens1f0 does not exist")
		})
		w.withBandwidth(map[string]int{"ens1f0": 2000})
		w.until("it is offered again", func() bool { return w.bandwidthOf(ens1Name) == "2000/0" })
		w.until("no condition", func() bool { return w.compute.conditions() == "" })
		must(t, stop())
	})
	scenario(t, "a rate above the link speed is a condition", func(t *testing.T, w *testHost) {
		w.withBandwidth(map[string]int{"ens1f0": 20_000_000})
		a, stop := w.startReported()
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "above the link speed") })
		if w.bandwidthOf(ens1Name) != "20000000/0" || synced(a) != allSynced {
			t.Errorf("%s %s", w.bandwidthOf(ens1Name), synced(a))
		}
		must(t, stop())
	})
}

// failWrites lets a call on a provider fail while the returned value is true. It must be called before an agent runs.
func (w *testHost) failWrites(op string, id provider.ID) (broken *atomic.Bool) {
	broken = &atomic.Bool{}
	before := w.placement.Fail
	w.placement.Fail = func(call placementtest.Call) (error, error) {
		if broken.Load() && call.Op == op && call.Provider == id {
			return fault.New(fault.Internal, "broken"), nil
		}
		return before(call)
	}
	return broken
}

// One failed step does not prevent the others, and is repeated.
func TestFailedBandwidthStep(t *testing.T) {
	for _, op := range []string{"PutTraits", "PutInventories"} {
		scenario(t, op, func(t *testing.T, w *testHost) {
			w.withBandwidth(map[string]int{"ens1f0": 2000, "ens2f0": 1000})
			_, stop := w.startReported()
			w.until("it is reported", func() bool { return w.bandwidthOf(nicName+":ens2f0") == "1000/0" })
			must(t, stop())
			w.withBandwidth(map[string]int{"ens1f0": 2001, "ens2f0": 1001, "br-ex": 1001})
			w.options.Bandwidth[1].VNICTypes = []string{"direct", "macvtap"}
			broken := w.failWrites(op, w.provider(ens1Name).ID)
			broken.Store(true)
			a, stop := w.startReported()
			w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), ens1Name+": broken") })
			ens2 := w.provider(nicName + ":ens2f0")
			if w.bandwidthOf(bridgeName) != "1001/0" || w.bandwidthOf(nicName+":ens2f0") != "1001/0" ||
				!ens2.HasTrait("CUSTOM_VNIC_TYPE_MACVTAP") {
				t.Errorf("the other steps are not executed: %+v", w.placement.tree())
			}
			if got := synced(a); got != "Open vSwitch agent true, NIC Switch agent false" {
				t.Error(got)
			}
			broken.Store(false)
			w.until("all steps", func() bool {
				return w.bandwidthOf(ens1Name) == "2001/0" && w.provider(ens1Name).HasTrait("CUSTOM_VNIC_TYPE_MACVTAP") &&
					synced(a) == allSynced && w.compute.conditions() == ""
			})
			must(t, stop())
		})
	}
	scenario(t, "a provider that cannot be created", func(t *testing.T, w *testHost) {
		w.withBandwidth(map[string]int{"ens1f0": 2000, "br-ex": 1000})
		// Another client has a provider with the name, in a tree of its own.
		w.placement.SetProvider(provider.Provider{ID: otherRoot, Name: nicName, Root: otherRoot})
		a, stop := w.startReported()
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "create provider "+nicName) })
		if w.bandwidthOf(bridgeName) != "1000/0" || synced(a) != "Open vSwitch agent true, NIC Switch agent false" {
			t.Errorf("%s %s", w.bandwidthOf(bridgeName), synced(a))
		}
		w.placement.RemoveProvider(otherRoot)
		w.until("it is created", func() bool { return w.bandwidthOf(ens1Name) == "2000/0" && synced(a) == allSynced })
		must(t, stop())
	})
	scenario(t, "a plan for devices that fails does not prevent bandwidth", func(t *testing.T, w *testHost) {
		w.withBandwidth(map[string]int{"ens1f0": 2000})
		broken := w.failWrites("PutInventories", survey.ProviderID(rootID, name1))
		a, stop := w.startReported()
		w.until("it is reported", func() bool { return synced(a) == allSynced })
		broken.Store(true)
		for _, name := range []string{name1, ens1Name} {
			w.placement.change(name, func(p *provider.Provider) { p.Inventories = nil })
		}
		w.until("it is repaired", func() bool { return w.bandwidthOf(ens1Name) == "2000/0" })
		if len(w.provider(name1).Inventories) > 0 {
			t.Error("the plan for devices did not fail")
		}
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "broken") })
		broken.Store(false)
		w.until("the devices", func() bool { return w.total(name1, class) == 2 && w.compute.conditions() == "" })
		must(t, stop())
	})
}

// A conflict is retried ten times with what Placement has then, before a longer wait.
func TestConflictsOfBandwidthAreRetried(t *testing.T) {
	scenario(t, "", func(t *testing.T, w *testHost) {
		w.withBandwidth(map[string]int{"ens1f0": 2000})
		id := bandwidth.Name{Hypervisor: "cmp1", Agent: bandwidth.NICSwitch, Device: "ens1f0"}.ID()
		var tries, limit atomic.Int32
		limit.Store(1 << 30)
		before := w.placement.Fail
		w.placement.Fail = func(call placementtest.Call) (error, error) {
			if call.Op == "PutInventories" && call.Provider == id && tries.Add(1) <= limit.Load() {
				return fault.New(fault.Conflict, "another client"), nil
			}
			return before(call)
		}
		_, stop := w.startReported()
		w.until("a condition", func() bool { return strings.Contains(w.compute.conditions(), "another client") })
		if n := tries.Load(); n != 10 {
			t.Errorf("%d tries before the condition, want 10", n)
		}
		limit.Store(tries.Load() + 3)
		w.until("it is written", func() bool { return w.bandwidthOf(ens1Name) == "2000/0" && w.compute.conditions() == "" })
		if n := tries.Load(); n != 14 {
			t.Errorf("%d tries, want 14", n)
		}
		must(t, stop())
	})
}

// Providers as Neutron reports them are taken over without a write.
func TestBandwidthOfNeutronIsTakenOver(t *testing.T) {
	scenario(t, "", func(t *testing.T, w *testHost) {
		_, stop := w.startReported()
		must(t, stop())
		w.withBandwidth(map[string]int{"ens1f0": 2000})
		for _, d := range w.options.Bandwidth[1].Providers() {
			p := d.Provider
			if p.Root = rootID; p.Parent == "" {
				p.Parent = rootID
			}
			p.Generation = 5
			w.placement.SetProvider(p)
		}
		w.options.Bandwidth = w.options.Bandwidth[1:]
		writes := w.writes()
		a, stop := w.startReported()
		w.until("it is synced", func() bool { return synced(a) == "NIC Switch agent true" })
		if n := w.writes() - writes; n != 0 {
			t.Errorf("%d writes", n)
		}
		must(t, stop())
		w.options.Bandwidth = nil
		_, stop = w.startReported()
		w.until("they are removed", func() bool { return w.provider(nicName).ID == "" })
		must(t, stop())
	})
}

// resources_synced is null before the first attempt, false while Placement does not answer, and true afterwards.
func TestSyncedFollowsPlacement(t *testing.T) {
	scenario(t, "", func(t *testing.T, w *testHost) {
		w.withBandwidth(map[string]int{"ens1f0": 2000})
		if got := w.agent().Heartbeats(); got != nil {
			t.Errorf("before the start: %v", got)
		}
		var broken atomic.Bool
		broken.Store(true)
		w.placement.fail = func(string) error {
			if broken.Load() {
				return fault.New(fault.Unavailable, "down")
			}
			return nil
		}
		a, stop := w.start()
		w.until("not synced", func() bool { return synced(a) == "Open vSwitch agent false, NIC Switch agent false" })
		broken.Store(false)
		w.until("synced", func() bool { return synced(a) == allSynced })
		h := a.Heartbeats()[1]
		if h.Host != "cmp1" || len(h.Providers) != 2 || h.Configurations["device_mappings"] == nil {
			t.Errorf("%+v", h)
		}
		must(t, stop())
	})
}

// The configuration changes with a crash at each call in turn. The final state is always the same.
func TestCrashWhileBandwidthIsReported(t *testing.T) {
	crashAtCalls(t, testenv.Stride(7), 20, 200, func(t *testing.T, crashes func() *crash) {
		w := newTestHost(t)
		w.withBandwidth(map[string]int{"br-ex": 1000, "ens1f0": 2000})
		w.runAgents(func() bool {
			return w.bandwidthOf(bridgeName) == "1000/0" && w.bandwidthOf(ens1Name) == "2000/0"
		}, crashes)
		w.withBandwidth(map[string]int{"ens1f0": 2500, "ens2f0": 1})
		w.runAgents(func() bool {
			return w.bandwidthOf(bridgeName) == "none" && w.bandwidthOf(ens1Name) == "2500/0" &&
				w.bandwidthOf(nicName+":ens2f0") == "1/0"
		}, crashes)
		if n := len(w.placement.tree().Providers); n != 7 {
			t.Errorf("%d providers", n)
		}
	})
}
