//go:build nova

package nova

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/hypervisors"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// damage is a way to damage the cloud. Those of fleet/testdata/damages.txt are all in damages.
type damage struct {
	flavor flavorName // of a server of its own on cmp1; empty: it needs none
	port   bool       // the server has a port with a guarantee
	moved  string     // the end of a resize of the server: confirmed, reverted, or another status that SQL writes
	write  func(t *testing.T, d *damagedCloud, server string) (subject string)
	rule   fleet.Rule
	heals  bool
}

type flavorName string

// The flavors, with what a server of each holds.
const (
	plain    flavorName = "plain"    // 2 VCPU, 512 MB, 1 GB
	single   flavorName = "single"   // 1 VCPU, 256 MB, 1 GB
	diskless flavorName = "diskless" // 1 VCPU, 256 MB
	withGPU  flavorName = "gpu"      // as single, and one CUSTOM_GPU of the device below the host
	withCard flavorName = "card"     // as single, and one CUSTOM_CARD
	huge     flavorName = "huge"     // fits nowhere
)

// orphan gives a consumer without a server something of cmp1.
func orphan(part string, amounts resource.Amounts) damage {
	return damage{rule: fleet.Orphaned, heals: true, write: func(t *testing.T, d *damagedCloud, _ string) string {
		id := uuid.NewString()
		d.put(t, id, "INSTANCE", resource.Allocation{d.part["cmp1"+part]: amounts})
		return id
	}}
}

// ended gives a move of a server that has ended something of cmp1.
func ended(status string) damage {
	return damage{flavor: single, moved: status, rule: fleet.EndedMove, heals: true,
		write: func(t *testing.T, d *damagedCloud, server string) string {
			id := d.cellValue(t, "SELECT uuid FROM migrations WHERE instance_uuid = ?", server)
			d.put(t, id, "MIGRATION", resource.Allocation{d.part["cmp1"]: {"VCPU": 1}})
			return id
		}}
}

// add adds n of a class to what a server holds of a part of cmp1.
func add(f flavorName, part string, class resource.Class, n int, rule fleet.Rule) damage {
	return damage{flavor: f, port: rule == fleet.PortAmounts && f != plain, rule: rule, heals: true,
		write: func(t *testing.T, d *damagedCloud, server string) string {
			d.change(t, server, func(held resource.Allocation) { d.add(held, "cmp1"+part, class, n) })
			return server
		}}
}

// second gives a server something of cmp2.
func second(f flavorName, port bool, part string, amounts resource.Amounts) damage {
	return damage{flavor: f, port: port, rule: fleet.SecondHost, heals: true,
		write: func(t *testing.T, d *damagedCloud, server string) string {
			d.change(t, server, func(held resource.Allocation) { held[d.part["cmp2"+part]] = amounts })
			return server
		}}
}

// nothing removes the allocation of a server.
func nothing(t *testing.T, d *damagedCloud, server string) string {
	d.change(t, server, func(held resource.Allocation) { clear(held) })
	return server
}

// without removes what a server holds of a part of cmp1.
func without(part string) func(*testing.T, *damagedCloud, string) string {
	return func(t *testing.T, d *damagedCloud, server string) string {
		d.change(t, server, func(held resource.Allocation) { delete(held, d.part["cmp1"+part]) })
		return server
	}
}

// The parts of hosts beside their root providers.
const (
	gpu  = " gpu"
	card = " card"
	ovs  = " br-ex"
	nic  = " ens1"
)

const kbps = bandwidth.EgressBandwidth

var damages = map[string]damage{
	"orphan of CPUs":          orphan("", resource.Amounts{"VCPU": 2}),
	"orphan of memory":        orphan("", resource.Amounts{"MEMORY_MB": 512}),
	"orphan of disk":          orphan("", resource.Amounts{"DISK_GB": 3}),
	"orphan of all":           orphan("", resource.Amounts{"VCPU": 1, "MEMORY_MB": 1, "DISK_GB": 1}),
	"orphan of a GPU":         orphan(gpu, resource.Amounts{"CUSTOM_GPU": 1}),
	"orphan of bandwidth":     orphan(ovs, resource.Amounts{kbps: 5}),
	"confirmed migration":     ended("confirmed"),
	"reverted migration":      ended("reverted"),
	"failed migration":        ended("error"),
	"completed migration":     ended("completed"),
	"cancelled migration":     ended("cancelled"),
	"fewer CPUs":              add(plain, "", "VCPU", -1, fleet.TooLittle),
	"no CPUs":                 add(single, "", "VCPU", -1, fleet.TooLittle),
	"less memory":             add(plain, "", "MEMORY_MB", -256, fleet.TooLittle),
	"no disk":                 add(single, "", "DISK_GB", -1, fleet.TooLittle),
	"more CPUs":               add(plain, "", "VCPU", 5, fleet.TooMuch),
	"more memory":             add(single, "", "MEMORY_MB", 1, fleet.TooMuch),
	"more disk":               add(single, "", "DISK_GB", 9, fleet.TooMuch),
	"disk that is unwanted":   add(diskless, "", "DISK_GB", 1, fleet.TooMuch),
	"another GPU":             add(withGPU, gpu, "CUSTOM_GPU", 1, fleet.TooMuch),
	"GPU of a plain server":   add(plain, gpu, "CUSTOM_GPU", 1, fleet.TooMuch),
	"less bandwidth":          add(single, ovs, kbps, -500, fleet.PortAmounts),
	"more bandwidth":          add(single, ovs, kbps, 500, fleet.PortAmounts),
	"bandwidth without port":  add(plain, ovs, kbps, 500, fleet.PortAmounts),
	"second host, CPUs":       second(plain, false, "", resource.Amounts{"VCPU": 1}),
	"second host, all":        second(single, false, "", resource.Amounts{"VCPU": 1, "MEMORY_MB": 2}),
	"second host, GPU":        second(withGPU, false, gpu, resource.Amounts{"CUSTOM_GPU": 1}),
	"second host, bandwidth":  second(single, true, ovs, resource.Amounts{kbps: 10}),
	"no allocation":           {flavor: plain, write: nothing, rule: fleet.NoAllocation, heals: true},
	"no bandwidth":            {flavor: single, port: true, write: without(ovs), rule: fleet.PortAmounts, heals: true},
	"no GPU":                  {flavor: withGPU, write: without(gpu), rule: fleet.TooLittle}, // which one is not known
	"shelved with allocation": {flavor: single, rule: fleet.WithoutHost, heals: true, write: offline},
	"failed with allocation": {flavor: huge, rule: fleet.WithoutHost, heals: true,
		write: func(t *testing.T, d *damagedCloud, server string) string {
			d.put(t, server, "INSTANCE", resource.Allocation{d.part["cmp1"]: {"VCPU": 1}})
			return server
		}},
	"no allocation, with a port": {flavor: single, port: true, write: nothing, rule: fleet.NoAllocation, heals: true},
	"wrong host": {flavor: plain, rule: fleet.WrongHost, heals: true,
		write: func(t *testing.T, d *damagedCloud, server string) string {
			d.change(t, server, func(held resource.Allocation) {
				held[d.part["cmp2"]] = held[d.part["cmp1"]]
				delete(held, d.part["cmp1"])
			})
			return server
		}},
	"doubled": {flavor: plain, rule: fleet.Doubled, heals: true,
		write: func(t *testing.T, d *damagedCloud, server string) string {
			d.change(t, server, func(held resource.Allocation) {
				root := d.part["cmp1"]
				for class, n := range maps.Clone(held[root]) {
					held[root][class] = 2 * n
				}
			})
			return server
		}},
	"agent is gone":            {rule: fleet.OwnerGone, heals: true, write: loseAgent},
	"no hypervisor's provider": {rule: fleet.NoProvider, write: addHypervisor},
	"provider without service": {rule: fleet.NoService, heals: true,
		write: func(t *testing.T, d *damagedCloud, _ string) string {
			return string(d.provider(t, "cmp8", "", map[resource.Class]int{"VCPU": 8}))
		}},
	"over capacity": {flavor: withCard, rule: fleet.Overcommitted,
		write: func(t *testing.T, d *damagedCloud, _ string) string { // another server has a card too
			d.inventory(t, d.part["cmp1"+card], map[resource.Class]int{"CUSTOM_CARD": 1})
			return string(d.part["cmp1"+card])
		}},
	"device twice": {flavor: single, rule: fleet.DeviceTwice,
		write: func(t *testing.T, d *damagedCloud, server string) string {
			one, other := d.devicePort(t, server), d.devicePort(t, d.servers["over capacity"])
			return max(one, other) // Neutron lists ports by id, and the later one is reported
		}},
	"port of another provider": {flavor: single, port: true, rule: fleet.PortProvider, write: renamePort},
	"lost port": {rule: fleet.LostPort,
		write: func(t *testing.T, d *damagedCloud, _ string) string { return d.devicePort(t, missing) }},
}

// offline takes a server off its host in Nova's database, as an offload does that does not release the allocation.
// Nova's own shelving needs an image service that stores images.
func offline(t *testing.T, d *damagedCloud, server string) string {
	d.sql(t, "UPDATE instances SET host = NULL, node = NULL, vm_state = 'shelved_offloaded' WHERE uuid = ?", server)
	return server
}

// loseAgent removes the agent of a NIC from Neutron. Another agent of the host remains.
func loseAgent(t *testing.T, d *damagedCloud, _ string) string {
	d.nets.Stop(t, "cmp2", bandwidth.NICSwitch)
	d.deleteAgent(t, "cmp2", bandwidth.NICSwitch)
	return string(d.part["cmp2"+nic])
}

// addHypervisor adds a host to Nova's database that does not run and has no provider. A running nova-compute creates
// its provider again.
func addHypervisor(t *testing.T, d *damagedCloud, _ string) string {
	id := uuid.NewString()
	d.copyRow(t, "services", "topic = 'compute' AND host = 'cmp1'", map[string]string{"host": "'cmp9'",
		"uuid": "UUID()", "last_seen_up": "'2026-01-01'", "updated_at": "'2026-01-01'"})
	d.copyRow(t, "compute_nodes", "host = 'cmp1'", map[string]string{"host": "'cmp9'", "hypervisor_hostname": "'cmp9'",
		"uuid": "'" + id + "'", "mapped": "0"})
	testenv.Until(t, "Nova lists the host cmp9", func() error {
		pages, err := hypervisors.List(d.api, nil).AllPages(t.Context())
		if err == nil && !strings.Contains(fmt.Sprint(pages.GetBody()), id) {
			err = errors.New("it does not")
		}
		return err
	})
	return id
}

// renamePort writes another provider into the profile of the port of a server.
func renamePort(t *testing.T, d *damagedCloud, server string) string {
	port := d.ports[server]
	p, err := d.network(t).Port(t.Context(), port)
	if err != nil {
		t.Fatal(err)
	}
	wrong := map[string]provider.ID{}
	for group := range p.Allocation() {
		wrong[group] = d.part["cmp1"+gpu]
	}
	profile := map[string]any{"binding:profile": map[string]any{"allocation": wrong}}
	if _, err := d.network(t).UpdatePort(t.Context(), port, profile); err != nil || len(wrong) == 0 {
		t.Error(err, wrong)
	}
	return port
}
