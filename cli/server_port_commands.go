package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
)

// ServerAddCmd groups the commands that attach ports to servers.
type ServerAddCmd struct {
	Port    ServerAddPortCmd    `cmd:"" help:"Attach a port to a server."`
	Network ServerAddNetworkCmd `cmd:"" help:"Attach a new port of a network to a server."`
}

// ServerRemoveCmd groups the commands that detach ports from servers.
type ServerRemoveCmd struct {
	Port    ServerRemovePortCmd    `cmd:"" help:"Detach a port from a server."`
	Network ServerRemoveNetworkCmd `cmd:"" help:"Detach all ports of a network from a server."`
}

// PortWaiting is the flag of commands that attach or detach ports.
type PortWaiting struct {
	Wait bool `help:"Wait until it is done; fail if it is refused."`
}

// ServerAddPortCmd attaches a port.
type ServerAddPortCmd struct {
	Server string `arg:"" help:"Name or id."`
	Port   string `arg:"" help:"Name or id."`
	Tag    string `help:"Tag of the interface."`
	PortWaiting
}

// Run attaches the port and prints it.
func (c *ServerAddPortCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	id, err := g.portID(ctx, c.Port)
	if err != nil {
		return err
	}
	return g.attach(ctx, c.Wait, c.Server, compute.AttachInterface{Port: id, Tag: c.Tag})
}

// ServerAddNetworkCmd attaches a new port of a network.
type ServerAddNetworkCmd struct {
	Server  string `arg:"" help:"Name or id."`
	Network string `arg:"" help:"Name or id."`
	FixedIP string `help:"Address of the port. Default: any free one." name:"fixed-ip" placeholder:"ADDRESS"`
	Tag     string `help:"Tag of the interface."`
	PortWaiting
}

// Run attaches the port and prints it.
func (c *ServerAddNetworkCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	id, err := g.networkID(ctx, c.Network)
	if err != nil {
		return err
	}
	want := compute.AttachInterface{Network: id, Tag: c.Tag}
	if c.FixedIP != "" {
		want.FixedIPs = []compute.RequestedAddress{{Address: c.FixedIP}}
	}
	return g.attach(ctx, c.Wait, c.Server, want)
}

// portResult is the result of a command for one port of a server.
type portResult struct {
	Server    string   `json:"server"` // its name
	ID        string   `json:"id"`
	Port      string   `json:"port"`
	Addresses []string `json:"addresses"`
	Result    string   `json:"result"` // attached, detached, requested
}

// attach attaches a port to a server. The service answers when the port is attached, or after some time that it is not
// yet; then with wait the command continues to wait.
func (g *Globals) attach(ctx context.Context, wait bool, server string, want compute.AttachInterface) error {
	client, watch := g.compute(), g.watch()
	s, err := client.Server(ctx, server)
	if err != nil {
		return err
	}
	before, err := client.Interfaces(ctx, s.ID)
	if err != nil {
		return err
	}
	made, err := client.AttachInterface(ctx, s.ID, want)
	if wait && (err == nil || fault.Is(err, fault.Unavailable)) {
		made, err = watch.attached(ctx, s, before, err)
	}
	if err != nil {
		return err
	}
	return g.printPorts([]portResult{resultOf(s, made, "attached")})
}

// attached waits until a requested attachment has ended. It returns the interface that the server did not have before.
// answer is the error of the request; it is returned if the service does not know another reason.
func (w *watch) attached(ctx context.Context, s compute.Server, before []compute.Interface, answer error) (
	made compute.Interface, err error) {
	refusal, err := w.portChanged(ctx, s)
	if err != nil {
		return made, err
	}
	list, err := w.client.Interfaces(ctx, s.ID)
	if err != nil {
		return made, w.ended(ctx, err)
	}
	for _, one := range list {
		if !hasPort(before, one.Port) {
			return one, nil
		}
	}
	if refusal == "" && answer != nil {
		return made, answer
	}
	return made, notChanged(s, "attached", refusal)
}

// notChanged returns the error of a change of ports that has ended without effect.
func notChanged(s compute.Server, done, refusal string) error {
	if refusal == "" {
		refusal = "the server has changed meanwhile; `berth server why " + s.ID + "` shows its history"
	}
	return fault.New(fault.Conflict, "the port is not %s: %s", done, refusal)
}

// portChanged waits until no port of a server is being attached or detached. It returns the reason of the last refusal.
func (w *watch) portChanged(ctx context.Context, s compute.Server) (refusal string, err error) {
	for {
		why, err := w.client.Why(ctx, s.ID)
		if err != nil || why.PortChange == "" {
			return why.Fault, w.ended(ctx, err)
		}
		if err := w.next(ctx, []compute.Server{s}); err != nil {
			return "", err
		}
	}
}

// ServerRemovePortCmd detaches a port.
type ServerRemovePortCmd struct {
	Server string `arg:"" help:"Name or id."`
	Port   string `arg:"" help:"Name or id."`
	PortWaiting
}

// Run detaches the port.
func (c *ServerRemovePortCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	id, err := g.portID(ctx, c.Port)
	if err != nil {
		return err
	}
	return g.detach(ctx, c.Wait, c.Server, func(one compute.Interface) bool { return one.Port == id },
		"port "+c.Port)
}

// ServerRemoveNetworkCmd detaches the ports of a network.
type ServerRemoveNetworkCmd struct {
	Server  string `arg:"" help:"Name or id."`
	Network string `arg:"" help:"Name or id."`
	PortWaiting
}

// Run detaches the ports.
func (c *ServerRemoveNetworkCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	id, err := g.networkID(ctx, c.Network)
	if err != nil {
		return err
	}
	return g.detach(ctx, c.Wait, c.Server, func(one compute.Interface) bool { return one.Network == id },
		"port in network "+c.Network)
}

// detach detaches the selected ports of a server, one after the other: the service changes one at a time. what names
// them in the error if the server has none.
func (g *Globals) detach(ctx context.Context, wait bool, server string, selected func(compute.Interface) bool,
	what string) error {
	client, watch := g.compute(), g.watch()
	s, err := client.Server(ctx, server)
	if err != nil {
		return err
	}
	all, err := client.Interfaces(ctx, s.ID)
	if err != nil {
		return err
	}
	results := []portResult{}
	for _, one := range all {
		if !selected(one) {
			continue
		}
		if len(results) > 0 && !wait {
			if _, err = watch.portChanged(ctx, s); err != nil {
				break
			}
		}
		if err = client.DetachInterface(ctx, s.ID, one.Port); err != nil {
			break
		}
		results = append(results, resultOf(s, one, "requested"))
		if !wait {
			continue
		}
		if err = watch.detached(ctx, s, one.Port); err != nil {
			break
		}
		results[len(results)-1].Result = "detached"
	}
	if len(results) == 0 && err == nil {
		return fault.New(fault.NotFound, "server %s has no %s", server, what)
	}
	if len(results) == 0 {
		return err
	}
	if printed := g.printPorts(results); printed != nil {
		return printed
	}
	return err
}

// detached waits until a requested detachment has ended, and returns an error if the server still has the port.
func (w *watch) detached(ctx context.Context, s compute.Server, port string) error {
	refusal, err := w.portChanged(ctx, s)
	if err != nil {
		return err
	}
	list, err := w.client.Interfaces(ctx, s.ID)
	if err != nil {
		return w.ended(ctx, err)
	}
	if hasPort(list, port) {
		return notChanged(s, "detached", refusal)
	}
	return nil
}

func hasPort(list []compute.Interface, id string) bool {
	return slices.ContainsFunc(list, func(one compute.Interface) bool { return one.Port == id })
}

func resultOf(s compute.Server, one compute.Interface, result string) portResult {
	r := portResult{Server: s.Name, ID: s.ID, Port: one.Port, Addresses: []string{}, Result: result}
	for _, ip := range one.FixedIPs {
		r.Addresses = append(r.Addresses, ip.Address)
	}
	return r
}

// printPorts prints the results of a command on ports of servers.
func (g *Globals) printPorts(results []portResult) error {
	rows := [][]string{}
	for _, r := range results {
		rows = append(rows, []string{r.Server, r.Port, dash(strings.Join(r.Addresses, ", ")), r.Result})
	}
	return g.print(results, []string{"Server", "Port", "Addresses", "Result"}, rows)
}

// addressesText returns the addresses of a server as NETWORK=ADDRESS, ADDRESS; NETWORK=…, by name of the network.
func addressesText(s compute.Server) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(s.Addresses)) {
		var of []string
		for _, one := range s.Addresses[name] {
			of = append(of, one.Address)
		}
		texts = append(texts, name+"="+strings.Join(of, ", "))
	}
	return strings.Join(texts, "; ")
}
