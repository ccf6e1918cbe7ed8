package host

import (
	"context"
	"net/http"
)

// Allocations says how what Placement has of a host differs from compute's records. Lists are never null.
type Allocations struct {
	Host       string    `json:"host"`
	Missing    []Missing `json:"missing"`    // what Placement lacks of servers that are placed on the host
	Foreign    []Foreign `json:"foreign"`    // who has something of the host in Placement without being placed there
	Conditions []string  `json:"conditions"` // the same as conditions of the host, in sentences
}

// Missing is a consumer that has less in Placement than compute has claimed for it.
type Missing struct {
	Server   string                    `json:"server"` // UUID
	Name     string                    `json:"name"`
	Consumer string                    `json:"consumer"`          // the server's UUID, or that of its migration
	Lacks    map[string]map[string]int `json:"lacks"`             // by provider and resource class
	Outcome  string                    `json:"outcome,omitempty"` // with Heal: what was done, or why nothing was
	Healed   bool                      `json:"healed,omitempty"`  // with Heal: it was written
}

// Foreign is a consumer that has something of a host without being placed there.
type Foreign struct {
	Consumer string                    `json:"consumer"`
	Holds    map[string]map[string]int `json:"holds"` // by provider and resource class
	Why      string                    `json:"why"`   // what compute knows of it
}

// Heal asks compute to write to Placement what it lacks of the servers on a host.
type Heal struct {
	Oversubscribe bool `json:"oversubscribe"` // also where the host then has given more than it has
}

// Allocations compares compute's records of a host with Placement now. NotFound: no agent has reported for the host.
func (c Client) Allocations(ctx context.Context, host string) (out Allocations, err error) {
	_, err = c.REST.Do(ctx, http.MethodGet, path(host, "allocations"), nil, &out)
	return out, err
}

// Heal writes to Placement what it lacks of the servers on a host, and returns what was done for each.
func (c Client) Heal(ctx context.Context, host string, h Heal) (out Allocations, err error) {
	_, err = c.REST.Do(ctx, http.MethodPost, path(host, "allocations"), h, &out)
	return out, err
}
