package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
)

// Each changed port and each change of an allocation is a row; the first row of a server has the outcome.
func TestHealPortsRows(t *testing.T) {
	got := host.HealedPorts{Servers: []host.HealedServer{
		{Name: "web", Host: "cmp1", State: host.PortsNeedHealing, Ports: []host.HealedPort{
			{Port: "p1", Groups: map[string]string{"g1": "u1"}}, {Port: "p2", Device: "0000:81:00.1"}},
			Adds:    map[string]map[string]int{"u1": {"NET_BW_EGR_KILOBIT_PER_SEC": 5}},
			Removes: map[string]map[string]int{"u2": {"NET_BW_EGR_KILOBIT_PER_SEC": 1}}},
		{Name: "db", Host: "cmp1", State: host.PortsNotAllocated, Reason: "port p3: full", Ports: []host.HealedPort{
			{Port: "p3", Reason: "full"}}},
		{Name: "old", Host: "cmp2", State: host.PortsNotRead, Reason: "no answer"}}}
	var rows []string
	for _, row := range healPortsRows(got, names{"u1": "cmp1:br-ex"}) {
		rows = append(rows, strings.Join(row, "|"))
	}
	want := []string{
		"web|cmp1|port p1: group g1 of provider cmp1:br-ex|needs healing",
		"web|cmp1|port p2: device 0000:81:00.1 is counted|",
		"web|cmp1|Placement gets NET_BW_EGR_KILOBIT_PER_SEC:5 of provider cmp1:br-ex|",
		"web|cmp1|Placement loses NET_BW_EGR_KILOBIT_PER_SEC:1 of provider u2|",
		"db|cmp1|port p3: no change|not allocated: port p3: full",
		"old|cmp2|none|ports not read: no answer"}
	if !slices.Equal(rows, want) {
		t.Errorf("%q", rows)
	}
}

// The exit status is that of the worst server.
func TestHealPortsExitStatus(t *testing.T) {
	for _, test := range []struct {
		states []string
		want   int
	}{
		{nil, 4},
		{[]string{host.PortsNeedHealing, host.PortsHealed}, 0},
		{[]string{host.PortsHealed, host.PortsBusy}, 1},
		{[]string{host.PortsNotAllocated, host.PortsBusy}, 3},
		{[]string{host.PortsNotRead, host.PortsNotAllocated}, 5},
		{[]string{host.PortsNotWritten}, 6},
		{[]string{host.PortsNotRestored, host.PortsNotWritten}, 7},
		{[]string{"of a later version"}, 1},
	} {
		var got host.HealedPorts
		for _, state := range test.states {
			got.Servers = append(got.Servers, host.HealedServer{State: state})
		}
		var with *StatusError
		status := 0
		if errors.As(healResult(got, true), &with) {
			status = with.Status
		}
		if status != test.want {
			t.Errorf("%v: %d, want %d", test.states, status, test.want)
		}
	}
}
