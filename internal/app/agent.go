package app

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/openberth/berth/agent/configdrive"
	"github.com/openberth/berth/agent/dataplane"
	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/health"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt"
	"github.com/openberth/berth/agent/loop"
	"github.com/openberth/berth/agent/program"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/sysfs"
	"github.com/openberth/berth/agent/vflink"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/api/network"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/pci"
)

// Endpoints are the clients through which an agent reaches the services.
type Endpoints struct {
	Placement *api.Client
	Compute   host.Client
	Network   *network.Client // nil: no network service
	Images    *image.Client   // nil: no image service
}

// TCPEndpoints returns clients that connect over the network with the accounts of the settings. The addresses are those
// of the command line; empty: those of the settings. Certificates are those of the settings, or of flags where the
// settings have none. It returns fault.Invalid for an account that is not complete.
func TCPEndpoints(s settings.Settings, placementURL, computeURL string, flags rest.TLSFiles) (Endpoints, error) {
	placement, err := PlacementOverTCP(s, placementURL, flags)
	if err != nil {
		return Endpoints{}, err
	}
	compute, err := computeOverTCP(s, computeURL, flags)
	if err != nil {
		return Endpoints{}, err
	}
	network, err := networkClient(s, flags)
	if err != nil {
		return Endpoints{}, err
	}
	images, err := newImageClient(s.Images, slog.Default())
	return Endpoints{placement, compute, network, images}, err
}

// reportsInPlacement reports whether Placement counts the devices of the host. I/O slots are always counted there.
func reportsInPlacement(s settings.Settings) bool {
	return s.ReportInPlacement || s.HostSettings.Facts == settings.IOSlots
}

// NewAgent creates the agent of this host with its journal and its guests under dir. It does not start it.
func NewAgent(s settings.Settings, dir string, endpoints Endpoints, log *slog.Logger) (*loop.Agent, error) {
	source, events, err := openFacts(s)
	if err != nil {
		return nil, err
	}
	guests, err := openHypervisor(s, driverParts{dir: dir, images: endpoints.Images, source: source,
		boot: firstBoot(s.Host, endpoints.Compute), locate: locate(endpoints.Compute)})
	if err != nil {
		return nil, err
	}
	return newAgentOf(guests, s, dir, endpoints, agentFacts{source, events}, log)
}

// agentFacts are the devices of a host and their changes.
type agentFacts struct {
	source facts.Source
	events loop.Events
}

// newAgentOf is NewAgent for the guests of a hypervisor.
func newAgentOf(guests hypervisor.Hypervisor, s settings.Settings, dir string, endpoints Endpoints, of agentFacts,
	log *slog.Logger) (*loop.Agent, error) {
	if s.LockPath != "" {
		if err := os.MkdirAll(s.LockPath, 0o700); err != nil {
			return nil, fault.New(fault.Unavailable,
				"cannot create the directory for locks: %w; set [oslo_concurrency] lock_path to a writable directory", err)
		}
	}
	o := loop.Options{
		Host:    s.Host,
		LockDir: s.LockPath,
		Machine: state.Machine{ID: machineID(), Booted: bootTime(), Address: cmp.Or(s.HostSettings.Address,
			routedAddress())},
		LockID: lockID,
		Facts:  of.source,
		Events: of.events,
		Reported: loop.Reported{Kinds: kinds, Rules: s.Rules,
			ReportInPlacement: reportsInPlacement(s), ReportNetwork: s.ReportNetwork,
			CPUs: s.HostSettings.CPUs, VFIO: s.HostSettings.VFIO(),
			ReportBandwidth: s.Bandwidth.Report, Bandwidth: s.Bandwidth.Agents},
		Placement:  api.WithTreeMemory(endpoints.Placement),
		Compute:    endpoints.Compute,
		Hypervisor: guests,
		Dir:        dir,
		Log:        log.With("service", "agent"),
		Times:      agentTimes(s),
		Networking: loop.Networking{PortInterval: s.PortInterval,
			DataPlane: openDataPlane(s, endpoints.Network, log.With("service", "agent"))},
	}
	openBridges(&o.Networking, s, bridgeParts{dir, endpoints.Network, guests, firstBoot(s.Host, endpoints.Compute),
		log.With("service", "agent")})
	if endpoints.Network != nil {
		o.Network = endpoints.Network
	} else if sentence := s.Unreported(); sentence != "" {
		o.Conditions = []string{sentence}
	}
	if s.HostSettings.Clean != "" {
		o.Clean = program.Program{Option: "[berth] device_clean_command", Path: s.HostSettings.Clean}
	}
	if s.HostSettings.Start != "" {
		o.Prepare = program.Program{Option: "[berth] device_start_command", Path: s.HostSettings.Start}
	}
	o.VFs, _ = of.source.(loop.VFSetter)
	o.Health, o.HealthInterval = healthChecks(s.HostSettings.Health, of.source), s.HostSettings.Health.Interval
	return loop.New(o)
}

// healthChecks returns what checks the devices of a host; nil: nothing does. Without /sys only a program checks them.
func healthChecks(s settings.HealthSettings, source facts.Source) loop.HealthChecker {
	c := health.Checker{Errors: s.AER}
	if sys, is := source.(sysfs.Source); is {
		c.FS = sys.FS
	}
	if s.Command != "" {
		c.Program = &program.Program{Option: "[berth] device_health_command", Path: s.Command, Limit: s.Timeout}
	}
	if s.Interval <= 0 || c.FS == nil && c.Program == nil {
		return nil
	}
	return c
}

// firstBoot returns what guests of this host read when they boot, from compute.
func firstBoot(name string, compute host.Client) libvirt.FirstBoot {
	return func(ctx context.Context, server string) (configdrive.Server, error) {
		b, err := compute.FirstBoot(ctx, name, server)
		return configdrive.Server{KeyName: b.KeyName, PublicKey: b.PublicKey, UserData: b.UserData,
			Hostname: b.Hostname, AdminPass: b.AdminPass,
			Metadata: b.Metadata, Project: b.Project, Zone: b.Zone, Index: b.Index, Interfaces: bootInterfaces(b.Ports)}, err
	}
}

// locate returns what finds the address of another host for moves, which its agent reports to compute.
func locate(compute host.Client) libvirt.Locate {
	return func(ctx context.Context, name string) (string, error) {
		hosts, err := compute.Hosts(ctx)
		for _, h := range hosts {
			if h.Host == name {
				return h.MoveAddress, nil
			}
		}
		return "", err
	}
}

// bootInterfaces converts the ports of a guest.
func bootInterfaces(ports []host.BootPort) (list []configdrive.Interface) {
	for _, p := range ports {
		one := configdrive.Interface{Port: p.Port, Network: p.Network, MTU: p.MTU, VLAN: p.VLAN,
			Addresses: []configdrive.Address{}, Device: configdrive.Device{Tag: p.Tag, Trusted: p.Trusted}}
		for _, a := range p.Addresses {
			to := configdrive.Address{Method: a.Method, Address: a.Address, CIDR: a.CIDR, Gateway: a.Gateway, DNS: a.DNS}
			for _, r := range a.Routes {
				to.Routes = append(to.Routes, configdrive.Route(r))
			}
			one.Addresses = append(one.Addresses, to)
		}
		list = append(list, one)
	}
	return list
}

// openDataPlane returns what configures VFs for ports; nil if no device of this machine is for ports, or there is no
// network service.
func openDataPlane(s settings.Settings, client *network.Client, log *slog.Logger) loop.DataPlane {
	networked := func(r pci.Rule) bool { return r.Tags.Networked }
	if client == nil || s.Sysfs != "/sys" || !slices.ContainsFunc(s.Rules, networked) {
		return nil
	}
	return dataplane.New(s.Host, vflink.Links{}, client, log)
}

// PrintPlan prints what an agent with these settings would change in Placement now. It returns fault.Conflict if the
// plan must not be executed.
func PrintPlan(ctx context.Context, s settings.Settings, dir string, endpoints Endpoints, log *slog.Logger,
	out io.Writer,
	asJSON bool) error {
	agent, err := NewAgent(s, dir, endpoints, log)
	if err != nil {
		return err
	}
	plan, err := agent.Plan(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		err = json.NewEncoder(out).Encode(loop.PlanDoc(plan))
	} else {
		err = plan.Print(out)
	}
	if err == nil && len(plan.Objections) > 0 {
		if len(plan.Objections) == 1 {
			return fault.New(fault.Conflict, "the plan cannot be executed: %s", plan.Objections[0])
		}
		var sentences []string
		for _, o := range plan.Objections {
			sentences = append(sentences, o.String())
		}
		return settings.Combine(fault.Conflict, sentences)
	}
	return err
}
