package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/fleet/read"
	"github.com/openberth/berth/hosttree"
)

// listNovaHosts prints the hosts of Placement and of Nova.
func listNovaHosts(ctx context.Context, g *Globals) error {
	v, err := readFleet(ctx, g, read.Options{Without: notOfHosts, Rows: read.HostRows})
	if err != nil {
		return err
	}
	return printList(g, v.Hosts(), "Host", false, []column[fleet.HostRow]{
		{name: "Host", text: func(h fleet.HostRow) string { return h.Host }},
		{name: "State", text: func(h fleet.HostRow) string { return h.State }},
		{name: "Zone", text: func(h fleet.HostRow) string { return dash(h.Zone) }},
		{name: "Servers", text: func(h fleet.HostRow) string { return strconv.Itoa(h.Servers) }},
		{name: "Devices", text: func(h fleet.HostRow) string { return strconv.Itoa(h.Devices) }},
		{name: "Held", text: func(h fleet.HostRow) string { return strconv.Itoa(h.Held) }},
		{name: "Used", text: func(h fleet.HostRow) string { return dash(resourcesText(h.Resources)) }},
		{name: "Conditions", text: func(h fleet.HostRow) string { return conditionTexts(h.Conditions) }},
	})
}

// resourcesText returns the resources of a host as CLASS USED/CAPACITY.
func resourcesText(list []hosttree.Amount) string {
	var parts []string
	for _, a := range list {
		parts = append(parts, fmt.Sprintf("%s %d/%d", a.Class, a.Used, a.Capacity))
	}
	return strings.Join(parts, " ")
}

// shownFleetHost is a host with its devices and servers.
type shownFleetHost struct {
	fleet.HostRow
	Inventories []fleet.Device `json:"device_inventories"`
	On          []string       `json:"server_ids"`
}

// showNovaHost prints one host of Placement and of Nova.
func showNovaHost(ctx context.Context, g *Globals, name string) error {
	v, err := readFleetHost(ctx, g, name)
	if err != nil {
		return err
	}
	all := v.Hosts()
	i := slices.IndexFunc(all, func(h fleet.HostRow) bool { return h.Host == name })
	if i < 0 {
		return fault.New(fault.NotFound, "%s is a provider of Placement that is not a host; "+
			"`berth provider show %s` shows it", name, name)
	}
	shown := shownFleetHost{HostRow: all[i], On: []string{}, Inventories: v.Devices()}
	h := shown.HostRow
	rows := pairs("host", h.Host, "state", h.State, "service", dash(h.Service), "zone", dash(h.Zone), "provider",
		dash(string(h.Provider)))
	rows = append(rows, conditionRows(h.Conditions)...)
	for _, a := range h.Resources {
		rows = append(rows, []string{string(a.Class), fmt.Sprintf("%d of %d used", a.Used, a.Capacity)})
	}
	for _, d := range shown.Inventories {
		rows = append(rows, []string{string(d.Kind) + " " + d.Address, strings.Join([]string{string(d.Class), usedText(d),
			d.State, dash(holdersText(d, false))}, "  ")})
	}
	for _, s := range v.Servers {
		if s.Node == name {
			shown.On = append(shown.On, s.ID)
			rows = append(rows, []string{"server " + s.Name, strings.Join([]string{s.Status, dash(s.Flavor.Name), s.ID}, "  ")})
		}
	}
	return g.print(shown, []string{"Field", "Value"}, rows)
}

// conditionTexts returns the conditions of a host in one cell of a table.
func conditionTexts(list []condition.Condition) string {
	return dash(strings.Join(condition.Texts(list), "; "))
}

// conditionRows returns the conditions of a host, with the level, the server and the time of the first report.
func conditionRows(list []condition.Condition) (rows [][]string) {
	for _, c := range list {
		field := string(c.Level) + " condition"
		if c.Server != "" {
			field += " of " + c.Server
		}
		text := c.Text
		if !c.Since.IsZero() {
			text += " (since " + localTime(c.Since) + ")"
		}
		rows = append(rows, []string{field, text})
	}
	return rows
}
