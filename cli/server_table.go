package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/api/compute"
)

// listedServer is a server with the addresses of the devices that it holds.
type listedServer struct {
	compute.Server
	Devices []string `json:"devices"`
}

// printServers prints servers as a table, or as JSON. Only admins see devices. The table has at most shownDevices of a
// server, with long all.
func (g *Globals) printServers(ctx context.Context, list []compute.Server, long bool) error {
	held := g.devicesOf(ctx, list)
	docs := make([]listedServer, 0, len(list))
	for _, s := range list {
		docs = append(docs, listedServer{s, held[s.ID]})
	}
	return printList(g, docs, "Name", long, []column[listedServer]{
		{name: "ID", text: func(s listedServer) string { return s.ID }},
		{name: "Name", text: func(s listedServer) string { return s.Name }},
		{name: "Status", text: func(s listedServer) string { return statusOf(s.Server) }},
		{name: "Host", text: func(s listedServer) string { return dash(hostOf(s.Server)) }},
		{name: "Flavor", text: func(s listedServer) string { return dash(flavorOf(s.Server)) }},
		{name: "Addresses", long: true, text: func(s listedServer) string { return dash(addressesText(s.Server)) }},
		{name: "Devices", text: func(s listedServer) string { return dash(heldText(s.Server, s.Devices, long)) }},
		{name: "Created", long: true, text: func(s listedServer) string { return localTime(s.Created.Time) }},
		{name: "Fault", text: func(s listedServer) string { return dash(faultOf(s.Server)) }},
	})
}

// printWaited prints the servers of a command whose error has their faults: the table does not repeat these.
func (g *Globals) printWaited(ctx context.Context, list []compute.Server) error {
	if g.Output != "json" {
		list = slices.Clone(list)
		for i := range list {
			list[i].Fault = nil
		}
	}
	if err := g.printServers(ctx, list, false); err != nil {
		return err
	}
	_, err := fmt.Fprint(g.stderr(), nextSteps(list))
	return err
}

// shownDevices is how many devices of a server a table shows.
const shownDevices = 2

// heldText returns the devices of a server; before it has any, those that its flavor requests.
func heldText(s compute.Server, held []string, long bool) string {
	switch {
	case len(held) == 0:
		if alias := requestedAlias(s); alias != "" {
			return "requests " + alias
		}
		return ""
	case long || len(held) <= shownDevices+1:
		return strings.Join(held, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(held[:shownDevices], ", "), len(held)-shownDevices)
}

// requestedAlias returns the devices that the flavor of a server requests, such as "gpu:2".
func requestedAlias(s compute.Server) string {
	if s.Flavor.FlavorValues == nil {
		return ""
	}
	return s.Flavor.ExtraSpecs["pci_passthrough:alias"]
}

// mayHaveDevices reports whether the flavor of a server requests devices: with an alias, or with plain groups of
// classes that are not those of every host.
func mayHaveDevices(s compute.Server) bool {
	if s.Flavor.FlavorValues == nil {
		return false
	}
	for key := range s.Flavor.ExtraSpecs {
		one, ok := parseSpec(key)
		if ok && one.kind == "resources" && !slices.Contains([]string{"VCPU", "PCPU", "MEMORY_MB", "DISK_GB"}, one.name) {
			return true
		}
	}
	return requestedAlias(s) != ""
}

// devicesOf returns the addresses of the devices that servers hold, by server id; nothing for callers who may not see
// devices.
func (g *Globals) devicesOf(ctx context.Context, list []compute.Server) map[string][]string {
	held, wanted := map[string][]string{}, []string{}
	for _, s := range list {
		if mayHaveDevices(s) {
			wanted = append(wanted, s.ID)
		}
	}
	if len(wanted) <= maxSingleReads {
		for _, id := range wanted {
			why, err := g.compute().Why(ctx, id)
			if err != nil {
				return held
			}
			for _, d := range why.Devices {
				held[id] = append(held[id], d.Address)
			}
		}
		return held
	}
	devices, err := g.hosts().Devices(ctx)
	if err != nil {
		return held
	}
	for _, d := range devices {
		held[d.Holder] = append(held[d.Holder], d.Address)
	}
	return held
}

// flavorOf returns the name of the flavor of a server.
func flavorOf(s compute.Server) string {
	if s.Flavor.FlavorValues == nil {
		return s.Flavor.ID
	}
	return s.Flavor.Name
}

// statusOf returns the status with the task in progress: "ACTIVE/deleting".
func statusOf(s compute.Server) string {
	if s.TaskState == nil || *s.TaskState == "" {
		return s.Status
	}
	return s.Status + "/" + *s.TaskState
}

func hostOf(s compute.Server) string {
	if s.Place == nil || s.Place.Host == nil {
		return ""
	}
	return *s.Place.Host
}

func faultOf(s compute.Server) string {
	if s.Fault == nil {
		return ""
	}
	return s.Fault.Message
}
