package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/fleet/read"
	"github.com/openberth/berth/provider"
)

// fleetTime is the time limit of a command that reads all providers.
const fleetTime = 30 * time.Minute

// besideNova reports whether the compute service is OpenStack's. A service without a version document counts as
// Berth's: the requests of the command then report what is wrong with it.
func besideNova(ctx context.Context, g *Globals) bool {
	kind, err := read.Negotiate(ctx, g.compute())
	return err == nil && !kind.Berth
}

// fleetContext returns the context of a command that reads all providers.
func fleetContext(g *Globals) (context.Context, context.CancelFunc) {
	return context.WithTimeout(g.untilInterrupted(), fleetTime)
}

// readFleet reads the services of the cloud, and prints on standard error what could not be read. The view has no
// reports of agents where compute is Nova.
func readFleet(ctx context.Context, g *Globals, o read.Options) (*fleet.View, error) {
	services := g.services()
	s, err := readSnapshot(ctx, g, &services, o)
	if err != nil {
		return nil, err
	}
	for _, gap := range s.Gaps {
		fmt.Fprintf(g.stderr(), "warning: %s are incomplete: %s\n", gap.Part, gap.Why)
	}
	return fleet.NewView(s), nil
}

// services returns the services of the cloud, as fleet/read needs them. The compute service counts as Berth's.
func (g *Globals) services() read.Services {
	hosts := g.hosts()
	return read.Services{Placement: g.placement(), Compute: g.compute(), Network: g.networks(), Hosts: &hosts}
}

// readSnapshot reads the services of the cloud. On a terminal it shows its progress.
func readSnapshot(ctx context.Context, g *Globals, services *read.Services, o read.Options) (*fleet.Snapshot, error) {
	width := terminalOf(g.stderr()).width
	if width > 0 {
		o.Progress = func(done, of int) { fmt.Fprintf(g.stderr(), "\rread %d of %d", done, of) }
	}
	s, cost, err := read.Negotiated(ctx, services, o)
	if width > 0 {
		fmt.Fprintf(g.stderr(), "\r%s\r", strings.Repeat(" ", min(width, 40)-1))
		if err == nil && cost.Took > 5*time.Second {
			fmt.Fprintf(g.stderr(), "read with %s\n", cost)
		}
	}
	return s, err
}

// notOfHosts are the parts of a snapshot that do not describe hosts and devices.
var notOfHosts = []fleet.Part{fleet.Ports, fleet.Agents, fleet.Reported}

// readFleetHost reads the tree of one host and the servers; all hosts if the name is empty. It returns fault.NotFound,
// with similar names, for a host that Placement does not have.
func readFleetHost(ctx context.Context, g *Globals, name string) (*fleet.View, error) {
	if name != "" {
		if err := provider.CheckHostName(name); err != nil {
			return nil, err
		}
	}
	v, err := readFleet(ctx, g, read.Options{Host: name, Traits: true, Without: notOfHosts,
		Rows: read.DeviceRows})
	if !fault.Is(err, fault.NotFound) || name == "" {
		return v, err
	}
	list, other := g.placement().Providers(ctx, nil)
	if other != nil {
		return nil, err
	}
	var known []string
	for _, p := range list {
		if p.Parent == "" {
			known = append(known, p.Name)
		}
	}
	return nil, unknownName("host in Placement", name, known, "berth host list")
}
