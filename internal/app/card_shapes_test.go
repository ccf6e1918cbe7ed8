package app

import (
	"bytes"
	"regexp"
	"slices"
	"testing"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/pci"
)

// Two cards of four VFs each are offered as their PFs and as their VFs. A server that gets a PF goes to a card without
// servers, and the VFs of that card do not exist meanwhile; they return when the PF is free.
func TestCardAsPFOrVFs(t *testing.T) {
	t.Parallel()
	l, m := newLab(t), &machine{}
	m.gpusAndNICs(0, 0, 1, 4)
	m.gpusAndNICs(0, 0, 1, 4)
	m.node(0, 0, 8)
	l.sys = m.text()
	options := `
[pci]
device_spec = {"vendor_id": "15b3", "product_id": "1021", "resource_class": "CUSTOM_CX7", "shapes": ["pf", "vf"]}
alias = {"name": "card", "resource_class": "CUSTOM_CX7", "device_type": "type-PF"}
alias = {"name": "vf", "resource_class": "CUSTOM_CX7", "device_type": "type-VF"}
report_in_placement = true
[filter_scheduler]
pci_in_placement = true`
	l.up(options)
	defer func() { l.down() }()
	card, vf := map[string]string{"pci_passthrough:alias": "card:1"}, map[string]string{"pci_passthrough:alias": "vf:1"}
	free := func(kind pci.Type) (n int) {
		devices, err := l.cloud.HostClient().Devices(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range devices {
			if d.Type == string(kind) && d.State == string(pci.Available) {
				n++
			}
		}
		return n
	}
	fits := func(when string, cards, vfs int) {
		t.Helper()
		l.until("the host has reported what is free "+when, func() bool { return free(pci.Physical) == cards })
		if got := l.headroom(when+" cards", card); got != cards {
			t.Errorf("%s, %d servers with a PF fit, not %d", when, got, cards)
		}
		if got := l.headroom(when+" VFs", vf); got != vfs {
			t.Errorf("%s, %d servers with a VF fit, not %d", when, got, vfs)
		}
	}
	vfs := func() int { return free(pci.Virtual) }
	used := func(server string) (list []int) {
		for _, amounts := range l.allocation(server) {
			if n := amounts["CUSTOM_CX7"]; n > 0 {
				list = append(list, n)
			}
		}
		return list
	}

	listed := func(patterns ...string) {
		t.Helper()
		var out bytes.Buffer
		if err := (&cli.DeviceListCmd{}).Run(&cli.Globals{ComputeURL: "http://compute",
			HTTP: rest.InMemory(l.cloud.Compute.Handler), Token: "admin", Stdout: &out}); err != nil {
			t.Fatal(err)
		}
		for _, pattern := range patterns {
			if !regexp.MustCompile(pattern).MatchString(out.String()) {
				t.Errorf("no %q in\n%s", pattern, &out)
			}
		}
	}

	fits("empty", 2, 8)
	listed(`0001:01:00\.0 .*type-PF .*available, as PF or as VFs `, `0002:01:00\.0 .*available, as PF or as VFs `)
	one := l.boot("one", "ACTIVE", vf)
	fits("with a VF", 1, 7)
	whole := l.boot("whole", "ACTIVE", card)
	if got := used(whole.ID); !slices.Equal(got, []int{4}) {
		t.Errorf("the server with a PF has %v slices", got)
	}
	if got := used(one.ID); !slices.Equal(got, []int{1}) {
		t.Errorf("the server with a VF has %v slices", got)
	}
	if a, b := l.held(one.ID), l.held(whole.ID); len(a) != 1 || len(b) != 1 || a[0].Parent == b[0].Address ||
		b[0].Type != string(pci.Physical) {
		t.Fatalf("one has %+v, whole %+v", a, b)
	}
	l.until("its VFs are gone", func() bool { return vfs() == 3 })
	fits("with a VF and a PF", 0, 3)
	listed(`type-PF .*allocated, as PF .*whole`, `type-PF .*unavailable, as VFs `)
	l.wantError(l.boot("second", "ERROR", card), "one is unavailable")

	// After a restart, the machine has all its VFs again.
	l.down()
	l.up(options)
	l.until("the VFs are gone again", func() bool { return vfs() == 3 })
	fits("after a restart", 0, 3)

	l.delete(one.ID)
	l.until("the VF is free", func() bool { return vfs() == 4 && len(used(one.ID)) == 0 })
	fits("with a PF", 1, 4)
	second := l.boot("second PF", "ACTIVE", card)
	l.wantError(l.boot("no VF", "ERROR", vf), "no free type-VF")
	l.delete(whole.ID)
	l.until("the VFs are back", func() bool { return vfs() == 4 && len(used(whole.ID)) == 0 })
	fits("after the first PF", 1, 4)
	l.boot("a VF again", "ACTIVE", vf)
	l.delete(second.ID)
	l.until("all VFs are back", func() bool { return vfs() == 7 })
	fits("in the end", 1, 7)
}
