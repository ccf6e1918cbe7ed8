package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
)

func TestPrintWhy(t *testing.T) {
	var b strings.Builder
	err := PrintWhy(&b, compute.Why{ID: "id", Name: "web", Status: "ERROR", Flavor: "f",
		Image: &compute.WhyImage{ID: "i", Name: "debian\x1b[2J"},
		Constraints: []compute.WhyConstraint{{Key: "hw:numa_nodes", Value: "2", Sources: []string{"extra spec hw:numa_nodes",
			"image property hw_numa_nodes"}}},
		Groups: []compute.WhyGroup{{Suffix: "r-0", Resources: map[string]int{"CUSTOM_A": 1}, Required: []string{"T"},
			Forbidden: []string{"U"}}},
		Search: &compute.WhySearch{Funnel: []compute.WhyFunnelRow{{Clause: "hosts", Left: 9},
			{Clause: "offer CUSTOM_A", Left: 2, Removed: []string{"a", "b", "c", "d", "e", "f"}}},
			Nearest: []compute.WhyMiss{{Host: "g", Deficits: []compute.WhyDeficit{{Text: "CUSTOM_A: asks 1, 0 of 4 free"}}}}},
		Fault: "No valid host was found: nothing fits.", History: []compute.WhyHistoryEntry{{Text: "asks", Times: 2}}}, nil,
		false)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`web (id) is ERROR: flavor f`, `made from image i ("debian\x1b[2J")`,
		`hw:numa_nodes is "2", from extra spec hw:numa_nodes and image property hw_numa_nodes`,
		`"r-0" wants CUSTOM_A:1, with T, without U`, "fault: No valid host", "       9  hosts\n",
		"       2  offer CUSTOM_A; not a, b, c, d, e and 2 more\n", "nearest misses:\n  g: CUSTOM_A: asks 1, 0 of 4 free\n",
		"asks (2 times)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// Equal groups, providers and devices are one line each; with long, each has its own line with its id.
func TestPrintWhyOfNineDevices(t *testing.T) {
	why := compute.Why{ID: "id", Name: "web", Status: "ACTIVE", Flavor: "f", Host: "h",
		Groups:   []compute.WhyGroup{{Resources: map[string]int{"VCPU": 1}}},
		Requests: []compute.WhyRequest{{ID: "r", Alias: "vf", Count: 9}},
		Choice: &compute.WhyChoice{Host: "h", Allocation: map[string]map[string]int{"root": {"VCPU": 1},
			"p1": {"CUSTOM_VF": 4}, "p2": {"CUSTOM_VF": 4}, "p3": {"CUSTOM_VF": 1}}},
		History: []compute.WhyHistoryEntry{{Text: "4 of alias vf from provider p1"}}}
	for i := range 9 {
		why.Groups = append(why.Groups, compute.WhyGroup{Suffix: fmt.Sprintf("r-%d", i),
			Resources: map[string]int{"CUSTOM_VF": 1}})
		why.Devices = append(why.Devices, compute.WhyDevice{RequestID: "r", Address: fmt.Sprintf("0000:10:00.%d", i)})
	}
	var b strings.Builder
	names := map[string]string{"p1": "h_10", "p2": "h_11", "root": "h"}
	if err := PrintWhy(&b, why, names, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n  the server wants VCPU:1\n", "\n  alias vf wants CUSTOM_VF:1 (9 times)\n",
		"\n  CUSTOM_VF:4 from each of h_10, h_11\n", "\n  CUSTOM_VF:1 from p3\n", "\n  VCPU:1 from h\n",
		"\nalias vf: devices 0000:10:00.0, 0000:10:00.1", "4 of alias vf from provider h_10\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if lines := strings.Count(b.String(), "\n"); lines > 12 {
		t.Errorf("%d lines:\n%s", lines, b.String())
	}
	var long strings.Builder
	if err := PrintWhy(&long, why, nil, true); err != nil {
		t.Fatal(err)
	}
	if strings.Count(long.String(), "serves request r\n") != 9 || !strings.Contains(long.String(), `"r-8" wants`) {
		t.Error(long.String())
	}
}
