package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Rule is a kind of difference between the services.
type Rule string

// The rules. Those below Overcommitted change nothing when they are healed: what is right is not known.
const (
	Orphaned       Rule = "orphaned allocation"            // of a consumer that compute does not know
	EndedMove      Rule = "allocation of an ended move"    // of a migration that has ended
	NoAllocation   Rule = "server without allocation"      // on a host
	TooLittle      Rule = "allocation too small"           // of a class that the server requests
	TooMuch        Rule = "allocation too large"           // of a class, requested or not
	Doubled        Rule = "allocation doubled"             // all classes twice
	SecondHost     Rule = "allocation on a second host"    // without a move
	WrongHost      Rule = "allocation on another host"     // and none on that of the server
	WithoutHost    Rule = "allocation without a host"      // of a server that is on no host
	PortAmounts    Rule = "amounts of ports differ"        // guarantees of ports
	NoService      Rule = "provider without service"       // a tree without hypervisor and service
	OwnerGone      Rule = "inventory without owner"        // of an agent or device that is gone
	Overcommitted  Rule = "over capacity"                  // more is allocated than the inventory has
	NoProvider     Rule = "hypervisor without provider"    //
	OtherProvider  Rule = "provider with another id"       // than the hypervisor
	PortProvider   Rule = "port names a wrong provider"    // in its binding profile
	LostPort       Rule = "port of a missing server"       //
	DeviceTwice    Rule = "device assigned twice"          // to two ports
	OtherHolder    Rule = "device held by another"         // by the agent's report, than in Placement
	BesideAlias    Rule = "class beside its alias"         // resources:CLASS and an alias of the class
	ThirdHost      Rule = "allocation outside of the move" // on a host that a move in progress does not name
	UnknownRequest Rule = "request not understood"         // of the flavor of a server
)

// Rules lists all rules.
func Rules() []Rule {
	return []Rule{Orphaned, EndedMove, NoAllocation, TooLittle, TooMuch, Doubled, SecondHost, WrongHost, WithoutHost,
		PortAmounts, NoService, OwnerGone, Overcommitted, NoProvider, OtherProvider, PortProvider, LostPort, DeviceTwice,
		OtherHolder, BesideAlias, ThirdHost, UnknownRequest}
}

// Finding is one difference.
type Finding struct {
	Rule     Rule      `json:"rule"`
	Subject  string    `json:"subject"` // id of the consumer, provider, port or hypervisor
	Name     string    `json:"name"`    // of the server, provider or host; the id where there is none
	Host     string    `json:"host,omitempty"`
	Evidence string    `json:"evidence"`
	Changed  time.Time `json:"changed,omitzero"` // when compute last changed the server or migration
	Since    time.Time `json:"since"`            // when the difference was seen first
	Kept     string    `json:"kept,omitempty"`   // why it is not healed, as a clause
	Change   *Change   `json:"change,omitempty"` // what heals it; findings of one subject share it
}

// Change heals the findings of one subject. Exactly one of its parts is set.
type Change struct {
	Allocation *AllocationChange `json:"allocation,omitempty"`
	Provider   *ProviderChange   `json:"provider,omitempty"`
}

// Subject returns the id of the consumer or provider that is changed.
func (c Change) Subject() string {
	if c.Allocation != nil {
		return string(c.Allocation.Consumer)
	}
	return string(c.Provider.Provider.ID)
}

// AllocationChange replaces the allocation of a consumer.
type AllocationChange struct {
	Consumer   resource.ConsumerID `json:"consumer"`
	Generation *int                `json:"consumer_generation"` // as it was read; nil: it has no allocation
	Project    string              `json:"project_id"`
	User       string              `json:"user_id"`
	Type       string              `json:"consumer_type"`
	Before     resource.Allocation `json:"before"`
	After      resource.Allocation `json:"after"`
}

// ProviderChange deletes a provider, or empties its inventories.
type ProviderChange struct {
	Provider provider.Provider `json:"provider"` // as it was read
	Delete   bool              `json:"delete"`   // else its inventories are emptied
	Depth    int               `json:"depth"`    // 0: it is a root
	Restore  bool              `json:"restore"`  // undo: it is created again, or its inventories are written
}

// AuditOptions are what an audit depends on beside the snapshot.
type AuditOptions struct {
	Aliases      pci.Aliases
	AliasesKnown bool // else nothing is reported about the devices of flavors with aliases
}

// Audit returns the differences between the services of a snapshot, by rule and subject. A rule that needs a part of
// the snapshot that is missing reports nothing.
func (v *View) Audit(o AuditOptions) []Finding {
	a := &audit{View: v, AuditOptions: o, answered: v.answeringHosts(), portsOf: map[string][]*Port{},
		expected: map[string]expectation{}}
	for i := range v.Ports {
		a.portsOf[v.Ports[i].Server] = append(a.portsOf[v.Ports[i].Server], &v.Ports[i])
	}
	a.cellDown = slices.ContainsFunc(v.Servers, func(s Server) bool { return s.Status == StatusUnknown }) ||
		slices.ContainsFunc(v.Services, func(s Service) bool { return s.Status == StatusUnknown })
	a.consumers()
	for i := range v.Servers {
		a.server(&v.Servers[i])
	}
	a.providers()
	a.ports()
	for i := range a.found {
		f := &a.found[i]
		f.Since = v.Taken
		if f.Change == nil && f.Kept == "" {
			f.Kept = "what is right is not known"
		}
	}
	slices.SortFunc(a.found, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(x.Rule, y.Rule), cmp.Compare(x.Subject, y.Subject), cmp.Compare(x.Evidence, y.Evidence))
	})
	return a.found
}

// audit is one audit in progress.
type audit struct {
	*View
	AuditOptions
	found    []Finding
	cellDown bool            // compute has not returned all that it has
	answered map[string]bool // hosts whose cells have returned all that they have
	portsOf  map[string][]*Port
	expected map[string]expectation // by server flavor
}

func (a *audit) report(f Finding) { a.found = append(a.found, f) }

// compute lists the types of consumers that compute writes; Placement reports "unknown" for those without a type.
var computeTypes = []string{"", "unknown", "INSTANCE", "MIGRATION"}

// consumers reports allocations of consumers that are neither servers nor moves in progress.
func (a *audit) consumers() {
	if a.Missing(Servers, Migrations) {
		return
	}
	for consumer, held := range a.Held {
		m := a.Migration[consumer]
		if a.Server[consumer] != nil || m != nil && m.InProgress() {
			continue
		}
		if owner, read := a.Consumers[consumer]; read && !slices.Contains(computeTypes, owner.Type) {
			continue
		}
		f := Finding{Rule: Orphaned, Subject: string(consumer), Name: string(consumer), Host: a.hostsText(held),
			Evidence: "compute has no server and no migration with this id; it holds " + held.Sum().String()}
		if m != nil {
			f.Rule, f.Name, f.Changed = EndedMove, a.Holder(consumer, 0).String(), m.Updated
			f.Evidence = fmt.Sprintf("the %s of server %s is %s; it holds %s", cmp.Or(m.Kind, "migration"), m.Server,
				m.Status, held.Sum())
		}
		switch {
		case a.cellDown && !a.answeredFor(held):
			f.Kept = cellIsDown
		case m != nil && a.Berth:
			f.Kept = "compute releases it when the agent reports that the guest is gone"
		case m != nil && a.inError(m.Server):
			f.Kept = serverInError
		default:
			a.allocate(&f, consumer, held, nil, nil)
		}
		a.report(f)
	}
}

// Why something is not healed.
const (
	cellIsDown    = "a cell of compute does not answer, or its lists are incomplete"
	serverInError = "its server is in ERROR, so it is not known where its guest is; reset its state first"

	// where compute is Berth's, what an allocation has too much may be that of a guest: compute's database may be older
	// than the hosts
	agentsKnowGuests = "only the agents know whether a guest uses it; `berth host heal` asks them"
)

// answeredFor reports whether the cells of all hosts on which a consumer holds something have answered: compute has
// listed their hypervisors and services, with their states. A consumer that compute does not list then does not exist:
// a server is in the cell of its host, and so is what a migration holds. Providers that share have no host.
func (a *audit) answeredFor(held resource.Allocation) bool {
	if a.Missing(Providers, Hypervisors, Services) {
		return false
	}
	hosts := 0
	for id := range held {
		p := a.View.Provider[id]
		if p != nil && a.shared(p) {
			continue
		}
		if hosts++; p == nil || !a.answered[a.HostOf(p)] {
			return false
		}
	}
	return hosts > 0
}

// answeringHosts returns the names of the hypervisors whose cells have answered.
func (v *View) answeringHosts() map[string]bool {
	services, hosts := map[string]bool{}, map[string]bool{}
	for _, s := range v.Services {
		services[s.Host] = s.Status != StatusUnknown
	}
	for _, h := range v.Hypervisors {
		hosts[h.Name] = services[h.Host]
	}
	return hosts
}

// inError reports whether a server is in ERROR.
func (a *audit) inError(id string) bool {
	s := a.Server[resource.ConsumerID(id)]
	return s != nil && s.Status == "ERROR"
}

// allocate sets the change of a finding: the allocation of its consumer becomes after. server has the owner of a
// consumer without allocations. Where compute is Berth's, nothing is removed but what ports have requested.
func (a *audit) allocate(f *Finding, consumer resource.ConsumerID, before, after resource.Allocation, server *Server) {
	owner, read := a.Consumers[consumer]
	switch {
	case a.Missing(Providers):
		f.Kept = "not all providers were read"
		return
	case a.Berth && f.Rule != PortAmounts && !contains(after, before):
		f.Kept = agentsKnowGuests
		return
	case len(before) == 0 && server != nil:
		owner = Consumer{Project: server.Project, User: server.User, Type: "INSTANCE"}
	case !read:
		f.Kept = "its owner and generation were not read"
		return
	}
	if after == nil {
		after = resource.Allocation{}
	}
	f.Change = &Change{Allocation: &AllocationChange{Consumer: consumer, Generation: owner.Generation,
		Project: owner.Project, User: owner.User, Type: owner.Type, Before: before, After: after}}
}

// contains reports whether an allocation has all that another one has.
func contains(all, part resource.Allocation) bool {
	for id, amounts := range part {
		for class, n := range amounts {
			if all[id][class] < n {
				return false
			}
		}
	}
	return true
}

// hostsText names the hosts of an allocation.
func (a *audit) hostsText(held resource.Allocation) string {
	var hosts []string
	for id := range held {
		if p := a.View.Provider[id]; p != nil {
			hosts = append(hosts, a.HostOf(p))
		}
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	text := ""
	for i, h := range hosts {
		if i > 0 {
			text += ", "
		}
		text += h
	}
	return text
}

// Same returns the findings of now that an earlier audit has found too, with the same evidence and the same change.
// Their Since is the earlier one.
func Same(earlier, now []Finding) []Finding {
	key := func(f Finding) [4]string {
		return [4]string{string(f.Rule), f.Subject, f.Evidence, changeText(f.Change)}
	}
	known := map[[4]string]time.Time{}
	for _, f := range earlier {
		known[key(f)] = f.Since
	}
	out := []Finding{}
	for _, f := range now {
		if since, seen := known[key(f)]; seen {
			f.Since = since
			out = append(out, f)
		}
	}
	return out
}

// changeText returns a text that is equal for equal changes, generations included.
func changeText(c *Change) string {
	switch {
	case c == nil:
		return ""
	case c.Allocation != nil:
		generation := -1
		if c.Allocation.Generation != nil {
			generation = *c.Allocation.Generation
		}
		return fmt.Sprint(generation, c.Allocation.Before.ByName(), c.Allocation.After.ByName())
	}
	return fmt.Sprint(c.Provider.Delete, c.Provider.Provider.Generation)
}

// Plan returns the changes that heal findings: one for each subject.
func Plan(found []Finding) (plan []Change) {
	seen := map[*Change]bool{}
	for _, f := range found {
		if f.Change != nil && !seen[f.Change] {
			seen[f.Change] = true
			plan = append(plan, *f.Change)
		}
	}
	slices.SortStableFunc(plan, func(a, b Change) int { return cmp.Compare(a.order(), b.order()) })
	return plan
}

// Undo returns the changes that revert a plan, in reverse order. Their generations are not known: who applies them
// reads the present ones, and compares what is there with Before.
func Undo(plan []Change) []Change {
	out := make([]Change, 0, len(plan))
	for _, c := range slices.Backward(plan) {
		if a := c.Allocation; a != nil {
			back := *a
			back.Before, back.After, back.Generation = a.After, a.Before, nil
			out = append(out, Change{Allocation: &back})
			continue
		}
		back := *c.Provider
		back.Restore = true
		out = append(out, Change{Provider: &back})
	}
	return out
}

// order returns when a change is made: allocations that are removed free capacity for others, and a provider has no
// allocation and no child when it is deleted.
func (c Change) order() int {
	switch {
	case c.Allocation != nil && len(c.Allocation.After) == 0:
		return 0
	case c.Allocation != nil:
		return 1
	case !c.Provider.Delete:
		return 2
	}
	return math.MaxInt - c.Provider.Depth
}
