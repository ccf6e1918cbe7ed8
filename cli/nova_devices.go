package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
)

// novaDevices returns the devices that Placement has: all, or those of one host.
func novaDevices(ctx context.Context, g *Globals, host string) (list []fleet.Device, err error) {
	v, err := readFleetHost(ctx, g, host)
	if err != nil {
		return nil, err
	}
	return v.Devices(), nil
}

// listNovaDevices prints the devices of Placement's providers: of one host and in one state, unless these are empty.
func listNovaDevices(ctx context.Context, g *Globals, host, state string, long bool) error {
	if state != "" && state != "available" && state != "allocated" {
		return fault.New(fault.Invalid, "--state %s is a state that Nova does not report; use available or allocated",
			state)
	}
	list, err := novaDevices(ctx, g, host)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(d fleet.Device) bool {
		return state == "available" && d.Used >= d.Capacity || state == "allocated" && d.Used == 0
	})
	return printList(g, list, "Host", long, []column[fleet.Device]{
		{name: "Host", text: func(d fleet.Device) string { return d.Host }},
		{name: "Address", text: func(d fleet.Device) string { return d.Address }},
		{name: "Kind", text: func(d fleet.Device) string { return string(d.Kind) }},
		{name: "Class", text: func(d fleet.Device) string { return string(d.Class) }},
		{name: "Used", text: usedText},
		{name: "State", text: func(d fleet.Device) string { return d.State }},
		{name: "Holder", text: func(d fleet.Device) string { return dash(holdersText(d, long)) }},
		{name: "Project", long: true, text: func(d fleet.Device) string {
			return dash(eachHolder(d, func(h fleet.Holder) string { return h.Project }))
		}},
		{name: "Flavor", long: true, text: func(d fleet.Device) string {
			return dash(eachHolder(d, func(h fleet.Holder) string { return h.Flavor }))
		}},
		{name: "Traits", long: true, text: func(d fleet.Device) string { return dash(strings.Join(strs(d.Traits), " ")) }},
		{name: "Provider", long: true, text: func(d fleet.Device) string { return string(d.Provider) }},
	})
}

// usedText returns how much of a device is allocated, of its capacity, and how much is reserved.
func usedText(d fleet.Device) string {
	text := fmt.Sprintf("%d/%d", d.Used, d.Capacity)
	if d.Reserved > 0 {
		text += fmt.Sprintf(", %d reserved", d.Reserved)
	}
	return text
}

// maxHolders is how many holders of a device a table names without --long.
const maxHolders = 3

// holdersText returns who holds a device; amounts of more than one are shown.
func holdersText(d fleet.Device, long bool) string {
	var parts []string
	for i, h := range d.Holders {
		if i == maxHolders && !long {
			return fmt.Sprintf("%s, and %d more", strings.Join(parts, ", "), len(d.Holders)-i)
		}
		text := h.String()
		if long && h.Server != "" {
			text += " (" + string(h.Consumer) + ")"
		}
		if h.Amount > 1 {
			text += fmt.Sprintf(": %d", h.Amount)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// eachHolder joins a property of the holders, each value once.
func eachHolder(d fleet.Device, of func(fleet.Holder) string) string {
	var values []string
	for _, h := range d.Holders {
		if value := of(h); value != "" && !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return strings.Join(values, ", ")
}

// showNovaDevice prints the inventories of one device.
func showNovaDevice(ctx context.Context, g *Globals, host, address string) error {
	list, err := novaDevices(ctx, g, host)
	if err != nil {
		return err
	}
	var found []fleet.Device
	var known []string
	for _, d := range list {
		if known = append(known, d.Address); strings.EqualFold(d.Address, address) {
			found = append(found, d)
		}
	}
	if len(found) == 0 {
		return fault.New(fault.NotFound, "host %s has no device %s; %s", host, address, fault.DidYouMean(address,
			known, "`berth device list --host "+host+"` shows all"))
	}
	first := found[0]
	rows := pairs("host", first.Host, "address", first.Address, "kind", string(first.Kind), "provider",
		first.Name+" ("+string(first.Provider)+")", "traits", dash(strings.Join(strs(first.Traits), ", ")))
	for _, d := range found {
		rows = append(rows, []string{"class " + string(d.Class), fmt.Sprintf("%s of total %d: %s", usedText(d), d.Total,
			d.State)})
		for _, h := range d.Holders {
			rows = append(rows, []string{"held by " + h.String(), fmt.Sprintf("%d %s, project %s, flavor %s, consumer %s",
				h.Amount, d.Class, dash(h.Project), dash(h.Flavor), h.Consumer)})
		}
	}
	return g.print(found, []string{"Field", "Value"}, rows)
}
