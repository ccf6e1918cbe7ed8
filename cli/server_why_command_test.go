package cli

import (
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
		Fault: "No valid host was found: nothing fits.", History: []compute.WhyHistoryEntry{{Text: "asks", Times: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`web (id) is ERROR: flavor f`, `made from image i ("debian\x1b[2J")`,
		`hw:numa_nodes is "2", from extra spec hw:numa_nodes and image property hw_numa_nodes`,
		`"r-0" wants CUSTOM_A:1, with T, without U`, "fault: No valid host", "asks (2 times)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
