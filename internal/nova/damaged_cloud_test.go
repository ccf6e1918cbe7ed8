//go:build nova

package nova

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/openberth/berth/api/network"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/internal/bench"
	"github.com/openberth/berth/internal/clienttest"
	"github.com/openberth/berth/internal/neutron"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// damagedCloud is a cloud of Nova, Neutron and Keystone with a server for each damage that needs one.
type damagedCloud struct {
	*nova
	nets    *neutron.Neutron
	client  *api.Client
	program string
	part    map[string]provider.ID // by host and part
	lan     string
	servers map[string]string // by damage
	ports   map[string]string // with a guarantee, by server
}

// TestNovaDamages writes every kind of damage into a cloud of Nova and Neutron. The audit finds each and nothing else,
// heals what can be healed so that Placement has what it had before, and undoes that.
func TestNovaDamages(t *testing.T) {
	listed, err := os.ReadFile("../../fleet/testdata/damages.txt")
	names := slices.Sorted(maps.Keys(damages))
	if err != nil || string(listed) != strings.Join(names, "\n")+"\n" {
		t.Fatalf("the damages are not those of fleet/testdata/damages.txt: %v", err)
	}
	d := startDamagedCloud(t)
	if found := d.differences(t, 0); len(found) != 0 {
		t.Fatalf("a cloud without damage has differences: %v", found)
	}
	right, want := d.state(t), map[[2]string]bool{}
	for _, name := range names {
		want[[2]string{string(damages[name].rule), damages[name].write(t, d, d.servers[name])}] = damages[name].heals
	}
	damaged := d.state(t)
	d.compare(t, "before healing", d.differences(t, differencesFound), want)

	undo := filepath.Join(t.TempDir(), "undo.json")
	_, status := d.berth(t, d.program, "audit", "--between-looks", "5s", "--heal", "--yes", "--undo-file", undo)
	if status != differencesFound {
		t.Errorf("healing: status %d", status)
	}
	left := maps.Clone(want)
	maps.DeleteFunc(left, func(_ [2]string, heals bool) bool { return heals })
	d.compare(t, "after healing", d.differences(t, differencesFound), left)
	d.healed(t, right, damaged, d.state(t))

	if _, status := d.berth(t, d.program, "audit", "--undo", undo); status != 0 {
		t.Errorf("undoing: status %d", status)
	}
	d.compare(t, "after the undo", d.differences(t, differencesFound), want)
	if now := d.state(t); !reflect.DeepEqual(now, damaged) {
		t.Errorf("after the undo Placement has\n%v\nand had\n%v", now, damaged)
	}
}

// differencesFound is the exit status of an audit with differences.
const differencesFound = 3

// differences audits the cloud, which must end with a status, and returns the rules and subjects, with whether each is
// healed.
func (d *damagedCloud) differences(t *testing.T, status int) map[[2]string]bool {
	t.Helper()
	out, got := d.berth(t, d.program, "audit", "--between-looks", "5s", "-o", "json")
	var found struct{ Differences []fleet.Finding }
	if err := json.Unmarshal([]byte(out), &found); err != nil || got != status {
		t.Fatalf("status %d, want %d: %v", got, status, err)
	}
	all := map[[2]string]bool{}
	for _, f := range found.Differences {
		all[[2]string{string(f.Rule), f.Subject}] = f.Change != nil
	}
	return all
}

// compare reports what an audit has found and should not have, and the reverse.
func (d *damagedCloud) compare(t *testing.T, when string, found, want map[[2]string]bool) {
	t.Helper()
	for key, heals := range found {
		if expected, known := want[key]; !known || expected != heals {
			t.Errorf("%s: invented, or healed otherwise: %v, healed: %t", when, key, heals)
		}
	}
	for key := range want {
		if _, known := found[key]; !known {
			t.Errorf("%s: not found: %v", when, key)
		}
	}
}

// held is what Placement has: allocations by consumer and provider, and inventories by provider.
type held map[string]resource.Amounts

// state reads all allocations and inventories of Placement.
func (d *damagedCloud) state(t *testing.T) held {
	t.Helper()
	out := held{}
	list, err := d.client.Providers(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		inventories, err := d.client.Inventories(t.Context(), p.ID)
		if err != nil {
			t.Fatal(err)
		}
		out[p.Name] = resource.Amounts{}
		for class, inventory := range inventories.Inventories {
			out[p.Name][class] = inventory.Total
		}
		all, err := d.client.ProviderAllocations(t.Context(), p.ID)
		if err != nil {
			t.Fatal(err)
		}
		for consumer, amounts := range all {
			out[string(consumer)+" on "+p.Name] = amounts
		}
	}
	return out
}

// healed checks that Placement has what it had before the damage, except for what is not healed.
func (d *damagedCloud) healed(t *testing.T, right, damaged, now held) {
	t.Helper()
	kept := []string{d.servers["no GPU"] + " on cmp1_0000:81:00.0", "cmp1_0000:82:00.0"}
	released := d.servers["shelved with allocation"] + " on cmp1"
	for key := range maps.Keys(maps.Collect(chain(right, now))) {
		want := right[key]
		switch {
		case slices.Contains(kept, key):
			want = damaged[key]
		case key == released, key == "cmp2:NIC Switch agent:ens1": // of the agent that is gone
			want = nil
		}
		if !maps.Equal(now[key], want) {
			t.Errorf("after healing %s has %v, before the damage %v", key, now[key], want)
		}
	}
}

// chain returns the entries of two maps.
func chain(a, b held) func(func(string, resource.Amounts) bool) {
	return func(yield func(string, resource.Amounts) bool) {
		for _, m := range []held{a, b} {
			for key, amounts := range m {
				if !yield(key, amounts) {
					return
				}
			}
		}
	}
}

// startDamagedCloud starts the cloud with its servers.
func startDamagedCloud(t *testing.T) *damagedCloud {
	t.Helper()
	d := &damagedCloud{part: map[string]provider.ID{}, servers: map[string]string{}, ports: map[string]string{}}
	d.nova = startNovaWith(t, func(c *clienttest.Cloud) string {
		d.nets = neutron.Start(t, c)
		return d.nets.URL
	})
	var err error
	if d.program, err = bench.Build(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	d.client = api.NewClient(strings.TrimSuffix(d.placement.Endpoint, "/"), http.DefaultClient, d.Admin(t))
	for id, host := range d.hosts(t) {
		d.part[host] = provider.ID(id)
		rate := bandwidth.Rate{Set: true, Amount: 100000}
		devices := map[bandwidth.AgentType]string{bandwidth.OpenVSwitch: "br-ex", bandwidth.NICSwitch: "ens1"}
		for kind, device := range devices {
			d.nets.Report(t, host, bandwidth.Agent{Type: kind, DefaultHypervisor: host,
				Mappings:   []bandwidth.Mapping{{Physnet: "physnet0", Device: device}},
				Bandwidths: map[string]bandwidth.Rates{device: {Egress: rate}},
				Defaults:   bandwidth.BuiltInDefaults(), PacketDefaults: bandwidth.BuiltInDefaults()})
			d.part[host+" "+device] = bandwidth.Name{Hypervisor: host, Agent: kind, Device: device}.ID()
		}
	}
	for _, class := range []resource.Class{"CUSTOM_GPU", "CUSTOM_CARD"} {
		if err := d.client.EnsureClass(t.Context(), class); err != nil {
			t.Fatal(err)
		}
	}
	for _, host := range []string{"cmp1", "cmp2"} {
		d.part[host+gpu] = d.provider(t, host+"_0000:81:00.0", d.part[host], map[resource.Class]int{"CUSTOM_GPU": 100})
	}
	d.part["cmp1"+card] = d.provider(t, "cmp1_0000:82:00.0", d.part["cmp1"], map[resource.Class]int{"CUSTOM_CARD": 8})
	d.awaitNICs(t)
	d.createServers(t)
	return d
}

// awaitNICs waits until Neutron has reported the bandwidths of all agents.
func (d *damagedCloud) awaitNICs(t *testing.T) {
	t.Helper()
	for _, part := range []string{"cmp1" + ovs, "cmp2" + ovs, "cmp1" + nic, "cmp2" + nic} {
		testenv.Until(t, part+" has its bandwidth", func() error {
			has, err := d.client.Inventories(t.Context(), d.part[part])
			if err == nil && len(has.Inventories) == 0 {
				err = fmt.Errorf("it has %v", has)
			}
			return err
		})
	}
}

// createServers creates a server for each damage that needs one, and a second one with a card.
func (d *damagedCloud) createServers(t *testing.T) {
	t.Helper()
	ids := map[flavorName]string{plain: d.flavor(t, "plain", 2, 512, 1), single: d.flavor(t, "single", 1, 256, 1),
		diskless: d.flavor(t, "diskless", 1, 256, 0), huge: d.flavor(t, "huge", 1, 256, 999999)}
	for f, class := range map[flavorName]string{withGPU: "CUSTOM_GPU", withCard: "CUSTOM_CARD"} {
		ids[f] = d.flavor(t, string(f), 1, 256, 1)
		if _, err := flavors.CreateExtraSpecs(t.Context(), d.api, ids[f],
			flavors.ExtraSpecsOpts{"resources:" + class: "1"}).Extract(); err != nil {
			t.Fatal(err)
		}
	}
	policy := d.guarantee(t)
	d.create(t, "second card", ids[withCard], "")
	for name, of := range damages {
		if of.flavor == "" {
			continue
		}
		port := ""
		if of.port {
			port = d.port(t, map[string]any{"network_id": d.lan, "qos_policy_id": policy})
		}
		d.create(t, name, ids[of.flavor], port)
	}
	for name, id := range d.servers {
		if damages[name].flavor != huge {
			d.await(t, id, "ACTIVE")
			continue
		}
		testenv.Until(t, "a server that fits nowhere is in ERROR", func() error {
			s, err := servers.Get(t.Context(), d.api, id).Extract()
			if err == nil && s.Status != "ERROR" {
				err = fmt.Errorf("it is %s", s.Status)
			}
			return err
		})
	}
	d.move(t, ids[plain])
}

// create creates a server on cmp1, and does not wait.
func (d *damagedCloud) create(t *testing.T, name, flavor, port string) {
	t.Helper()
	o := servers.CreateOpts{Name: name, ImageRef: image, FlavorRef: flavor, Networks: "none",
		AvailabilityZone: "nova:cmp1"}
	if port != "" {
		o.Networks = []servers.Network{{Port: port}}
	}
	if damages[name].flavor == huge {
		o.AvailabilityZone = ""
	}
	made, err := servers.Create(t.Context(), d.api, o, nil).Extract()
	if err != nil {
		t.Fatal(name, err)
	}
	d.servers[name] = made.ID
	if port != "" {
		d.ports[made.ID] = port
	}
}

// move resizes the servers whose damage needs a move that has ended.
func (d *damagedCloud) move(t *testing.T, flavor string) {
	t.Helper()
	moved := map[string]string{} // the end, by server
	for name, of := range damages {
		if of.moved != "" {
			moved[d.servers[name]] = of.moved
		}
	}
	for id := range moved {
		if err := servers.Resize(t.Context(), d.api, id, servers.ResizeOpts{FlavorRef: flavor}).ExtractErr(); err != nil {
			t.Fatal(err)
		}
	}
	for id, end := range moved {
		d.await(t, id, "VERIFY_RESIZE")
		end := map[bool]func() error{
			true:  func() error { return servers.RevertResize(t.Context(), d.api, id).ExtractErr() },
			false: func() error { return servers.ConfirmResize(t.Context(), d.api, id).ExtractErr() }}[end == "reverted"]
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	for id, end := range moved {
		d.await(t, id, "ACTIVE")
		testenv.Until(t, "the migration has ended", func() error {
			status := d.cellValue(t, "SELECT status FROM migrations WHERE instance_uuid = ?", id)
			if status != "confirmed" && status != "reverted" {
				return fmt.Errorf("it is %s", status)
			}
			return nil
		})
		if end != "confirmed" && end != "reverted" {
			d.sql(t, "UPDATE migrations SET status = ? WHERE instance_uuid = ?", end, id)
		}
	}
}

// network returns a client of Neutron with a new token.
func (d *damagedCloud) network(t *testing.T) *network.Client {
	t.Helper()
	return network.NewClient(d.nets.URL, http.DefaultClient, d.Admin(t))
}

// guarantee creates the network lan and a policy with 1000 kbit/s of egress.
func (d *damagedCloud) guarantee(t *testing.T) (policy string) {
	t.Helper()
	p := guaranteedPort(t, d.network(t))
	port, err := d.network(t).Port(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	d.lan = port.Network
	policies, err := d.network(t).Policies(t.Context(), nil)
	if err != nil || len(policies) != 1 {
		t.Fatal(err, policies)
	}
	return policies[0].ID
}

// port creates a port.
func (d *damagedCloud) port(t *testing.T, attributes map[string]any) (id string) {
	t.Helper()
	p, err := d.network(t).CreatePort(t.Context(), attributes)
	if err != nil {
		t.Fatal(err)
	}
	return p.ID
}

// devicePort creates a port of a server on cmp1 with a device.
func (d *damagedCloud) devicePort(t *testing.T, server string) (id string) {
	t.Helper()
	return d.port(t, map[string]any{"network_id": d.lan, "device_id": server, "device_owner": "compute:nova",
		"binding:host_id": "cmp1", "binding:profile": map[string]any{"pci_slot": "0000:3b:00.1"}})
}

// deleteAgent deletes an agent of Neutron.
func (d *damagedCloud) deleteAgent(t *testing.T, host string, kind bandwidth.AgentType) {
	t.Helper()
	list, err := d.network(t).Agents(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if a.Host == host && a.Type == string(kind) {
			if _, err := d.network(t).REST.Do(t.Context(), "DELETE", "/v2.0/agents/"+a.ID, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// provider creates a provider with inventories.
func (d *damagedCloud) provider(t *testing.T, name string, parent provider.ID,
	totals map[resource.Class]int) provider.ID {
	t.Helper()
	p, err := d.client.CreateProvider(t.Context(), provider.ID(uuid.NewString()), name, parent)
	if err != nil {
		t.Fatal(err)
	}
	d.inventory(t, p.ID, totals)
	return p.ID
}

// inventory writes the inventories of a provider.
func (d *damagedCloud) inventory(t *testing.T, id provider.ID, totals map[resource.Class]int) {
	t.Helper()
	now, err := d.client.Inventories(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	set := map[resource.Class]resource.Inventory{}
	for class, n := range totals {
		set[class] = resource.Whole(n)
	}
	if _, err := d.client.PutInventories(t.Context(), id, now.Generation, set); err != nil {
		t.Fatal(err)
	}
}

// put writes the allocation of a consumer that has none.
func (d *damagedCloud) put(t *testing.T, consumer, kind string, amounts resource.Allocation) {
	t.Helper()
	if err := d.client.PutAllocation(t.Context(), resource.ConsumerID(consumer), api.ConsumerAllocation{
		Allocation: amounts, Project: "p", User: "u", ConsumerType: kind}); err != nil {
		t.Fatal(err)
	}
}

// change changes the allocation of a server.
func (d *damagedCloud) change(t *testing.T, server string, change func(held resource.Allocation)) {
	t.Helper()
	now, err := d.client.Allocation(t.Context(), resource.ConsumerID(server))
	if err != nil || len(now.Allocation) == 0 {
		t.Fatal(err, now)
	}
	now.Allocation = now.Allocation.Clone()
	change(now.Allocation)
	if err := d.client.PutAllocation(t.Context(), resource.ConsumerID(server), now); err != nil {
		t.Fatal(err)
	}
}

// add adds n of a class of a part to an allocation.
func (d *damagedCloud) add(all resource.Allocation, part string, class resource.Class, n int) {
	amounts := maps.Clone(all[d.part[part]])
	if amounts == nil {
		amounts = resource.Amounts{}
	}
	if amounts[class] += n; amounts[class] == 0 {
		delete(amounts, class)
	}
	all[d.part[part]] = amounts
}

// sql changes the database of Nova's cell. A statement that changes nothing is an error.
func (d *damagedCloud) sql(t *testing.T, statement string, values ...any) {
	t.Helper()
	db := d.maria.Admin(t)
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(t.Context(), "USE "+d.cell); err != nil {
		t.Fatal(err)
	}
	done, err := db.ExecContext(t.Context(), statement, values...)
	if err != nil {
		t.Fatal(statement, err)
	}
	if n, err := done.RowsAffected(); n != 1 || err != nil {
		t.Fatal(statement, n, err)
	}
}

// cellValue reads a value of the database of Nova's cell.
func (d *damagedCloud) cellValue(t *testing.T, query string, values ...any) (value string) {
	t.Helper()
	db := d.maria.Admin(t)
	query = strings.Replace(query, " FROM ", " FROM "+d.cell+".", 1)
	if err := db.QueryRowContext(t.Context(), query, values...).Scan(&value); err != nil {
		t.Fatal(query, values, err)
	}
	return value
}

// copyRow inserts a copy of a row of the cell's database, with other values of some columns.
func (d *damagedCloud) copyRow(t *testing.T, table, where string, values map[string]string) {
	t.Helper()
	columns := d.cellColumns(t, table)
	var from []string
	for _, column := range columns {
		if value, other := values[strings.Trim(column, "`")]; other {
			from = append(from, value)
		} else {
			from = append(from, column)
		}
	}
	d.sql(t, "INSERT INTO "+table+" ("+strings.Join(columns, ", ")+") SELECT "+strings.Join(from, ", ")+" FROM "+table+
		" WHERE "+where+" LIMIT 1")
}

// cellColumns returns the columns of a table of the cell's database except its id.
func (d *damagedCloud) cellColumns(t *testing.T, table string) []string {
	t.Helper()
	var list string
	if err := d.maria.Admin(t).QueryRowContext(t.Context(), "SELECT GROUP_CONCAT('`', column_name, '`') FROM "+
		"information_schema.columns WHERE table_schema = ? AND table_name = ? AND column_name <> 'id'", d.cell,
		table).Scan(&list); err != nil {
		t.Fatal(err)
	}
	return strings.Split(list, ",")
}
