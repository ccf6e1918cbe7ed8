package scheduler

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// MaxCandidates is the limit of candidates requested, Nova's [scheduler] max_placement_results.
const MaxCandidates = 1000

// Build builds what a server requests from its flavor and its image. Each call returns new request ids.
func (c Scheduler) Build(s lifecycle.Server) (p lifecycle.Prepared, err error) {
	options := flavor.Options{PCIInPlacement: c.options.PCIInPlacement}
	p.Ask, p.Requests, err = flavor.Ask(s.Flavor, s.SourceImage(), c.options.Aliases, options, c.options.NewID)
	if err == nil {
		p.Topology, err = flavor.Topology(s.Flavor, s.SourceImage())
	}
	return p, err
}

// request returns the query for the candidates of a server with these ports, and the devices that the ports need.
func (c Scheduler) request(ctx context.Context, s lifecycle.Server, wants []portrequest.Port) (ask resource.Ask,
	devices []pci.Request, err error) {
	if ask, devices, err = c.WithPorts(ctx, s.Ask, wants); err != nil {
		return ask, nil, err
	}
	ask.Limit = MaxCandidates
	return ask, devices, nil
}

// onOnlyHost restricts a query to the provider tree of the only host that a server may be placed on, if there is one.
func (c Scheduler) onOnlyHost(ctx context.Context, s lifecycle.Server, ask resource.Ask) (resource.Ask, error) {
	if s.OnlyHost() == "" {
		return ask, nil
	}
	host, err := c.store.Host(ctx, s.OnlyHost())
	if fault.Is(err, fault.NotFound) {
		return ask, nil // the filters refuse every host but this one, so no candidate remains
	}
	return ask.InTree(host.Provider), err
}

// devicesInPlacement reports whether Placement counts all devices that a server requests. If it does not, most of its
// candidates may lack them.
func devicesInPlacement(requests []pci.Request, ask resource.Ask) bool {
	for _, r := range requests {
		if !slices.ContainsFunc(ask.Groups, func(g resource.Group) bool { return g.Suffix == r.GroupSuffix(0) }) {
			return false
		}
	}
	return true
}

// unknownNames matches the sentences of the Placement API for classes and traits that do not exist.
var unknownNames = regexp.MustCompile(`No such (?:resource class|trait\(s\)):? (.+?)\.?$`)

// unknownTraits returns the names in a sentence of the Placement API about traits that do not exist.
func unknownTraits(text string) (traits []resource.Trait) {
	if names := unknownNames.FindStringSubmatch(text); names != nil {
		for name := range strings.SplitSeq(names[1], ",") {
			traits = append(traits, resource.Trait(strings.TrimSpace(name)))
		}
	}
	return traits
}

// whyUnknown returns why Placement does not have a class or a trait, which an agent creates when it reports it.
func whyUnknown(name string) string {
	types := portrequest.VNICTypes(resource.Class(name))
	if len(types) == 0 {
		return "no host has ever reported " + name
	}
	return fmt.Sprintf("no host has ever reported a device for ports of vnic type %s (resource class %s); name such "+
		"devices with their physical_network in [pci] device_spec, and set [berth] report_network_devices = true, on a host "+
		"that has some", strings.Join(types, ", "), name)
}

// onRequestRejected returns the event for a query that Placement rejects. An agent creates the classes and traits of
// its host. So shortly after the start it returns fault.Unavailable, and the query is retried, until the first agent
// has reported.
func (c Scheduler) onRequestRejected(text string) (lifecycle.Event, error) {
	names := unknownNames.FindStringSubmatch(text)
	if names == nil {
		return lifecycle.NoValidHost{Reason: "Placement rejects the query: " + text}, nil
	}
	reason := whyUnknown(names[1])
	if c.options.Agents.AwaitsFirst() {
		return nil, fault.New(fault.Unavailable, "%s, and none has reported since the start", reason)
	}
	return lifecycle.NoValidHost{Reason: reason}, nil
}
