package flavor_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

func setAliases(t *testing.T) pci.Aliases {
	t.Helper()
	as, err := pci.ParseAliases(true,
		`{"name": "gpu_nic", "members": {"nic": 2, "gpu": 1}, "match": "pcie_root"}`,
		`{"name": "gpu", "resource_class": "GPU"}`,
		`{"name": "nic", "resource_class": "NIC"}`,
		`{"name": "nvme", "resource_class": "NVME"}`,
		`{"name": "hgx", "resource_class": "GPU", "match": "fabric", "whole": true}`)
	if err != nil {
		t.Fatal(err)
	}
	return as
}

// askSets returns the request of a flavor, each device request as alias:count and its match.
func askSets(t *testing.T, specs map[string]string) (string, error) {
	t.Helper()
	_, requests, err := flavor.Ask(flavor.Flavor{Name: "f", VCPUs: 1, MemoryMB: 64, ExtraSpecs: specs}, flavor.Image{},
		setAliases(t), flavor.Options{PCIInPlacement: true}, countedIDs())
	var list []string
	for _, r := range requests {
		text := fmt.Sprintf("%s:%d", r.Alias, r.Count)
		if m := r.Match; m != nil {
			text += fmt.Sprintf(" %d*%s#%d %t", m.Times, m.Family, m.Set, m.Whole)
		}
		list = append(list, text)
	}
	return strings.Join(list, ", "), err
}

func TestSetsOfRequests(t *testing.T) {
	for _, c := range []struct{ alias, family, match, want string }{
		{"gpu:2,nic:1", "", "", "gpu:2, nic:1"},
		{"gpu:2,nic:1,nvme:1", "pcie_root", "gpu, nic", "gpu:2 1*pcie_root#1 false, nic:1 1*pcie_root#1 false, nvme:1"},
		{"gpu:2,nic:1", "rail", "gpu;nic", "gpu:2 1*rail#1 false, nic:1 1*rail#2 false"},
		{"gpu:2,nic:1,gpu:1", "numa_node", "gpu", "gpu:2 1*numa_node#1 false, nic:1, gpu:1 1*numa_node#1 false"},
		{"gpu_nic:3", "", "", "gpu:3 3*pcie_root#1 false, nic:6 3*pcie_root#1 false"},
		{"nvme:1,gpu_nic:1,gpu_nic:2", "numa_node", "nvme", "nvme:1 1*numa_node#3 false, " +
			"gpu:1 1*pcie_root#1 false, nic:2 1*pcie_root#1 false, gpu:2 2*pcie_root#2 false, nic:4 2*pcie_root#2 false"},
		{"gpu_nic:1,gpu:2", "iommu_group", "gpu", "gpu:1 1*pcie_root#1 false, nic:2 1*pcie_root#1 false, " +
			"gpu:2 1*iommu_group#2 false"},
		{"hgx:4,hgx:2", "", "", "hgx:4 1*fabric#1 true, hgx:2 1*fabric#2 true"},
	} {
		specs := map[string]string{"pci_passthrough:alias": c.alias}
		if c.family != "" {
			specs["pci:match:"+c.family] = c.match
		}
		if got, err := askSets(t, specs); err != nil || got != c.want {
			t.Errorf("%v: %v\ngot  %s\nwant %s", specs, err, got, c.want)
		}
	}
}

func TestRefusedSets(t *testing.T) {
	for _, c := range []struct{ key, value, says string }{
		{"pci:match:pcie_root", "gpu,ncc", "no alias ncc is configured; did you mean nic?"},
		{"pci:match:pcie_root", "gpu,", "it has an empty name"},
		{"pci:match:pcie_root", "gpu,nvme", "the flavor does not request alias nvme"},
		{"pci:match:pcie_root", "gpu,hgx", "alias hgx has a match of its own"},
		{"pci:match:pcie_root", "gpu,nic;nic", "the devices of alias nic are in another set already"},
		{"pci:match:pcie_roots", "gpu,nic", `"pcie_roots" is not a family of values; did you mean pcie_root?`},
		{"pci:match:Root", "gpu,nic", `"Root" is not a family of values; write pcie_root`},
		{"pci:match:socket", "gpu,nic", `"socket" is not a family`},
		{"group_policy", "isolate", "both together are not planned"},
		{"resources:VCPU", "0", "requests nothing but devices"},
	} {
		specs := map[string]string{"pci_passthrough:alias": "gpu:1,nic:1", c.key: c.value}
		switch c.key {
		case "group_policy":
			specs["pci:match:numa_node"] = "gpu"
		case "resources:VCPU":
			specs["pci:match:numa_node"], specs["resources:MEMORY_MB"] = "gpu", "0"
		}
		if _, err := askSets(t, specs); !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), c.says) {
			t.Errorf("%v: %v; want %q", specs, err, c.says)
		}
	}
	if _, err := askSets(t, map[string]string{"pci_passthrough:alias": "gpu_nic:129"}); err == nil {
		t.Error("258 devices of one alias are accepted")
	}
}
