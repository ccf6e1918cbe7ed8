package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Preflight is what stands between a cloud and [filter_scheduler] pci_in_placement = true. Lists are never null.
type Preflight struct {
	Ready bool            `json:"ready"` // nothing does
	Hosts []PreflightHost `json:"hosts"`
	Cloud []string        `json:"cloud"` // what concerns no host alone: aliases, servers that move
}

// PreflightHost is one host's part.
type PreflightHost struct {
	Host    string   `json:"host"`
	Reports bool     `json:"reports"` // its devices are in Placement: [pci] report_in_placement
	Stops   []string `json:"stops"`   // what must be done first; empty when it is ready
	Notes   []string `json:"notes"`   // what its agent says is wrong
}

// hostSilence is how old a report may be; agents report once a minute.
const hostSilence = 3 * time.Minute

// AskPreflight asks compute and Placement. aliases are compute's; cloud are findings that others have made, and count.
func AskPreflight(ctx context.Context, g *Globals, now time.Time, aliases pci.Aliases, cloud []string) (Preflight, error) {
	out := Preflight{Hosts: []PreflightHost{}, Cloud: append([]string{}, cloud...)}
	hosts, differ, err := compareHosts(ctx, g)
	if err != nil {
		return out, err
	}
	servers, err := g.compute().Servers(ctx, compute.ListServers{AllProjects: true})
	if err != nil {
		return out, err
	}
	for _, s := range servers {
		if moves(s) {
			out.Cloud = append(out.Cloud, fmt.Sprintf("server %s (%s) is moving, it is %s; let it arrive, and confirm or revert it", s.Name, s.ID, statusOf(s)))
		}
	}
	living := slices.DeleteFunc(slices.Clone(hosts), func(h host.Report) bool { return h.Dead })
	if len(living) == 0 {
		out.Cloud = append(out.Cloud, "no agent reports to compute; start the agents")
	}
	out.Cloud = append(out.Cloud, strangers(aliases, living)...)
	out.Ready = len(out.Cloud) == 0
	for _, h := range hosts {
		one := PreflightHost{Host: h.Host, Reports: h.InPlace, Stops: []string{}, Notes: append([]string{}, h.Conditions...)}
		if h.Dead { // nothing is put there, whatever it reported last
			out.Hosts = append(out.Hosts, one)
			continue
		}
		if ago := now.Sub(h.Seen); ago > hostSilence {
			one.Stops = append(one.Stops, fmt.Sprintf("its agent is silent for %s; start it, or say that the host is dead (`berth host down %s`)", ago.Round(time.Second), h.Host))
		}
		one.Stops = append(one.Stops, differ[h.Host]...)
		if !h.InPlace {
			one.Stops = append(one.Stops, families(h.Devices)...)
			one.Stops = append(one.Stops, "its devices are not in Placement; set [pci] report_in_placement = true there and restart its agent (`berth agent preflight` says beforehand what would happen)")
		} else if missing, err := unreported(ctx, g.placement(), h); err != nil {
			return out, err
		} else {
			one.Stops = append(one.Stops, missing...)
		}
		out.Ready = out.Ready && len(one.Stops) == 0
		out.Hosts = append(out.Hosts, one)
	}
	return out, nil
}

// compareHosts has compute compare its records of each host that is not dead with Placement. It returns the conditions
// that follow from this by host, and the reports of all hosts without these conditions.
func compareHosts(ctx context.Context, g *Globals) (hosts []host.Report, differ map[string][]string, err error) {
	if hosts, err = g.hosts().Hosts(ctx); err != nil {
		return nil, nil, err
	}
	differ = map[string][]string{}
	for _, h := range hosts {
		if h.Dead {
			continue
		}
		found, err := g.hosts().Allocations(ctx, h.Host)
		if err != nil {
			return nil, nil, err
		}
		differ[h.Host] = found.Conditions
	}
	if hosts, err = g.hosts().Hosts(ctx); err != nil { // now with the conditions of these comparisons
		return nil, nil, err
	}
	for i, h := range hosts {
		hosts[i].Conditions = slices.DeleteFunc(h.Conditions, func(text string) bool {
			return slices.Contains(differ[h.Host], text)
		})
	}
	return hosts, differ, nil
}

// moves says whether a server is between two hosts.
func moves(s compute.Server) bool {
	switch s.Status {
	case "RESIZE", "VERIFY_RESIZE", "REVERT_RESIZE", "MIGRATING":
		return true
	}
	return false
}

// strangers are aliases that mean devices which are there, by vendor and product, but ask Placement for a class that none of those has.
func strangers(aliases pci.Aliases, hosts []host.Report) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(aliases)) {
		a := aliases[name]
		found := map[string]string{} // class of devices that it means → a host
		for _, h := range hosts {
			for _, d := range h.Devices {
				seen := pci.Device{Vendor: d.VendorID, Product: d.ProductID, Type: pci.Type(d.Type)}
				for _, w := range append([]pci.Want{a.Want}, a.Or...) {
					if w.Vendor != "" && w.Refuse(seen) == "" {
						found[d.ResourceClass] = h.Host
					}
				}
			}
		}
		if _, meant := found[string(a.Want.Class)]; meant || len(found) == 0 {
			continue
		}
		class := slices.Sorted(maps.Keys(found))[0]
		out = append(out, fmt.Sprintf("alias %q asks Placement for %s, but the devices that it means are of class %s, as on host %s; name resource_class %s in the alias",
			name, a.Want.Class, class, found[class], class))
	}
	return out
}

// families tells of PFs that are offered beside their VFs, and which of both must stay: what somebody holds (spec 002, "Upgrade impact").
func families(devices []host.Device) []string {
	byPF := map[string][]host.Device{}
	for _, d := range devices {
		if d.Type == string(pci.Virtual) && d.Parent != "" {
			byPF[d.Parent] = append(byPF[d.Parent], d)
		}
	}
	var out []string
	for _, pf := range devices {
		vfs := byPF[pf.Address]
		if pf.Type != string(pci.Physical) || len(vfs) == 0 {
			continue
		}
		do := "nobody holds any of them, so keep either in device_spec"
		held := []string{}
		for _, vf := range vfs {
			if vf.Holder != "" {
				held = append(held, vf.Address)
			}
		}
		if pf.Holder != "" {
			do = fmt.Sprintf("server %s holds the PF, so take the VFs out of device_spec", pf.Holder)
		} else if len(held) > 0 {
			do = fmt.Sprintf("servers hold %s, so take the PF out of device_spec and keep at least those VFs", strings.Join(held, ", "))
		}
		out = append(out, fmt.Sprintf("device_spec offers the PF %s and %d of its VFs: %s", pf.Address, len(vfs), do))
	}
	return out
}

// unreported compares what the agent says that is counted and held with what Placement has.
func unreported(ctx context.Context, p *placement.Client, h host.Report) ([]string, error) {
	tree, err := p.Tree(ctx, provider.ID(h.Provider))
	if fault.Is(err, fault.NotFound) {
		return []string{fmt.Sprintf("Placement has no provider %s of it; look at its agent's log", h.Provider)}, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	offered, held := map[provider.ID]resource.Amounts{}, map[provider.ID]map[resource.ConsumerID]int{}
	for _, d := range h.Devices {
		id := provider.ID(d.Provider)
		if id == "" || d.ForPorts {
			continue
		}
		if offered[id] == nil {
			offered[id], held[id] = resource.Amounts{}, map[resource.ConsumerID]int{}
		}
		offered[id][resource.Class(d.ResourceClass)]++
		if d.Holder != "" {
			held[id][resource.ConsumerID(d.Holder)]++
		}
	}
	for _, id := range slices.Sorted(maps.Keys(offered)) {
		one, there := tree.ByID(id)
		for class, n := range offered[id] {
			if total := one.Inventories[class].Total; !there || total != n {
				out = append(out, fmt.Sprintf("it has %d devices of %s on provider %s, Placement has %d; look at what its agent says with `berth host list`", n, class, id, total))
			}
		}
		if len(held[id]) == 0 || !there {
			continue
		}
		who, err := p.ProviderAllocations(ctx, id)
		if err != nil {
			return nil, err
		}
		for _, consumer := range slices.Sorted(maps.Keys(held[id])) {
			has := 0
			for class := range offered[id] {
				has += who[consumer][class]
			}
			if has != held[id][consumer] {
				out = append(out, fmt.Sprintf("server %s holds %d devices of %s, in Placement %d; its agent heals that within a minute, else `berth host list` tells why",
					consumer, held[id][consumer], one.Name, has))
			}
		}
	}
	return out, nil
}

// PrintPreflight prints it, and is a fault of kind Conflict when something is left to do.
func PrintPreflight(g *Globals, p Preflight) error {
	rows := [][]string{}
	for _, h := range p.Hosts {
		rows = append(rows, []string{h.Host, yes(h.Reports), yes(len(h.Stops) == 0), dash(strings.Join(slices.Concat(h.Stops, h.Notes), "; "))})
	}
	if err := g.print(p, []string{"Host", "In Placement", "Ready", "What to do"}, rows); err != nil {
		return err
	}
	if g.Output != "json" {
		for _, text := range p.Cloud {
			fmt.Fprintln(g.stdout(), text)
		}
	}
	if !p.Ready {
		return fault.New(fault.Conflict, "cli.preflight", "the cloud is not ready for [filter_scheduler] pci_in_placement = true")
	}
	if g.Output == "json" {
		return nil
	}
	_, err := fmt.Fprintln(g.stdout(), "ready: [filter_scheduler] pci_in_placement may be switched on")
	return err
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}
