package view

import (
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// A unit that is held and that the host does not offer now is gone: in its cell, in the sums of the fleet, and on the
// card of its host.
func TestGoneDevices(t *testing.T) {
	s := &fleet.Snapshot{Providers: []fleet.Provider{
		{Provider: provider.Provider{ID: "h", Name: "h", Root: "h"}},
		{Provider: provider.Provider{ID: "vfs", Name: "h_0000:18:00.0", Root: "h", Parent: "h",
			Inventories: map[resource.Class]resource.Inventory{"CUSTOM_VF": resource.Whole(4)}},
			Held: map[resource.ConsumerID]resource.Amounts{"s1": {"CUSTOM_VF": 1}, "s2": {"CUSTOM_VF": 1}}}}}
	device := func(address, holder string, gone bool) host.Device {
		d := host.Device{Address: address, Parent: "0000:18:00.0", Provider: "vfs", ResourceClass: "CUSTOM_VF",
			State: "available", Holder: holder}
		if gone {
			d.Present = new(false)
		}
		return d
	}
	report := host.Report{Host: "h", Connected: true, SilentAfter: 60, Devices: []host.Device{
		device("0000:18:00.1", "s1", true), device("0000:18:00.2", "s2", false), device("0000:18:00.3", "", false),
		device("0000:18:00.4", "", false)}}
	c := New(Source{Fleet: fleet.NewView(s), Reports: []host.Report{report}})
	cell := c.Find("h").Cells[0]
	if cell.Counts != (Counts{Gone: 1, Held: 1, Free: 2, Of: 4}) || cell.Pattern != "p-ghff" ||
		cell.Label != "CUSTOM_VF 0000:18:00.0: 1 gone but held, 1 held, 2 free" {
		t.Errorf("%+v", cell)
	}
	sum := c.Table(FleetQuery{}).Sums[0]
	if sum.AllHeld() != 2 || sum.Rest() != "1 gone but held, 1 held" {
		t.Errorf("%+v: %s", sum, sum.Rest())
	}
	card := c.HostPage("h").Sockets[0].Nodes[0].Tree[0].Card
	if card.Class != "CUSTOM_VF 2/4" || len(card.Items) != 3 || card.Items[0].Pattern != "d-g" ||
		card.Items[0].Label != "CUSTOM_VF 0000:18:00.1: gone but held by unknown consumer s1" || card.Items[0].Note == "" ||
		card.Items[1].Pattern != "d-h" || card.Items[1].Note != "" {
		t.Errorf("%+v", card)
	}
	for id, paths := range map[string]int{"d-g": 2, "p-ghff": 5} {
		if drawn := (Cell{Pattern: id}).Drawing(); len(drawn.Paths) != paths {
			t.Errorf("%s is drawn as %+v", id, drawn)
		}
	}
}
