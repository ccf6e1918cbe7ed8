package flavor_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// countedIDs returns a function that returns R1, R2 and so on.
func countedIDs() func() string {
	n := 0
	return func() string { n++; return fmt.Sprintf("R%d", n) }
}

func aliases(t *testing.T) pci.Aliases {
	t.Helper()
	as, err := pci.ParseAliases(true,
		`{"name": "nic", "vendor_id": "8086", "product_id": "1515", "device_type": "type-VF"}`,
		`{"name": "gpu", "resource_class": "gpu", "traits": "fast,!old"}`)
	if err != nil {
		t.Fatal(err)
	}
	return as
}

// format returns a request as text, one group per line.
func format(a resource.Ask) string {
	var b strings.Builder
	for _, g := range a.Groups {
		fmt.Fprintf(&b, "[%s] %s", g.Suffix, g.Resources)
		for _, r := range g.Required {
			fmt.Fprintf(&b, " +%s", r[0])
		}
		for _, f := range g.Forbidden {
			fmt.Fprintf(&b, " -%s", f)
		}
		b.WriteString("\n")
	}
	if a.GroupPolicy != "" {
		fmt.Fprintf(&b, "policy %s\n", a.GroupPolicy)
	}
	return b.String()
}

func TestAskGroups(t *testing.T) {
	small := flavor.Flavor{Name: "small", VCPUs: 2, MemoryMB: 2048, DiskGB: 20}
	for _, c := range []struct {
		name   string
		flavor flavor.Flavor
		specs  map[string]string
		off    bool
		want   string
	}{
		{name: "plain", want: "[] DISK_GB:20,MEMORY_MB:2048,VCPU:2\n"},
		{name: "zero amounts are not requested", flavor: flavor.Flavor{VCPUs: 1, MemoryMB: 64},
			want: "[] MEMORY_MB:64,VCPU:1\n"},
		{name: "swap and the second disk count, rounded up", flavor: flavor.Flavor{VCPUs: 1, MemoryMB: 64, DiskGB: 1,
			Ephemeral: 2, Swap: 1025},
			want: "[] DISK_GB:5,MEMORY_MB:64,VCPU:1\n"},
		{name: "overrides", specs: map[string]string{"resources:VCPU": "0", "resources:PCPU": "2",
			"trait:HW_CPU_X86_AVX": "required", "trait:CUSTOM_SLOW": "forbidden"},
			want: "[] DISK_GB:20,MEMORY_MB:2048,PCPU:2 +HW_CPU_X86_AVX -CUSTOM_SLOW\n"},
		// A class that any group of the flavor names is not added to the unsuffixed group.
		{name: "suffixed group", specs: map[string]string{"resources1:VCPU": "2", "trait1:CUSTOM_X": "required"},
			want: "[] DISK_GB:20,MEMORY_MB:2048\n[1] VCPU:2 +CUSTOM_X\n"},
		{name: "default policy of two suffixed groups", specs: map[string]string{"resources1:CUSTOM_A": "1",
			"resources_B:CUSTOM_A": "1"},
			want: "[] DISK_GB:20,MEMORY_MB:2048,VCPU:2\n[1] CUSTOM_A:1\n[_B] CUSTOM_A:1\npolicy none\n"},
		{name: "policy of the flavor", specs: map[string]string{"pci_passthrough:alias": "nic:1", "group_policy": "isolate"},
			want: "[] DISK_GB:20,MEMORY_MB:2048,VCPU:2\n[R1-0] CUSTOM_PCI_8086_1515:1\npolicy isolate\n"},
		// A request for several devices becomes one group for each, with the suffix "<request_id>-<index>", from 0.
		{name: "a group for each device", specs: map[string]string{"pci_passthrough:alias": "nic:2, gpu:1"},
			want: "[] DISK_GB:20,MEMORY_MB:2048,VCPU:2\n[R1-0] CUSTOM_PCI_8086_1515:1\n[R1-1] CUSTOM_PCI_8086_1515:1\n" +
				"[R2-0] CUSTOM_GPU:1 +CUSTOM_FAST -CUSTOM_OLD\npolicy none\n"},
		{name: "pci_in_placement off", specs: map[string]string{"pci_passthrough:alias": "nic:2"}, off: true,
			want: "[] DISK_GB:20,MEMORY_MB:2048,VCPU:2\n"},
		{name: "devices only", flavor: flavor.Flavor{Name: "bare"},
			specs: map[string]string{"pci_passthrough:alias": "nic:1"},
			want:  "[R1-0] CUSTOM_PCI_8086_1515:1\n"},
		{name: "other extra specs have no effect", specs: map[string]string{"hw:cpu_policy": "shared", "resource": "x"},
			want: "[] DISK_GB:20,MEMORY_MB:2048,VCPU:2\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.flavor
			if f.VCPUs == 0 && f.Name == "" {
				f = small
			}
			f.ExtraSpecs = c.specs
			ask, requests, err := flavor.Ask(f, flavor.Image{}, aliases(t), flavor.Options{PCIInPlacement: !c.off}, countedIDs())
			if err != nil {
				t.Fatal(err)
			}
			if got := format(ask); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
			if _, asked := c.specs["pci_passthrough:alias"]; asked != (len(requests) > 0) {
				t.Errorf("requests: %v", requests)
			}
		})
	}
}

func TestAliasesBecomeRequests(t *testing.T) {
	f := flavor.Flavor{VCPUs: 1, ExtraSpecs: map[string]string{"pci_passthrough:alias": "nic:2,nic:1",
		"hw:pci_numa_affinity_policy": "required"}}
	_, requests, err := flavor.Ask(f, flavor.Image{}, aliases(t), flavor.Options{PCIInPlacement: true}, countedIDs())
	if err != nil {
		t.Fatal(err)
	}
	if len(requests) != 2 || requests[0].ID != "R1" || requests[0].Count != 2 || requests[1].ID != "R2" ||
		requests[1].Count != 1 {
		t.Fatalf("want one request for each occurrence of an alias, in order: %+v", requests)
	}
	for _, r := range requests {
		if r.Policy != pci.Required || r.Requirement.Type != pci.Virtual || r.Requirement.Product != "1515" ||
			r.Providers != nil {
			t.Errorf("request %+v", r)
		}
	}
}

func TestAskRejectsExtraSpecs(t *testing.T) {
	for _, c := range []struct{ key, value, wantText string }{
		{"pci_passthrough:alias", "fpga:1", `"fpga"`},
		{"pci_passthrough:alias", "nic", `"nic"`},
		{"pci_passthrough:alias", "nic:0", `"0"`},
		{"resources:VCPU", "many", "resources:VCPU"},
		{"resources:VCPU", "-1", "resources:VCPU"},
		{"resources:VCPU", "2147483648", "2147483647"},
		{"resources:vcpu", "1", `"vcpu"`},
		{"trait:HW_CPU_X86_AVX", "yes", "required or forbidden"},
		{"trait:NOT_A_TRAIT", "required", `"NOT_A_TRAIT"`},
		{"trait1:CUSTOM_X", "required", "resources1:"},
		{"traits:HW_CPU_X86_AVX", "required", "write trait: without s"}, // a mistyped trait: is group s
		{"traits7:HW_CPU_X86_AVX", "required", "add resourcess7:"},      // there is no group 7
		{"group_policy", "both", "none or isolate"},
		{"hw:pci_numa_affinity_policy", "near", "preferred"},
	} {
		t.Run(c.key+"="+c.value, func(t *testing.T) {
			f := flavor.Flavor{Name: "f", VCPUs: 1, ExtraSpecs: map[string]string{c.key: c.value}}
			_, _, err := flavor.Ask(f, flavor.Image{}, aliases(t), flavor.Options{PCIInPlacement: true}, countedIDs())
			if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), c.wantText) {
				t.Errorf("got %v, want an Invalid fault with %s", err, c.wantText)
			}
		})
	}
	_, _, err := flavor.Ask(flavor.Flavor{Name: "nothing"}, flavor.Image{}, nil, flavor.Options{}, countedIDs())
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("a flavor without resources: %v", err)
	}
}

// TestUnknownAliasErrorListsAliases checks that the error lists the known aliases, so that users can correct the name.
func TestUnknownAliasErrorListsAliases(t *testing.T) {
	f := flavor.Flavor{VCPUs: 1, ExtraSpecs: map[string]string{"pci_passthrough:alias": "xyz:1"}}
	_, _, err := flavor.Ask(f, flavor.Image{}, aliases(t), flavor.Options{PCIInPlacement: true}, countedIDs())
	for _, name := range []string{"nic", "gpu"} {
		if !strings.Contains(fault.TextOf(err), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
}

// TestNUMAPolicyOfRequests checks that the NUMA policy of the flavor or image overrides that of the alias, and that
// flavor and image must not differ.
func TestNUMAPolicyOfRequests(t *testing.T) {
	for _, c := range []struct {
		name, flavor, image string
		kind                fault.Kind
		want                pci.NUMAPolicy
	}{
		{"none", "", "", "", pci.Legacy},
		{"flavor only", "required", "", "", pci.Required},
		{"image only", "", "preferred", "", pci.Preferred},
		{"equal", "socket", "socket", "", pci.Socket},
		{"conflict", "required", "preferred", fault.Forbidden, ""},
		{"invalid in the flavor", "near", "", fault.Invalid, ""},
		{"invalid in the image", "required", "near", fault.Invalid, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := flavor.Flavor{VCPUs: 1, ExtraSpecs: specs{"pci_passthrough:alias": "nic:2"}}
			image := flavor.Image{Properties: specs{}}
			if c.flavor != "" {
				f.ExtraSpecs["hw:pci_numa_affinity_policy"] = c.flavor
			}
			if c.image != "" {
				image.Properties["hw_pci_numa_affinity_policy"] = c.image
			}
			_, requests, err := flavor.Ask(f, image, aliases(t), flavor.Options{PCIInPlacement: true}, countedIDs())
			if c.kind != "" {
				if !fault.Is(err, c.kind) || !strings.Contains(fault.TextOf(err), "pci_numa_affinity_policy") {
					t.Errorf("got %v, want %s", err, c.kind)
				}
				return
			}
			if err != nil || requests[0].Policy != c.want {
				t.Errorf("%+v %v", requests, err)
			}
		})
	}
}

// TestAliasIsRequestedAsConfigured checks that class and traits of an alias are requested as configured; if a device
// has others, Placement finds no candidate.
func TestAliasIsRequestedAsConfigured(t *testing.T) {
	for alias, want := range map[string]string{
		`{"name":"a","vendor_id":"8086","product_id":"1533"}`:       "[R1-0] CUSTOM_PCI_8086_1533:1\n",
		`{"name":"a","resource_class":"PGPU"}`:                      "[R1-0] PGPU:1\n",
		`{"name":"a","resource_class":"gpu","traits":"purple,big"}`: "[R1-0] CUSTOM_GPU:1 +CUSTOM_BIG +CUSTOM_PURPLE\n",
	} {
		as, err := pci.ParseAliases(true, alias)
		if err != nil {
			t.Fatal(err)
		}
		f := flavor.Flavor{VCPUs: 1, ExtraSpecs: specs{"pci_passthrough:alias": "a:1"}}
		ask, _, err := flavor.Ask(f, flavor.Image{}, as, flavor.Options{PCIInPlacement: true}, countedIDs())
		if got := format(ask); err != nil || got != "[] VCPU:1\n"+want {
			t.Errorf("alias %s: request %s %v", alias, got, err)
		}
	}
}

// TestHostTraitsWithoutUnsuffixedGroup checks that traits of the host are required of the root if the unsuffixed group
// requests nothing.
func TestHostTraitsWithoutUnsuffixedGroup(t *testing.T) {
	f := flavor.Flavor{Name: "f", VCPUs: 2, MemoryMB: 64, ExtraSpecs: specs{"resources1:VCPU": "2",
		"resources1:MEMORY_MB": "64"}}
	ask, _, err := flavor.Ask(f, flavor.Image{Properties: specs{"trait:HW_CPU_X86_AVX2": "required"}}, nil,
		flavor.Options{}, countedIDs())
	if err != nil || len(ask.Groups) != 1 || len(ask.RootRequired) != 1 || ask.RootRequired[0] != "HW_CPU_X86_AVX2" {
		t.Errorf("%+v %v", ask, err)
	}
}

// TestDeviceGroups checks the request groups of devices.
func TestDeviceGroups(t *testing.T) {
	as, err := pci.ParseAliases(true, `{"name":"a","vendor_id":"de12","product_id":"1234"}`,
		`{"name":"b","vendor_id":"0fff","product_id":"dead"}`,
		`{"name":"c","resource_class":"gpu","traits":"foo,bar,CUSTOM_BLUE"}`,
		`{"name":"d","resource_class":"x","vendor_id":"de12","product_id":"1234"}`,
		`{"name":"d","resource_class":"x","vendor_id":"de12","product_id":"1235"}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text string
		off        bool
		want       string
	}{
		{"pci_in_placement off", "a:1", true, ""},
		{"a group for each device of two aliases", "a:1,b:2", false,
			"[R1-0] CUSTOM_PCI_DE12_1234:1\n[R2-0] CUSTOM_PCI_0FFF_DEAD:1\n[R2-1] " +
				"CUSTOM_PCI_0FFF_DEAD:1\npolicy none\n"},
		{"class and traits of an alias", "c:1", false, "[R1-0] CUSTOM_GPU:1 +CUSTOM_BAR +CUSTOM_BLUE +CUSTOM_FOO\n"},
		{"alternatives of one class become one group", "d:1", false, "[R1-0] CUSTOM_X:1\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := flavor.Flavor{VCPUs: 1, ExtraSpecs: specs{"pci_passthrough:alias": c.text}}
			ask, requests, err := flavor.Ask(f, flavor.Image{}, as, flavor.Options{PCIInPlacement: !c.off}, countedIDs())
			if got := format(ask); err != nil || got != "[] VCPU:1\n"+c.want || len(requests) == 0 {
				t.Errorf("got %s %v, want %s", got, err, c.want)
			}
		})
	}
}
