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
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Preflight is what prevents [filter_scheduler] pci_in_placement = true in a cloud. Lists are never null.
type Preflight struct {
	Ready bool            `json:"ready"` // nothing prevents it
	Hosts []PreflightHost `json:"hosts"`
	Cloud []string        `json:"cloud"` // reasons that concern the whole cloud: aliases, servers that move
}

// PreflightHost is the part of a Preflight for one host.
type PreflightHost struct {
	Host    string   `json:"host"`
	Reports bool     `json:"reports"` // the agent reports devices to Placement: [pci] report_in_placement
	Stops   []string `json:"stops"`   // what must be done first; empty if the host is ready
	Notes   []string `json:"notes"`   // conditions that the agent reports
}

// AskPreflight checks the state of compute and Placement. aliases are compute's; cloud are findings of the caller,
// which are included in the result.
func AskPreflight(ctx context.Context, g *Globals, now time.Time, aliases pci.Aliases,
	cloud []string) (Preflight, error) {
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
			out.Cloud = append(out.Cloud, fmt.Sprintf("server %s (%s) is moving (%s); wait until the move ends, and confirm "+
				"or revert it", s.Name, s.ID, statusOf(s)))
		}
	}
	living := slices.DeleteFunc(slices.Clone(hosts), func(h host.Report) bool { return h.Dead })
	if len(living) == 0 {
		out.Cloud = append(out.Cloud, "no agent reports to compute; start the agents")
	}
	out.Cloud = append(out.Cloud, mismatchedAliases(aliases, living)...)
	out.Ready = len(out.Cloud) == 0
	for _, h := range hosts {
		one := PreflightHost{Host: h.Host, Reports: h.InPlace, Stops: []string{}, Notes: condition.Texts(h.Conditions)}
		if h.Dead { // no server is scheduled to a dead host
			out.Hosts = append(out.Hosts, one)
			continue
		}
		if h.StartFailed != "" {
			one.Stops, out.Ready = append(one.Stops, "its agent cannot report the host: "+h.StartFailed), false
			out.Hosts = append(out.Hosts, one)
			continue
		}
		if ago := now.Sub(h.Seen); ago > h.SilentTime() {
			one.Stops = append(one.Stops, fmt.Sprintf("its agent has not reported for %s; start the agent, or declare the "+
				"host dead (`berth host down %s`)", ago.Round(time.Second), h.Host))
		}
		one.Stops = append(one.Stops, differ[h.Host]...)
		if !h.InPlace {
			one.Stops = append(one.Stops, dependentDevices(h.Devices)...)
			one.Stops = append(one.Stops, "its devices are not in Placement; set [pci] report_in_placement = true there and "+
				"restart its agent (`berth agent preflight` shows the changes in advance)")
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

// compareHosts lets compute compare its records of each host that is not dead, and reports, with Placement. It returns
// the resulting conditions by host, and the reports of all hosts without these conditions.
func compareHosts(ctx context.Context, g *Globals) (hosts []host.Report, differ map[string][]string, err error) {
	if hosts, err = g.hosts().Hosts(ctx); err != nil {
		return nil, nil, err
	}
	differ = map[string][]string{}
	for _, h := range hosts {
		if h.Dead || h.StartFailed != "" {
			continue
		}
		found, err := g.hosts().Allocations(ctx, h.Host)
		if err != nil {
			return nil, nil, err
		}
		differ[h.Host] = condition.Texts(found.Conditions)
	}
	if hosts, err = g.hosts().Hosts(ctx); err != nil { // now with the conditions that the comparisons found
		return nil, nil, err
	}
	for i, h := range hosts {
		hosts[i].Conditions = slices.DeleteFunc(h.Conditions, func(c condition.Condition) bool {
			return slices.Contains(differ[h.Host], c.Text)
		})
	}
	return hosts, differ, nil
}

// moves reports whether a server is between two hosts.
func moves(s compute.Server) bool {
	switch s.Status {
	case "RESIZE", "VERIFY_RESIZE", "REVERT_RESIZE", "MIGRATING":
		return true
	}
	return false
}

// mismatchedAliases returns a sentence for each alias that matches existing devices by vendor and product, but requests
// a resource class that none of them has.
func mismatchedAliases(aliases pci.Aliases, hosts []host.Report) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(aliases)) {
		a := aliases[name]
		found := map[string]string{} // class of a matching device → its host
		for _, h := range hosts {
			for _, d := range h.Devices {
				seen := pci.Device{Vendor: d.VendorID, Product: d.ProductID, Type: pci.Type(d.Type)}
				for _, w := range append([]pci.Requirement{a.Requirement}, a.Alternatives...) {
					if w.Vendor != "" && w.WhyNot(seen) == "" {
						found[d.ResourceClass] = h.Host
					}
				}
			}
		}
		if _, matches := found[string(a.Requirement.Class)]; matches || len(found) == 0 {
			continue
		}
		class := slices.Sorted(maps.Keys(found))[0]
		out = append(out, fmt.Sprintf("alias %q requests %s from Placement, but the devices that match it have class %s, "+
			"for example on host %s; set resource_class %s in the alias",
			name, a.Requirement.Class, class, found[class], class))
	}
	return out
}

// dependentDevices returns a sentence for each PF that device_spec offers together with its VFs. Placement must have
// only one of both; the sentence names the one that a server holds, which must stay.
func dependentDevices(devices []host.Device) []string {
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
		do := "no server holds any of them; keep only the PF or only the VFs in device_spec"
		held := []string{}
		for _, vf := range vfs {
			if vf.Holder != "" {
				held = append(held, vf.Address)
			}
		}
		if pf.Holder != "" {
			do = fmt.Sprintf("server %s holds the PF; remove the VFs from device_spec", pf.Holder)
		} else if len(held) > 0 {
			do = fmt.Sprintf("servers hold %s; remove the PF from device_spec and keep at least those VFs",
				strings.Join(held, ", "))
		}
		out = append(out, fmt.Sprintf("device_spec offers the PF %s and %d of its VFs: %s", pf.Address, len(vfs), do))
	}
	return out
}

// unreported compares the devices and holders that the agent reports with Placement, and returns a sentence for each
// difference.
func unreported(ctx context.Context, p *placement.Client, h host.Report) ([]string, error) {
	tree, err := p.Tree(ctx, provider.ID(h.Provider))
	if fault.Is(err, fault.NotFound) {
		return []string{fmt.Sprintf("Placement has no resource provider %s for this host; see the log of its agent",
			h.Provider)}, nil
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
				out = append(out, fmt.Sprintf("it has %d devices of %s on provider %s, but Placement has %d; see its conditions "+
					"in `berth host list`", n, class, id, total))
			}
		}
		if len(held[id]) == 0 || !there {
			continue
		}
		allocations, err := p.ProviderAllocations(ctx, id)
		if err != nil {
			return nil, err
		}
		for _, consumer := range slices.Sorted(maps.Keys(held[id])) {
			has := 0
			for class := range offered[id] {
				has += allocations[consumer][class]
			}
			if has != held[id][consumer] {
				out = append(out, fmt.Sprintf("server %s holds %d devices of %s, but %d in Placement; its agent corrects that "+
					"within a minute, or `berth host list` shows why not",
					consumer, held[id][consumer], one.Name, has))
			}
		}
	}
	return out, nil
}

// PrintPreflight prints the result. It returns fault.Conflict if the cloud is not ready.
func PrintPreflight(g *Globals, p Preflight) error {
	rows := [][]string{}
	for _, h := range p.Hosts {
		rows = append(rows, []string{h.Host, yes(h.Reports), yes(len(h.Stops) == 0),
			dash(strings.Join(slices.Concat(h.Stops, h.Notes), "; "))})
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
		return fault.New(fault.Conflict, "the cloud is not ready for [filter_scheduler] "+
			"pci_in_placement = true")
	}
	if g.Output == "json" {
		return nil
	}
	_, err := fmt.Fprintln(g.stdout(), "ready: nothing prevents [filter_scheduler] pci_in_placement = true")
	return err
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}
