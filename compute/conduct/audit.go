package conduct

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Audit is what a comparison of compute's records of one host with Placement has found. An audit without findings has empty lists.
type Audit struct {
	Host    string
	Missing []Missing // by server and consumer
	Foreign []Foreign // by consumer
}

// Missing is a consumer of a server on the host that has less in Placement than was claimed for it.
type Missing struct {
	Server, Name string // id and name
	Consumer     string // the server's id, or that of its migration
	Lacks        resource.Allocation
	Outcome      string // of HostHeal: what was done, or why nothing was; empty: nothing was tried
	Healed       bool   // of HostHeal
}

// Foreign is a consumer that has something of the host in Placement without a record of compute that it belongs there.
type Foreign struct {
	Consumer string
	Holds    resource.Allocation
	Why      string // what compute knows of the consumer, as a clause
}

// audit compares what the servers on a host must have with what Placement has on some providers of it, of which the first is the root. What differs is
// compared a second time, because servers that change at this moment differ for a moment. Without strangers, Foreign stays empty.
func (c *Conductor) audit(ctx context.Context, host string, of []provider.ID, strangers bool) (Audit, error) {
	first, err := c.auditOnce(ctx, host, of, strangers)
	if err != nil || len(first.Missing)+len(first.Foreign) == 0 {
		return first, err
	}
	second, err := c.auditOnce(ctx, host, of, strangers)
	if err != nil {
		return Audit{}, err
	}
	second.Missing = slices.DeleteFunc(second.Missing, func(m Missing) bool {
		return !slices.ContainsFunc(first.Missing, func(f Missing) bool { return f.Server == m.Server && f.Consumer == m.Consumer })
	})
	second.Foreign = slices.DeleteFunc(second.Foreign, func(m Foreign) bool {
		return !slices.ContainsFunc(first.Foreign, func(f Foreign) bool { return f.Consumer == m.Consumer })
	})
	return second, nil
}

// auditOnce reads the servers first, then Placement, and of consumers that remain what compute knows of them.
func (c *Conductor) auditOnce(ctx context.Context, host string, of []provider.ID, strangers bool) (Audit, error) {
	out := Audit{Host: host}
	servers, err := c.store.OnHost(ctx, host)
	if err != nil {
		return out, err
	}
	held := map[provider.ID]map[resource.ConsumerID]resource.Amounts{}
	for _, id := range of {
		if held[id], err = c.placement.ProviderAllocations(ctx, id); err != nil && !fault.Is(err, fault.NotFound) {
			return out, err
		}
	}
	known := map[resource.ConsumerID]bool{}
	for _, s := range servers {
		for _, stay := range s.Stays() {
			known[resource.ConsumerID(stay.Consumer)] = true
		}
		for _, claim := range s.Expected(host) {
			for _, also := range claim.Also {
				known[resource.ConsumerID(also)] = true
			}
			if lacks := lacking(claim, of[0], held); len(lacks) > 0 {
				out.Missing = append(out.Missing, Missing{Server: s.ID, Name: s.Name, Consumer: claim.Consumer, Lacks: lacks})
			}
		}
	}
	slices.SortFunc(out.Missing, func(a, b Missing) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Consumer, b.Consumer))
	})
	if strangers {
		out.Foreign, err = c.foreign(ctx, host, held, known)
	}
	return out, err
}

// lacking is what a claim has too little of on those providers that were read. What was claimed of the host's root counts on the root that
// the host has now.
func lacking(claim lifecycle.Expectation, root provider.ID, held map[provider.ID]map[resource.ConsumerID]resource.Amounts) resource.Allocation {
	lacks := resource.Allocation{}
	for id, amounts := range claim.Allocation {
		if id == claim.Root {
			id = root
		}
		consumers, read := held[id]
		if !read {
			continue
		}
		for class, n := range amounts {
			has := consumers[resource.ConsumerID(claim.Consumer)][class]
			for _, also := range claim.Also {
				has = max(has, consumers[resource.ConsumerID(also)][class])
			}
			if has < n {
				if lacks[id] == nil {
					lacks[id] = resource.Amounts{}
				}
				lacks[id][class] = n - has
			}
		}
	}
	return lacks
}

// foreign lists the consumers of a host that are not known to belong there.
func (c *Conductor) foreign(ctx context.Context, host string, held map[provider.ID]map[resource.ConsumerID]resource.Amounts,
	known map[resource.ConsumerID]bool) ([]Foreign, error) {
	holds := map[resource.ConsumerID]resource.Allocation{}
	for id, consumers := range held {
		for consumer, amounts := range consumers {
			if known[consumer] {
				continue
			}
			if holds[consumer] == nil {
				holds[consumer] = resource.Allocation{}
			}
			holds[consumer][id] = amounts
		}
	}
	var list []Foreign
	for _, consumer := range slices.Sorted(maps.Keys(holds)) {
		why, err := c.stranger(ctx, string(consumer), host)
		if err != nil {
			return nil, err
		}
		if why != "" {
			list = append(list, Foreign{Consumer: string(consumer), Holds: holds[consumer], Why: why})
		}
	}
	return list, nil
}

// stranger says what compute knows of a consumer that has something on a host where it has no stay; empty when that is right, because its
// server is on its way.
func (c *Conductor) stranger(ctx context.Context, consumer, host string) (string, error) {
	id, err := c.store.Owner(ctx, consumer)
	var server lifecycle.Server
	if err == nil {
		server, err = c.store.Read(ctx, id)
	}
	switch {
	case fault.Is(err, fault.NotFound):
		return "compute knows no server and no migration of this id", nil
	case err != nil:
		return "", err
	case len(server.Steps()) > 0:
		return "", nil
	}
	var hosts []string
	for _, stay := range server.Stays() {
		if stay.Consumer == consumer {
			hosts = append(hosts, stay.Host)
		}
	}
	name := fmt.Sprintf("server %s (%s)", server.Name, id)
	if consumer != id {
		name = "a migration of " + name
	}
	switch {
	case slices.Contains(hosts, host):
		return "", nil
	case len(hosts) > 0:
		return fmt.Sprintf("it is %s, which compute has placed on %s", name, strings.Join(hosts, ", ")), nil
	}
	return fmt.Sprintf("it is %s, which compute has placed on no host", name), nil
}

// sentences are the conditions of a host that follow from an audit.
func (a Audit) sentences() []string {
	var out []string
	if len(a.Missing) > 0 {
		var list []string
		for _, m := range a.Missing {
			list = append(list, fmt.Sprintf("server %s (%s) lacks %s", m.Name, m.Server, m.Lacks.Sum()))
		}
		out = append(out, fmt.Sprintf("Placement lacks allocations of servers that are placed here: %s; nothing more is placed here until they are written back "+
			"(`berth host heal %s` shows what would be written)", some(list), a.Host))
	}
	if len(a.Foreign) > 0 {
		var list []string
		for _, f := range a.Foreign {
			list = append(list, fmt.Sprintf("consumer %s has %s (%s)", f.Consumer, f.Holds.Sum(), f.Why))
		}
		out = append(out, fmt.Sprintf("in Placement, consumers that compute did not place here have something of this host: %s; make sure that no guest "+
			"of them is here, then take it from them (`openstack resource provider allocation unset --provider PROVIDER CONSUMER`; `berth host heal %s -o json` names the providers)",
			some(list), a.Host))
	}
	return out
}
