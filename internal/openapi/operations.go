package openapi

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
)

// Operation is a method of a path.
type Operation struct {
	Service  string // placement, compute, network or image
	Method   string
	Path     string
	Summary  string
	Rule     string      // of the policy that permits it; empty: Who says what does
	Who      string      // may send it, where no single rule says so
	Query    []Parameter // of the URL
	Body     any         // a value of the type of the request's JSON; nil: there is none
	Statuses []int       // of success
	Answer   any         // a value of the type of the answer's JSON; nil: there is none
	Stream   string      // the media type of an answer that does not end by itself; Answer is one part of it
}

// Parameter is a parameter of a query.
type Parameter struct {
	Name, Text string
	Required   bool
	Repeated   bool // it may occur several times
}

// The answers and bodies that no contract has a type for.
type (
	hosts struct {
		Hosts []host.Report `json:"hosts"`
	}
	devices struct {
		Devices []host.Device `json:"devices"`
	}
	moves struct {
		Moves []host.PlannedMove `json:"moves"`
	}
	why struct {
		Why compute.Why `json:"why"`
	}
	upload struct {
		Received int64  `json:"received"` // bytes of the image that were received; a client continues there
		Status   string `json:"status"`   // of the image
	}
)

// Operations returns all operations, by service and path.
func Operations() []Operation {
	return slices.Concat(placementOperations(), operatorOperations(), serverOperations(), agentOperations(),
		networkOperations(), imageOperations())
}

// candidateQuery returns the parameters of a query for candidates.
func candidateQuery() []Parameter {
	return []Parameter{{Name: "resources", Text: "amounts, such as VCPU:1,MEMORY_MB:512"},
		{Name: "required", Text: "traits", Repeated: true}, {Name: "member_of", Text: "aggregates", Repeated: true},
		{Name: "in_tree", Text: "UUID of a provider"}, {Name: "group_policy", Text: "none or isolate"},
		{Name: "root_required", Text: "traits of the root", Repeated: true},
		{Name: "same_subtree", Text: "suffixes of groups", Repeated: true}}
}

func placementOperations() []Operation {
	return []Operation{
		{Service: "placement", Method: "GET", Path: "/berth/v1/explain", Rule: "placement:allocation_candidates:list",
			Summary: "Why a query has no allocation candidates. The query is that of GET /allocation_candidates at the newest " +
				"microversion; its parameters may have suffixes, which are the names of groups.",
			Query:    candidateQuery(),
			Statuses: []int{200}, Answer: placement.Explanation{}},
		{Service: "placement", Method: "GET", Path: "/berth/v1/trees/{uuid}",
			Rule: "placement:resource_providers:allocations:list",
			Summary: "The tree of a provider: all its providers, parents first, with inventories, traits, aggregates and what " +
				"each consumer holds. Names of consumers are those of compute's servers.",
			Statuses: []int{200}, Answer: placement.Tree{}},
		{Service: "placement", Method: "GET", Path: "/berth/v1/hosts", Rule: "placement:resource_providers:allocations:list",
			Summary: "The hosts by name: the root providers that do not share their inventory, with the sums of their trees. " +
				"Compute's list of the same path has what agents report.",
			Statuses: []int{200}, Answer: placement.Hosts{}},
		{Service: "placement", Method: "GET", Path: "/berth/v1/devices",
			Rule: "placement:resource_providers:allocations:list",
			Summary: "The devices of all hosts, by host, address and resource class: the providers that have the name of a " +
				"device, as Nova, Neutron and Berth name them. Placement has no names of holders; those are servers or " +
				"migrations of compute.",
			Statuses: []int{200}, Answer: placement.Devices{}},
		{Service: "placement", Method: "GET", Path: "/berth/v1/hosts/{host}",
			Rule: "placement:resource_providers:allocations:list", Summary: "One host with its devices.",
			Statuses: []int{200}, Answer: placement.Host{}},
		{Service: "placement", Method: "GET", Path: "/berth/v1/hosts/{host}/devices/{address}",
			Rule:     "placement:resource_providers:allocations:list",
			Summary:  "One device of a host: a row for each of its resource classes.",
			Statuses: []int{200}, Answer: placement.Devices{}},
		{Service: "placement", Method: "GET", Path: "/berth/v1/headroom", Rule: "placement:allocation_candidates:list",
			Summary: "How many more servers with a request fit, by host and aggregate, and what runs out first. The query is " +
				"that of GET /allocation_candidates at the newest microversion, as for /berth/v1/explain. Hosts with the trait " +
				"COMPUTE_STATUS_DISABLED are not counted; the program names further ones, such as those that are down.",
			Query: append(candidateQuery(), Parameter{Name: placement.KeyExclude, Text: "name of a host that is not counted",
				Repeated: true}),
			Statuses: []int{200}, Answer: placement.Headroom{}},
		{Service: "placement", Method: "GET", Path: "/berth/v1/usage-history", Rule: "placement:resource_providers:usages",
			Summary: "How much there was of each resource class and was used over time, for a month, in steps of minutes. A " +
				"step has the minute in which most was used. It is null if no Placement recorded a minute of it.",
			Query: []Parameter{{Name: "class", Text: "a resource class; without it all", Repeated: true},
				{Name: "aggregate", Text: "UUID of an aggregate of root providers; without it all providers"},
				{Name: "from", Text: "a time such as 2026-11-27T12:00:00Z; by default a day before to"},
				{Name: "to", Text: "the end, without its minute; now by default"},
				{Name: "step", Text: "minutes; by default the smallest that gives at most 1500 steps"}},
			Statuses: []int{200}, Answer: placement.UsageHistory{}},
		watch("placement", "placement:resource_providers:list", "providers, inventories and allocations",
			Parameter{Name: "class", Text: "resource classes"}),
	}
}

// watch returns the stream of events of a service. further are parameters that not all services have.
func watch(service, rule, what string, further ...Parameter) Operation {
	return Operation{Service: service, Method: "GET", Path: "/berth/v1/events", Rule: rule,
		Summary: "The changes of " + what + ", also those that other processes make in the database. docs/events.md " +
			"describes the events, the parameters and how to continue.",
		Query: append([]Parameter{{Name: "kind", Text: "kinds of objects, separated by commas"},
			{Name: "id", Text: "ids of objects"}, {Name: "host", Text: "names of hosts"},
			{Name: "project", Text: "ids of projects"},
			{Name: "state", Text: "true: the present state of everything comes first"},
			{Name: "follow", Text: "false: the stream ends with `synced` when everything until now was sent"}},
			further...),
		Statuses: []int{200}, Stream: "text/event-stream"}
}

func operatorOperations() []Operation {
	device := "/berth/v1/hosts/{host}/devices/{address}"
	return []Operation{
		{Service: "compute", Method: "GET", Path: "/berth/v1/hosts", Rule: "berth:hosts:list", Statuses: []int{200},
			Summary: "The hosts, as their agents have reported them.", Answer: hosts{}},
		{Service: "compute", Method: "GET", Path: "/berth/v1/devices", Rule: "berth:devices:list", Statuses: []int{200},
			Summary: "The devices of all hosts, with their holders.", Answer: devices{}},
		{Service: "compute", Method: "GET", Path: "/berth/v1/headroom", Rule: "berth:headroom:show", Statuses: []int{200},
			Summary: "How many more servers of a flavor fit.", Answer: host.Headroom{},
			Query: []Parameter{{Name: "flavor", Text: "id of the flavor", Required: true},
				{Name: "port", Text: "a port of each server, as `berth headroom --port` writes it", Repeated: true}}},
		{Service: "compute", Method: "GET", Path: "/berth/v1/hosts/{host}", Rule: "berth:hosts:list",
			Summary: "One host, as its agent has reported it.", Statuses: []int{200}, Answer: host.Report{}},
		{Service: "compute", Method: "GET", Path: device, Rule: "berth:devices:list",
			Summary: "One device of a host, with its holder.", Statuses: []int{200}, Answer: host.Device{}},
		{Service: "compute", Method: "DELETE", Path: "/berth/v1/hosts/{host}", Rule: "berth:hosts:forget",
			Summary: "Remove a host that will never return.", Statuses: []int{200}, Answer: host.Forgotten{}},
		{Service: "compute", Method: "PUT", Path: "/berth/v1/hosts/{host}/account", Rule: "berth:hosts:bind",
			Summary: "Bind a host to the account of its agent.", Body: host.Account{}, Statuses: []int{204}},
		{Service: "compute", Method: "DELETE", Path: "/berth/v1/hosts/{host}/account", Rule: "berth:hosts:unbind",
			Summary: "Let the next account that reports a host have it.", Statuses: []int{204}},
		{Service: "compute", Method: "GET", Path: "/berth/v1/hosts/{host}/allocations", Rule: "berth:hosts:audit",
			Summary:  "How Placement differs from compute's records of a host.",
			Statuses: []int{200}, Answer: host.Allocations{}},
		{Service: "compute", Method: "POST", Path: "/berth/v1/hosts/{host}/allocations", Rule: "berth:hosts:heal",
			Summary: "Add to Placement what it lacks of the servers on a host.",
			Body:    host.Heal{}, Statuses: []int{200}, Answer: host.Allocations{}},
		{Service: "compute", Method: "GET", Path: "/berth/v1/hosts/{host}/drain", Rule: "berth:hosts:drain:plan",
			Summary: "Where the servers of a host would move if it were drained now.", Statuses: []int{200}, Answer: moves{},
			Query: []Parameter{{Name: "device", Text: "the PCI address of a device: only its holders move"},
				{Name: "server", Text: "the id of a server: only it moves"}}},
		{Service: "compute", Method: "PUT", Path: "/berth/v1/hosts/{host}/down", Rule: "berth:hosts:down",
			Summary: "Declare a host permanently dead.", Statuses: []int{204}},
		{Service: "compute", Method: "DELETE", Path: "/berth/v1/hosts/{host}/down", Rule: "berth:hosts:up",
			Summary: "Reverse that a host was declared dead.", Statuses: []int{204}},
		{Service: "compute", Method: "POST", Path: device + "/clean", Rule: "berth:devices:clean",
			Summary: "Clean a device for one-time use that a server has used.", Statuses: []int{202}},
		{Service: "compute", Method: "PUT", Path: device + "/disabled", Rule: "berth:devices:disable",
			Summary: "Take a device, or all VFs of a PF, out of service.",
			Body:    host.DisableDevice{}, Statuses: []int{202}, Answer: host.DisabledDevice{}},
		{Service: "compute", Method: "DELETE", Path: device + "/disabled", Rule: "berth:devices:enable",
			Summary: "Put a device back into service.", Statuses: []int{202}},
		{Service: "compute", Method: "POST", Path: "/berth/v1/ports/heal", Rule: "berth:ports:heal",
			Summary: "Show or write what bound ports and the allocations of their servers lack.",
			Body:    host.HealPorts{}, Statuses: []int{200}, Answer: host.HealedPorts{}},
		{Service: "compute", Method: "GET", Path: "/berth/v1/differences", Rule: "berth:differences:list",
			Summary:  "What the last periodic audit of the cloud has found on hosts; valid_seconds is 0 without one.",
			Statuses: []int{200}, Answer: host.FoundDifferences{}},
		{Service: "compute", Method: "PUT", Path: "/berth/v1/differences", Rule: "berth:differences:report",
			Summary: "What a periodic audit has found on hosts becomes their condition.",
			Body:    host.FoundDifferences{}, Statuses: []int{204}},
		watch("compute", "berth:events:watch", "servers, hosts and devices",
			Parameter{Name: "class", Text: "resource classes of devices"}),
	}
}

func serverOperations() []Operation {
	return []Operation{
		{Service: "compute", Method: "GET", Path: "/berth/v1/servers/{id}/why",
			Who:      "The rule berth:servers:why, for the project of the server.",
			Summary:  "Where a server is and why: its request, its decisions and its moves.",
			Statuses: []int{200}, Answer: why{}},
		{Service: "compute", Method: "POST", Path: "/berth/v1/servers/{id}/console",
			Who:      "The rule of consoles, for the project of the server.",
			Summary:  "Open the serial console of a guest: a stream of what it prints, one JSON object a line.",
			Statuses: []int{200}, Answer: compute.ConsoleLine{}, Stream: "application/x-ndjson"},
		{Service: "compute", Method: "POST", Path: "/berth/v1/servers/{id}/console/{session}",
			Who:     "The user who has opened the session.",
			Summary: "Type into a serial console.", Body: compute.ConsoleLine{}, Statuses: []int{204}},
		{Service: "compute", Method: "PUT", Path: "/berth/v1/servers/{id}/guarantees/{change}",
			Rule: "berth:servers:guarantees", Summary: "The network service counts what a change of policies gives to ports.",
			Body: compute.Guarantees{}, Statuses: []int{204}},
	}
}

// agentOperations are the contract between compute and agents, which package api/host describes.
func agentOperations() []Operation {
	at := "/berth/v1/hosts/{host}"
	return []Operation{
		{Service: "compute", Method: "PUT", Path: at, Rule: "berth:hosts:report",
			Summary: "An agent reports its host.", Body: host.Report{}, Statuses: []int{204}},
		{Service: "compute", Method: "PUT", Path: at + "/alive", Rule: "berth:hosts:report",
			Summary: "A sign of life of an agent.", Body: host.Alive{}, Statuses: []int{204}},
		{Service: "compute", Method: "GET", Path: at + "/assignments", Rule: "berth:hosts:assignments",
			Summary: "A stream of the assignments of a host, one JSON object a line.",
			Query: []Parameter{{Name: "instance", Text: "UUID of the agent", Required: true},
				{Name: "start", Text: "of its process"}, {Name: "previous", Text: "earlier instances", Repeated: true},
				{Name: "lock_id", Text: "of its directory"}, {Name: "since", Text: "number of the last line"},
				{Name: "epoch", Text: "of compute's database, as the last line has it"},
				{Name: "epoch_id", Text: "the same"}, {Name: "changes", Text: "1: lines have only what has changed"}},
			Statuses: []int{200}, Answer: host.Assignments{}, Stream: "application/x-ndjson"},
		{Service: "compute", Method: "PUT", Path: at + "/guests/{server}", Rule: "berth:guests:report",
			Summary: "An agent reports the guest of a server.", Body: host.Guest{}, Statuses: []int{204}},
		{Service: "compute", Method: "GET", Path: at + "/guests/{server}", Rule: "berth:hosts:assignments",
			Summary: "What the guest of a server reads at its first boot.", Statuses: []int{200}, Answer: host.FirstBoot{}},
		{Service: "compute", Method: "PUT", Path: at + "/consoles/{id}", Rule: "berth:guests:report",
			Summary: "The answer of an agent to a request for the output of a console or for diagnostics.",
			Body:    host.ConsoleOutput{}, Statuses: []int{204}},
		{Service: "compute", Method: "GET", Path: at + "/consoles/{id}/input", Rule: "berth:guests:report",
			Summary: "A stream of what users type into a console.", Statuses: []int{200},
			Answer: host.ConsoleData{}, Stream: "application/x-ndjson"},
		{Service: "compute", Method: "POST", Path: at + "/consoles/{id}/output", Rule: "berth:guests:report",
			Summary: "What a guest has printed.", Body: host.ConsoleData{}, Statuses: []int{204}},
	}
}

func networkOperations() []Operation {
	at := "/berth/v1/hosts/{host}"
	return []Operation{
		{Service: "network", Method: "PUT", Path: "/berth/v1/network-agents/{host}/{type}",
			Rule:    "berth:network_agents:report",
			Summary: "An agent reports what its host has for ports.", Body: network.AgentReport{}, Statuses: []int{204}},
		{Service: "network", Method: "GET", Path: at + "/ports", Rule: "berth:host_ports:read", Statuses: []int{200},
			Summary: "The ports of a host that have changed, for its data plane.", Answer: network.HostPorts{},
			Query: []Parameter{{Name: "since", Text: "the revision of an earlier answer"}}},
		{Service: "network", Method: "GET", Path: at + "/networks", Rule: "berth:host_ports:read", Statuses: []int{200},
			Summary: "The networks that a host connects by its own bridges.", Answer: network.HostNetworks{}},
		{Service: "network", Method: "PUT", Path: at + "/account", Rule: "berth:network_hosts:bind",
			Summary: "Bind a host to the account of its agent.", Body: network.HostAccount{}, Statuses: []int{204}},
		{Service: "network", Method: "GET", Path: "/berth/v1/ports/{id}/packet-decision",
			Who:     "Who may read the port.",
			Summary: "Whether the security groups of a port let the first packet of a connection pass, and by which rule.",
			Query: []Parameter{{Name: "from", Text: "the address that the packet comes from, or:"},
				{Name: "to", Text: "the address that it goes to"}, {Name: "protocol", Text: "name or number", Required: true},
				{Name: "port", Text: "the destination port"}, {Name: "source_port", Text: "the source port"},
				{Name: "type", Text: "of ICMP"}, {Name: "code", Text: "of ICMP"},
				{Name: "address", Text: "which address of the port is used"}},
			Statuses: []int{200}, Answer: network.PacketDecision{}},
		watch("network", "berth:network_events:watch", "networks and ports"),
	}
}

func imageOperations() []Operation {
	return []Operation{{Service: "image", Method: "GET", Path: "/berth/v1/images/{id}/upload",
		Who:     "Who may upload the data of the image.",
		Summary: "How much of an interrupted upload was received.", Statuses: []int{200}, Answer: upload{}}}
}

// Differences compares the operations of a service with its routes: the rule by method and path, such as
// `GET /berth/v1/hosts`. It returns a sentence for each difference.
func Differences(service string, routes map[string]string) (list []string) {
	left := maps.Clone(routes)
	for _, o := range Operations() {
		if o.Service != service {
			continue
		}
		name := o.Method + " " + o.Path
		rule, found := left[name]
		delete(left, name)
		switch {
		case !found:
			list = append(list, "internal/openapi describes "+name+", and "+service+" has no such route")
		case rule != o.Rule:
			list = append(list, fmt.Sprintf("internal/openapi says that %s has the rule %q; it is %q", name, o.Rule, rule))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		list = append(list, "internal/openapi does not describe "+name+" of "+service)
	}
	return list
}
