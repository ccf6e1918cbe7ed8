package compute

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/openberth/berth/condition"
)

// Why is the scheduling record of a server: its request, the choice, and its history. Deleted servers have one too,
// until their records are purged. For users who are not admins it has no hosts, providers, devices and history.
type Why struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Status      string            `json:"status"` // as the Compute API shows it
	State       string            `json:"state"`  // Berth's own, more detailed, such as scheduling, claiming, active
	Host        string            `json:"host,omitempty"`
	Flavor      string            `json:"flavor"`                // its name
	Image       *WhyImage         `json:"image,omitempty"`       // of its source
	Constraints []WhyConstraint   `json:"constraints"`           // placement constraints of flavor and image
	Query       string            `json:"query"`                 // of Placement's GET /allocation_candidates
	Groups      []WhyGroup        `json:"request_groups"`        // the request groups of the query
	Requests    []WhyRequest      `json:"pci_requests"`          // from the flavor's aliases
	Rounds      int               `json:"rounds"`                // how often candidates were requested
	Tries       int               `json:"claims"`                // how many claims were started
	Choice      *WhyChoice        `json:"choice,omitempty"`      // the candidate that is being claimed or is allocated
	Others      int               `json:"other_choices"`         // number of alternatives, if the claim fails
	Excluded    map[string]string `json:"excluded_hosts"`        // hosts that are not tried again, with the reason
	Devices     []WhyDevice       `json:"devices"`               // selected by the agent
	Task        string            `json:"task,omitempty"`        // task_state
	PortChange  string            `json:"port_change,omitempty"` // attaching or detaching: the change in progress
	// While the server changes: of its host, such as downloads
	HostConditions []condition.Condition `json:"host_conditions"`
	Move           *WhyMove              `json:"move,omitempty"` // the move in progress
	// On other hosts, until the agents report the guests gone
	Leftovers      []WhyResidence     `json:"left_behind"`
	FilterFailures []WhyFilterFailure `json:"falls"` // of the last round
	Search         *WhySearch         `json:"search,omitempty"`
	Fault          string             `json:"fault,omitempty"`
	Details        string             `json:"fault_details,omitempty"` // additional sentences
	History        []WhyHistoryEntry  `json:"trail"`                   // oldest first
}

// WhyImage is the image that a server was made from, as it was then.
type WhyImage struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`       // empty: the image was not read
	Properties map[string]string `json:"properties"` // those that affect the placement of the server
}

// WhyConstraint is one constraint on the placement of a server.
type WhyConstraint struct {
	Key     string   `json:"key"`   // the extra spec, such as hw:numa_nodes
	Value   string   `json:"value"` // the effective value
	Sources []string `json:"from"`  // "extra spec hw:numa_nodes", "image property hw_numa_nodes"
}

// WhyGroup is one request group.
type WhyGroup struct {
	Suffix    string         `json:"suffix"` // "" for the unsuffixed one
	Resources map[string]int `json:"resources"`
	Required  []string       `json:"required_traits"` // each a trait, or "in:A,B" for one of several
	Forbidden []string       `json:"forbidden_traits"`
}

// WhyRequest is one PCI request.
type WhyRequest struct {
	ID        string   `json:"request_id"`
	Alias     string   `json:"alias"`          // empty: the request is of a port
	Port      string   `json:"port,omitempty"` // UUID
	Count     int      `json:"count"`
	Policy    string   `json:"numa_policy,omitempty"`
	Providers []string `json:"providers"` // chosen, one for each device; empty before the claim
}

// Name returns the alias or the port of the request, for messages.
func (r WhyRequest) Name() string {
	if r.Port != "" {
		return "port " + r.Port
	}
	return "alias " + r.Alias
}

// WhyChoice is a candidate that passed the filters.
type WhyChoice struct {
	Host       string                    `json:"host"`
	Root       string                    `json:"root_provider"`
	Allocation map[string]map[string]int `json:"allocation"` // provider → class → amount
	Mappings   map[string][]string       `json:"mappings"`   // suffix → providers
}

// WhyDevice is a device that the agent gave to the server.
type WhyDevice struct {
	RequestID string `json:"request_id"`
	Address   string `json:"address"`
	Provider  string `json:"provider,omitempty"`
}

// WhyMove is a move in progress.
type WhyMove struct {
	Kind      string       `json:"kind"` // resize, migration, live-migration, evacuation
	Migration string       `json:"migration"`
	Source    WhyResidence `json:"source"`
}

// WhyResidence are the allocations of one consumer on one host.
type WhyResidence struct {
	Consumer string   `json:"consumer"` // in Placement
	Host     string   `json:"host"`
	Devices  []string `json:"devices"` // addresses
}

// WhyFilterFailure is the reason why one filter refused candidates.
type WhyFilterFailure struct {
	Filter  string   `json:"step"`
	Reason  string   `json:"reason"`
	Count   int      `json:"hosts"`       // how many hosts
	Hosts   []string `json:"first_hosts"` // some of them
	Nearest string   `json:"nearest_miss,omitempty"`
}

// WhySearch is how the last search for a host ended, as recorded with the decision. The first row of the funnel is the
// hosts that it began with. Without candidates the clauses are those of the request to Placement; else those of
// compute's filters.
type WhySearch struct {
	At      time.Time      `json:"at"`
	Funnel  []WhyFunnelRow `json:"funnel"`
	Nearest []WhyMiss      `json:"nearest"` // the hosts that lack the least, at most 3
}

// WhyFunnelRow is one clause, and the number of hosts left after it.
type WhyFunnelRow struct {
	Clause  string   `json:"clause"`
	Left    int      `json:"left"`
	Removed []string `json:"removed_hosts,omitempty"` // names of hosts that the clause removed, at most 20
}

// WhyMiss is a host that lacks little.
type WhyMiss struct {
	Host     string       `json:"host"`
	Deficits []WhyDeficit `json:"deficits"`
}

// WhyDeficit is what a host lacks. Cause is that of Placement's explanation (held, reserved, absent, …), or the name
// of the filter, which has no numbers.
type WhyDeficit struct {
	Class string `json:"resource_class,omitempty"`
	Cause string `json:"cause"`
	Asks  int    `json:"asks,omitempty"`
	Free  int    `json:"free,omitempty"`
	Of    int    `json:"of,omitempty"`
	Text  string `json:"text"` // the deficit as a sentence
}

// WhyHistoryEntry is one line of the history.
type WhyHistoryEntry struct {
	At    time.Time `json:"at"` // time of the last occurrence
	Text  string    `json:"text"`
	Times int       `json:"times"` // number of consecutive occurrences
}

// Why returns the scheduling record of a server, by id.
func (c *Client) Why(ctx context.Context, id string) (Why, error) {
	var out struct {
		Why Why `json:"why"`
	}
	_, err := c.REST.Do(ctx, http.MethodGet, "/berth/v1/servers/"+url.PathEscape(id)+"/why", nil, &out)
	return out.Why, err
}
