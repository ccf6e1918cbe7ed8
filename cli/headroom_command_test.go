package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
)

// newRoomyCloud returns a fake of Nova and Placement with three hosts: cmp1 with a GPU, cmp2, and cmp3, which is
// disabled. The first two are in the aggregate rack1.
func newRoomyCloud(t *testing.T) (*damagedCloud, *Globals, *bytes.Buffer) {
	c, g, out := newDamagedCloud(t)
	type doc = map[string]any
	list := func(key string, of ...any) doc { return doc{key: of} }
	var providers, hypervisors, services []any
	c.extra = map[string]any{"/traits": list("traits")}
	add := func(name, root string, inventories doc) {
		p := doc{"uuid": name, "name": name, "root_provider_uuid": root, "generation": 1}
		if root != name {
			p["parent_provider_uuid"] = root
		}
		providers = append(providers, p)
		c.extra["/resource_providers/"+name+"/inventories"] = doc{"resource_provider_generation": 1,
			"inventories": inventories}
		c.extra["/resource_providers/"+name+"/allocations"] = doc{"allocations": doc{}}
	}
	whole := func(n int) doc {
		return doc{"total": n, "allocation_ratio": 1.0, "max_unit": n, "min_unit": 1, "step_size": 1}
	}
	for _, name := range []string{"cmp1", "cmp2", "cmp3"} {
		add(name, name, doc{"VCPU": whole(8)})
		service := "service-" + name
		hypervisors = append(hypervisors, doc{"id": name, "hypervisor_hostname": name, "service": doc{"host": service}})
		services = append(services, doc{"host": service, "state": "up", "status": "enabled", "zone": "zone-" + name})
	}
	add("cmp1_0000:81:00.0", "cmp1", doc{"CUSTOM_PCI_10DE_1EB8": whole(1)})
	services[2].(doc)["status"], services[2].(doc)["disabled_reason"] = "disabled", "repair"
	c.extra["/resource_providers"] = list("resource_providers", providers...)
	c.extra["/v2.1/os-hypervisors/detail"] = list("hypervisors", hypervisors...)
	c.extra["/v2.1/os-services"] = list("services", services...)
	c.extra["/v2.1/os-aggregates"] = list("aggregates", doc{"id": 1, "name": "rack1", "hosts": []any{"service-cmp1",
		"service-cmp2"}}, doc{"id": 2, "name": "empty"})
	flavor := func(name string, vcpus int, specs doc) doc {
		return doc{"id": name, "name": name, "vcpus": vcpus, "ram": 0, "disk": 0, "extra_specs": specs}
	}
	c.extra["/v2.1/flavors/detail"] = list("flavors", flavor("small", 2, nil),
		flavor("gpu", 1, doc{"pci_passthrough:alias": "t4:1"}), flavor("wrong", 1, doc{"resources:VCPU": "many"}))
	return c, g, out
}

// The room of Nova's hosts by host, aggregate, zone and flavor.
func TestHeadroomOfNova(t *testing.T) {
	_, g, out := newRoomyCloud(t)
	aliases := filepath.Join(t.TempDir(), "nova.conf")
	err := os.WriteFile(aliases, []byte("[pci]\nalias = {\"name\": \"t4\", \"vendor_id\": \"10de\", "+
		"\"product_id\": \"1eb8\", \"device_type\": \"type-PCI\"}\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cmd  HeadroomCmd
		want []string
	}{
		{HeadroomCmd{Flavor: []string{"small"}}, []string{"HOST  FITS  THEN LACKS", "cmp1  4     VCPU",
			"cmp3  0     disabled: repair", "8 more servers fit; VCPU runs out first, on 2 hosts",
			"1 hosts are not counted: cmp3 (disabled: repair)", "NUMA nodes and CPU pinning"}},
		{HeadroomCmd{Flavor: []string{"small"}, By: "aggregate"}, []string{"AGGREGATE  FITS  HOSTS WITH ROOM  RUNS OUT FIRST",
			"rack1      8     2                VCPU, on 2 hosts", "(none)     0", "empty      0"}},
		{HeadroomCmd{Flavor: []string{"small"}, By: "flavor"}, []string{"8     2                VCPU, on 2 hosts"}},
		{HeadroomCmd{Flavor: []string{"small"}, By: "zone"}, []string{"zone-cmp1  4     1                VCPU, on 1 hosts"}},
		{HeadroomCmd{Flavor: []string{"gpu"}, AliasFile: []string{aliases}}, []string{"cmp1  1     CUSTOM_PCI_10DE_1EB8",
			"1 more servers fit; CUSTOM_PCI_10DE_1EB8 runs out first, on 1 hosts"}},
		{HeadroomCmd{Flavor: []string{"gpu"}}, []string{"16 more servers fit",
			"gpu: counted without the devices of pci_passthrough:alias=t4:1; --alias-file names them"}},
		{HeadroomCmd{AliasFile: []string{aliases}}, []string{"FLAVOR  FITS  HOSTS WITH ROOM  RUNS OUT FIRST",
			"small   8     2                VCPU, on 2 hosts", "gpu     1     1 ", "wrong   0     0 ", "resources:VCPU"}},
		{HeadroomCmd{Flavor: []string{"small", "gpu"}, AliasFile: []string{aliases}, By: "host"},
			[]string{"FLAVOR  HOST  FITS  THEN LACKS", "gpu     cmp1  1     CUSTOM_PCI_10DE_1EB8"}},
		{HeadroomCmd{Flavor: []string{"small"}, Port: []string{"physical_network=a,egress=1"}},
			[]string{"0 more servers fit", "no provider offers NET_BW_EGR_KILOBIT_PER_SEC"}},
	} {
		out.Reset()
		if err := c.cmd.Run(g); err != nil {
			t.Errorf("%+v: %v", c.cmd, err)
		}
		for _, text := range c.want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%+v: no %q in\n%s", c.cmd, text, out)
			}
		}
	}
	for want, cmd := range map[string]HeadroomCmd{"resources:VCPU": {Flavor: []string{"wrong"}}, "no flavor": {
		Flavor: []string{"smal"}}, "unknown key": {Flavor: []string{"small"}, Port: []string{"speed=1"}},
		"does not exist": {Flavor: []string{"small"}, AliasFile: []string{aliases + "x"}}} {
		if err := cmd.Run(g); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", cmd, err, want)
		}
	}
	if err := (&HeadroomCmd{By: "rack"}).Validate(); err == nil || !strings.Contains(err.Error(), "--by rack") {
		t.Error(err)
	}
	g.Output = "json"
	out.Reset()
	var list []flavorHeadroom
	cmd := HeadroomCmd{Flavor: []string{"small"}, By: "zone"}
	if err := cmd.Run(g); err != nil || json.Unmarshal(out.Bytes(), &list) != nil || len(list) != 1 || list[0].Fits != 8 ||
		len(list[0].ByHost) != 3 || !slices.Equal(list[0].RunsOut, []host.RunsOut{{Class: "VCPU", Hosts: 2}}) ||
		len(list[0].Groups) != 3 || list[0].Groups[0].Fits != 4 {
		t.Errorf("%v %s", err, out)
	}
}

// What could not be read makes the number a lower bound.
func TestHeadroomOfIncompleteCloud(t *testing.T) {
	c, g, out := newRoomyCloud(t)
	delete(c.extra, "/resource_providers/cmp2/inventories")
	cmd := HeadroomCmd{Flavor: []string{"small"}}
	if err := cmd.Run(g); err != nil || !strings.Contains(out.String(), "at least 4 more servers fit") ||
		!strings.Contains(out.String(), "cmp1  at least 4  VCPU") ||
		!strings.Contains(g.Stderr.(*bytes.Buffer).String(), "warning: providers are incomplete") {
		t.Errorf("%v %s %s", err, out, g.Stderr)
	}
	out.Reset()
	cmd.By = "zone"
	if err := cmd.Run(g); err != nil || !strings.Contains(out.String(), "zone-cmp1  at least 4") ||
		!strings.Contains(out.String(), "zone-cmp2  at least 0") || !strings.Contains(out.String(), "zone-cmp3  0 ") {
		t.Errorf("%v %s", err, out)
	}
}
