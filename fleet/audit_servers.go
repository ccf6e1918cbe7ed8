package fleet

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// expectation is what Placement must have for a server by its flavor and image.
type expectation struct {
	amounts resource.Amounts
	devices resource.Amounts        // the part of amounts that aliases request
	pfs     map[resource.Class]bool // the classes of devices that may be PFs
	opaque  bool                    // the flavor requests devices by aliases that are not known
	wrong   string                  // why the flavor is not understood; empty: it is
}

const aliasSpec = "pci_passthrough:alias"

// expect returns the expectation of a server without its ports.
func (a *audit) expect(s *Server) expectation {
	key := fmt.Sprint(s.Flavor, s.FromVolume, s.ImageProperties)
	if e, known := a.expected[key]; known {
		return e
	}
	f, e := s.Flavor, expectation{devices: resource.Amounts{}, pfs: map[resource.Class]bool{}}
	if s.FromVolume {
		f.DiskGB = 0
	}
	e.opaque = f.ExtraSpecs["accel:device_profile"] != "" // Cyborg adds what its profile requests
	if f.ExtraSpecs[aliasSpec] != "" && !a.AliasesKnown {
		e.opaque = true
		f.ExtraSpecs = maps.Clone(f.ExtraSpecs)
		delete(f.ExtraSpecs, aliasSpec)
	}
	n := 0
	newID := func() string { n++; return fmt.Sprint(n) }
	ask, requests, err := flavor.Ask(f, flavor.Image{Properties: s.ImageProperties}, a.Aliases,
		flavor.Options{PCIInPlacement: true}, newID)
	if err != nil {
		e.wrong = err.Error()
	}
	e.amounts = ask.Total().Positive()
	for _, r := range requests {
		e.devices[r.Requirement.Class] += r.Count
		if mayBePF(r) {
			e.pfs[r.Requirement.Class] = true
		}
	}
	a.expected[key] = e
	return e
}

// mayBePF reports whether the devices of a request may be PFs.
func mayBePF(r pci.Request) bool {
	all := append([]pci.Requirement{r.Requirement}, r.Alternatives...)
	return slices.ContainsFunc(all, func(d pci.Requirement) bool { return d.Type == "" || d.Type == pci.Physical })
}

// isDevice reports whether a class may be one of devices that an alias or a port requests.
func isDevice(class resource.Class) bool {
	return resource.IsCustom(string(class)) || class == pci.PortVF || class == pci.PortNIC || class == pci.PortVDPA ||
		class == "PGPU" || class == "PCI_DEVICE" || class == "SRIOV_NET_VF" || class == "FPGA"
}

// server compares one server with its allocation. It reports nothing while a task or a move explains a difference.
func (a *audit) server(s *Server) {
	consumer := resource.ConsumerID(s.ID)
	held := a.Held[consumer]
	switch {
	case a.Missing(Providers, Migrations) || s.TaskState != "" || s.VMState == "building" || s.Status == "BUILD" ||
		s.Status == "UNKNOWN" || s.Host != "" && s.Node == "":
		return
	case len(a.Moves[s.ID]) > 0:
		a.moving(s, held)
		return
	case s.Host == "":
		if len(held) > 0 {
			f := a.of(s, WithoutHost, "the server is "+s.Status+" on no host; it holds "+held.Sum().String())
			f.Host = a.hostsText(held)
			a.allocate(&f, consumer, held, nil, s)
			a.report(f)
		}
		return
	}
	root := a.Root[s.Node]
	if root == nil || a.Server[consumer] != s {
		return
	}
	own, elsewhere := a.split(held, root.ID)
	c := &comparison{audit: a, server: s, root: root, after: own.Clone()}
	switch {
	case len(elsewhere) == 0:
	case len(own) > 0:
		c.add(SecondHost, fmt.Sprintf("it holds %s on %s, and no move is in progress", elsewhere.Sum(),
			a.hostsText(elsewhere)))
	default:
		c.add(WrongHost, fmt.Sprintf("it holds %s on %s only", elsewhere.Sum(), a.hostsText(elsewhere)))
	}
	c.compare(own, len(elsewhere) > 0 && len(own) == 0)
	c.finish(consumer, held)
}

// of returns a finding about a server.
func (a *audit) of(s *Server, rule Rule, evidence string) Finding {
	name := s.Name
	if name == "" {
		name = s.ID
	}
	return Finding{Rule: rule, Subject: s.ID, Name: name, Host: s.Node, Evidence: evidence, Changed: s.Updated}
}

// moving reports what a server in a move holds on a host that the move does not name.
func (a *audit) moving(s *Server, held resource.Allocation) {
	for id, amounts := range held {
		p := a.View.Provider[id]
		if p == nil || a.shared(p) {
			continue
		}
		host := a.HostOf(p)
		if host == s.Node || slices.ContainsFunc(a.Moves[s.ID], func(m *Migration) bool {
			return host == m.SourceNode || host == m.DestNode || m.DestNode == "" || m.SourceNode == ""
		}) {
			continue
		}
		f := a.of(s, ThirdHost, fmt.Sprintf("it holds %s of %s", amounts, p.Name))
		f.Kept = "a move of the server is in progress"
		a.report(f)
	}
}

// shared reports whether a provider is in a tree that shares its inventory.
func (a *audit) shared(p *Provider) bool {
	root := a.View.Provider[p.Root]
	return p.Shares() || root != nil && root.Shares()
}

// split returns the parts of an allocation in a tree, shared providers included, and elsewhere.
func (a *audit) split(held resource.Allocation, root provider.ID) (own, elsewhere resource.Allocation) {
	own, elsewhere = resource.Allocation{}, resource.Allocation{}
	for id, amounts := range held {
		if p := a.View.Provider[id]; p == nil || p.Root == root || a.shared(p) {
			own[id] = amounts
		} else {
			elsewhere[id] = amounts
		}
	}
	return own, elsewhere
}

// comparison compares the allocation of a server on its host with its request.
type comparison struct {
	*audit
	server *Server
	root   *Provider
	after  resource.Allocation // the right allocation
	found  []Finding
	kept   string // why the right allocation is not known
}

func (c *comparison) add(rule Rule, evidence string) {
	c.found = append(c.found, c.of(c.server, rule, evidence))
}

// compare adds the differences between the request of the server and what it has on its host. moved: what it must have
// is on another host, so what it lacks here is not reported.
func (c *comparison) compare(own resource.Allocation, moved bool) {
	e := c.expect(c.server)
	switch {
	case c.server.FlavorUnknown:
		c.kept = "compute does not return its flavor"
		return
	case e.wrong != "":
		c.kept = "its request is not understood: " + e.wrong
		f := c.of(c.server, UnknownRequest, e.wrong)
		f.Kept = "the allocation cannot be compared"
		c.report(f)
		return
	}
	want, have := maps.Clone(e.amounts), own.Sum()
	guarantees := c.guarantees(c.server.ID)
	for class, n := range guarantees {
		want[class] += n
	}
	c.besideAlias(e, have)
	if len(own) == 0 && !moved {
		c.add(NoAllocation, "it must have "+want.String())
	}
	// An image can request dedicated CPUs, and compute shows its properties only since 2.98, and none of a volume.
	equalCPUs := c.server.ImageProperties == nil && have["VCPU"]+have["PCPU"] == want["VCPU"]+want["PCPU"]
	doubled := len(have) > 0
	for class, n := range want {
		doubled = doubled && have[class] == 2*n
	}
	if doubled = doubled && len(have) == len(want); doubled {
		c.add(Doubled, fmt.Sprintf("it has %s, twice of what it requests", have))
	}
	classes := maps.Clone(want)
	for class, n := range have {
		classes[class] += n
	}
	for _, class := range classes.Sorted() {
		if c.opaque(e, class) || have[class] == want[class] || equalCPUs && (class == "VCPU" || class == "PCPU") ||
			c.Berth && e.pfs[class] && have[class] > want[class] { // a PF takes all of a card of both shapes
			continue
		}
		if rule := rule(class, have[class], want[class]); len(own) > 0 && !doubled {
			c.add(rule, fmt.Sprintf("it has %d %s, and requests %d", have[class], class, want[class]))
		}
		c.set(class, want[class])
	}
	if e.opaque && len(own) == 0 {
		c.kept = "the aliases of its flavor are not known; --alias-file names them"
	}
}

// rule returns the rule for a class of which a server has an amount that it does not want.
func rule(class resource.Class, have, want int) Rule {
	switch {
	case bandwidth.IsPortClass(class):
		return PortAmounts
	case have < want:
		return TooLittle
	}
	return TooMuch
}

// opaque reports whether it is not known how much of a class a server requests.
func (c *comparison) opaque(e expectation, class resource.Class) bool {
	if bandwidth.IsPortClass(class) {
		return c.Missing(Ports)
	}
	if class == "MEM_ENCRYPTION_CONTEXT" { // an image requests it too
		return true
	}
	return isDevice(class) && (e.opaque || class == pci.PortVF || class == pci.PortNIC || class == pci.PortVDPA)
}

// guarantees returns what the ports of a server request.
func (a *audit) guarantees(server string) resource.Amounts {
	sum := resource.Amounts{}
	for _, p := range a.portsOf[server] {
		for _, amounts := range p.Requests {
			for class, n := range amounts {
				sum[class] += n
			}
		}
	}
	return sum.Positive()
}

// besideAlias reports classes that a flavor requests both by resources:CLASS and by an alias: the guest gets the
// devices of the alias only.
func (c *comparison) besideAlias(e expectation, have resource.Amounts) {
	for _, class := range e.devices.Sorted() {
		if n := e.devices[class]; n < e.amounts[class] && have[class] > n {
			f := c.of(c.server, BesideAlias, fmt.Sprintf("it has %d %s, and its guest gets %d devices of its alias",
				have[class], class, n))
			f.Kept = "remove resources:" + string(class) + " from flavor " + c.server.Flavor.Name + " and resize the server"
			c.report(f)
		}
	}
}

// set changes the right allocation so that it has n of a class: at the provider of the tree that has the class, if
// there is only one.
func (c *comparison) set(class resource.Class, n int) {
	var at []provider.ID
	for id, amounts := range c.after {
		if amounts[class] > 0 {
			at = append(at, id)
		}
	}
	if len(at) == 0 {
		at = c.offers(class)
	}
	if len(at) != 1 {
		c.kept = fmt.Sprintf("%d providers of its host can have the %s", len(at), class)
		return
	}
	amounts := maps.Clone(c.after[at[0]])
	if amounts == nil {
		amounts = resource.Amounts{}
	}
	if amounts[class] = n; n == 0 {
		delete(amounts, class)
	}
	if c.after[at[0]] = amounts; len(amounts) == 0 {
		delete(c.after, at[0])
	}
}

// offers returns the providers from which the server can have a class that it does not have yet: those that its ports
// name, else the root, else those below it.
func (c *comparison) offers(class resource.Class) (at []provider.ID) {
	has := func(p *Provider) bool {
		_, offered := p.Inventories[class]
		return offered
	}
	if bandwidth.IsPortClass(class) {
		for _, port := range c.portsOf[c.server.ID] {
			for _, id := range port.Providers {
				if p := c.View.Provider[id]; p != nil && p.Root == c.root.ID && has(p) {
					at = append(at, id)
				}
			}
		}
		slices.Sort(at)
		return slices.Compact(at)
	}
	if has(c.root) {
		return []provider.ID{c.root.ID}
	}
	return nil
}

// finish reports the findings, with the change that makes the allocation right.
func (c *comparison) finish(consumer resource.ConsumerID, held resource.Allocation) {
	if len(c.found) == 0 {
		return
	}
	change := Finding{Rule: c.found[0].Rule}
	for _, f := range c.found {
		if f.Rule != PortAmounts {
			change.Rule = f.Rule
		}
	}
	if c.kept == "" && c.server.Status == "ERROR" {
		c.kept = serverInError
	}
	if c.kept == "" && !c.after.Equal(held) {
		c.allocate(&change, consumer, held, c.after, c.server)
	}
	for i := range c.found {
		f := &c.found[i]
		f.Change, f.Kept = change.Change, c.kept+change.Kept
		c.report(*f)
	}
}
