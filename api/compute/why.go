package compute

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Why is what was decided about a server: what it asks for, what was chosen, and what happened on the way. Deleted
// servers have one too, as long as they are remembered. Users who are not admin are not told of hosts, providers, devices and the trail.
type Why struct {
	ID             string             `json:"id"`
	Name           string             `json:"name"`
	Status         string             `json:"status"` // as the Compute API shows it
	State          string             `json:"state"`  // Berth's own, finer: scheduling, claiming, assigned, active, …
	Host           string             `json:"host,omitempty"`
	Flavor         string             `json:"flavor"`           // its name
	Image          *WhyImage          `json:"image,omitempty"`  // what it was made from
	Constraints    []WhyConstraint    `json:"constraints"`      // what flavor and image say of where it may lie, and which of them
	Query          string             `json:"query"`            // the question, as the query of Placement's GET /allocation_candidates
	Groups         []WhyGroup         `json:"request_groups"`   // the same question, read
	Requests       []WhyRequest       `json:"pci_requests"`     // what the flavor's aliases became
	Rounds         int                `json:"rounds"`           // how often candidates were asked for
	Tries          int                `json:"claims"`           // how many claims were begun
	Choice         *WhyChoice         `json:"choice,omitempty"` // what is being claimed, or is held
	Others         int                `json:"other_choices"`    // how many more stood, for when the first is lost
	Excluded       map[string]string  `json:"excluded_hosts"`   // hosts that are not tried again, and why
	Devices        []WhyDevice        `json:"devices"`          // what the agent picked
	Task           string             `json:"task,omitempty"`   // task_state
	Move           *WhyMove           `json:"move,omitempty"`   // the move that it is on
	Leftovers      []WhyResidence     `json:"left_behind"`      // what it still holds elsewhere, until the agents there say that it is gone
	FilterFailures []WhyFilterFailure `json:"falls"`            // why candidates of the last round were turned down
	Fault          string             `json:"fault,omitempty"`
	Details        string             `json:"fault_details,omitempty"` // more sentences
	History        []WhyHistoryEntry  `json:"trail"`                   // oldest first
}

// WhyImage is the image that a server was made from, as it was then.
type WhyImage struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`       // empty: Berth has not looked for the image
	Properties map[string]string `json:"properties"` // those that have a say in where the server may lie
}

// WhyWord is one word that places a server.
type WhyConstraint struct {
	Key     string   `json:"key"`   // as a flavor has it, such as hw:numa_nodes
	Value   string   `json:"value"` // what holds
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
	Alias     string   `json:"alias"`
	Count     int      `json:"count"`
	Policy    string   `json:"numa_policy,omitempty"`
	Providers []string `json:"providers"` // chosen, one for each device; empty before a claim holds
}

// WhyChoice is a candidate that stood.
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

// WhyMove is a move on its way.
type WhyMove struct {
	Kind      string       `json:"kind"` // resize, migration, live-migration, evacuation
	Migration string       `json:"migration"`
	Source    WhyResidence `json:"source"`
}

// WhyStay is what one consumer holds on one host.
type WhyResidence struct {
	Consumer string   `json:"consumer"` // in Placement
	Host     string   `json:"host"`
	Devices  []string `json:"devices"` // addresses
}

// WhyFall is why candidates fell at one step.
type WhyFilterFailure struct {
	Filter  string   `json:"step"`
	Reason  string   `json:"reason"`
	Count   int      `json:"hosts"`       // how many hosts
	Hosts   []string `json:"first_hosts"` // some of them
	Nearest string   `json:"nearest_miss,omitempty"`
}

// WhyMark is one line of the trail.
type WhyHistoryEntry struct {
	At    time.Time `json:"at"` // of the last time
	Text  string    `json:"text"`
	Times int       `json:"times"` // how often in a row
}

// Why reads what was decided about a server, by id.
func (c *Client) Why(ctx context.Context, id string) (Why, error) {
	var out struct {
		Why Why `json:"why"`
	}
	_, err := c.REST.Do(ctx, http.MethodGet, "/berth/v1/servers/"+url.PathEscape(id)+"/why", nil, &out)
	return out.Why, err
}
