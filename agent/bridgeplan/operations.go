package bridgeplan

import (
	"fmt"
	"slices"
)

// Verb is what an operation does.
type Verb string

// The verbs.
const (
	Create     Verb = "create"
	Delete     Verb = "delete"
	SetMAC     Verb = "set MAC address"
	SetMTU     Verb = "set MTU"
	SetMaster  Verb = "set bridge"
	SetUp      Verb = "set up"
	AddAddress Verb = "add address"
	DelAddress Verb = "remove address"
	AddEnd     Verb = "add tunnel end"
	DelEnd     Verb = "remove tunnel end"
	Set        Verb = "set"
)

// Operation changes a link, or a setting of the kernel.
type Operation struct {
	Verb    Verb
	Link    Link    // the desired link; of Delete the present one
	Address Address // of AddAddress and DelAddress
	Value   string  // the tunnel end, or the value of a setting
	Name    string  // of a setting
}

// String returns the operation for logs.
func (o Operation) String() string {
	switch o.Verb {
	case AddAddress, DelAddress:
		return fmt.Sprintf("%s %s of %s", o.Verb, o.Address.Prefix, o.Link.Name)
	case AddEnd, DelEnd:
		return fmt.Sprintf("%s %s of %s", o.Verb, o.Value, o.Link.Name)
	case Set:
		return fmt.Sprintf("set %s to %s", o.Name, o.Value)
	case SetMaster:
		return fmt.Sprintf("put %s into bridge %q", o.Link.Name, o.Link.Master)
	}
	return fmt.Sprintf("%s %s", o.Verb, o.Link.Name)
}

// Operations returns what makes the present links the desired ones: what Berth has made and does not need is removed
// first, except links of kept networks. Links that Berth has not made are neither removed nor changed, except that an
// interface of the operator joins the bridge of its network. refused are the networks whose links cannot be made, each
// with a sentence.
func Operations(want []Link, present map[string]Link, kept map[string]string) (list []Operation,
	refused map[string]string) {
	refused = map[string]string{}
	wanted := map[string]Link{}
	for _, w := range want {
		wanted[w.Name] = w
	}
	gone := map[string]bool{}
	for _, name := range sortedLinks(present) {
		p := present[name]
		w, needed := wanted[name]
		if _, keep := kept[p.Owner]; keep {
			continue
		}
		if p.Owner == "" && !(needed && p.isUnfinished(w)) || gone[p.Peer] || needed && w.isMadeAs(p) {
			continue
		}
		list, gone[name] = append(list, Operation{Verb: Delete, Link: p}), true
	}
	for _, w := range want {
		p, exists := present[w.Name]
		exists = exists && !gone[w.Name] && !gone[p.Peer]
		if refusal := w.refusal(p, exists); refusal != "" {
			refused[w.Owner] = refusal
			continue
		}
		made := w.Kind == Veth && !exists && slices.ContainsFunc(list, func(o Operation) bool {
			return o.Verb == Create && o.Link.Name == w.Peer
		})
		if !exists && !made {
			list = append(list, Operation{Verb: Create, Link: w})
		}
		list = append(list, w.differences(p, exists)...)
	}
	return list, refused
}

// refusal returns why a link cannot be as desired; empty if it can.
func (w Link) refusal(p Link, exists bool) string {
	switch {
	case w.Kind == Other && !exists:
		return "the interface " + w.Name + " does not exist; correct [linux_bridge] physical_interface_mappings"
	case w.Kind == Other && slices.ContainsFunc(p.Addresses, func(a Address) bool {
		return a.Prefix.Addr().Is4() || !a.Prefix.Addr().IsLinkLocalUnicast()
	}):
		return "the interface " + w.Name + " has addresses, which it would lose in a bridge; put it into a bridge that has " +
			"them, and set [linux_bridge] bridge_mappings"
	case w.Kind == Other && p.Master != "" && p.Master != w.Master:
		return "the interface " + w.Name + " belongs to " + p.Master + "; set [linux_bridge] bridge_mappings if that is a " +
			"bridge, or take it out"
	case w.Kind != Other && exists && p.Owner != w.Owner:
		return "there is an interface " + w.Name + " that Berth has not made; rename or remove it"
	}
	return ""
}

// isUnfinished reports whether a present link without a mark is one that a process that was killed has made: it has the
// name and the kind of a desired one, and nothing uses it.
func (p Link) isUnfinished(w Link) bool {
	return w.Kind != Other && p.Kind == w.Kind && !p.Up && p.Master == "" && len(p.Addresses) == 0
}

// isMadeAs reports whether a present link can become the desired one without being made again.
func (w Link) isMadeAs(p Link) bool {
	return w.Kind == p.Kind && w.Owner == p.Owner && w.VNI == p.VNI && w.From == p.From && w.Port == p.Port &&
		w.On == p.On && w.Tag == p.Tag && (w.Kind != Veth || w.Peer == p.Peer)
}

// differences returns the operations that make a link that exists, or has just been created, the desired one.
func (w Link) differences(p Link, exists bool) (list []Operation) {
	add := func(v Verb) { list = append(list, Operation{Verb: v, Link: w}) }
	if !exists {
		p = Link{}
	}
	for _, name := range sorted(w.Settings) {
		if p.Settings[name] != w.Settings[name] {
			list = append(list, Operation{Verb: Set, Link: w, Name: name, Value: w.Settings[name]})
		}
	}
	if w.MTU != 0 && p.MTU != w.MTU {
		add(SetMTU)
	}
	if w.MAC != "" && p.MAC != w.MAC {
		add(SetMAC)
	}
	if w.Master != p.Master && (w.Kind != Bridge) {
		add(SetMaster)
	}
	for _, a := range p.Addresses {
		if w.Kind != Other && !slices.Contains(w.Addresses, a) {
			list = append(list, Operation{Verb: DelAddress, Link: w, Address: a})
		}
	}
	for _, a := range w.Addresses {
		if !slices.Contains(p.Addresses, a) {
			list = append(list, Operation{Verb: AddAddress, Link: w, Address: a})
		}
	}
	for _, end := range p.Ends {
		if !slices.Contains(w.Ends, end) {
			list = append(list, Operation{Verb: DelEnd, Link: w, Value: end})
		}
	}
	for _, end := range w.Ends {
		if !slices.Contains(p.Ends, end) {
			list = append(list, Operation{Verb: AddEnd, Link: w, Value: end})
		}
	}
	if w.Up && !p.Up {
		add(SetUp)
	}
	return list
}

// sortedLinks returns the names of links, bridges last, so that members leave before their bridge.
func sortedLinks(links map[string]Link) (names []string) {
	for name := range links {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		isBridge := func(name string) int {
			if links[name].Kind == Bridge {
				return 1
			}
			return 0
		}
		if d := isBridge(a) - isBridge(b); d != 0 {
			return d
		}
		if a < b {
			return -1
		}
		return 1
	})
	return names
}

// Members returns the links in a bridge that Berth has not made, such as the interfaces of guests, sorted.
func Members(present map[string]Link, bridge string) (names []string) {
	for name, p := range present {
		if p.Master == bridge && p.Owner == "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
