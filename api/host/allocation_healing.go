package host

import (
	"context"
	"net/http"
	"time"

	"github.com/openberth/berth/condition"
)

// Allocations is how Placement differs from compute's records of a host. Lists are never null.
type Allocations struct {
	Host    string    `json:"host"`
	Missing []Missing `json:"missing"` // what Placement lacks of servers that are placed on the host
	Foreign []Foreign `json:"foreign"` // consumers with allocations on the host that are not placed there

	Conditions []condition.Condition `json:"conditions"` // the conditions of the host that follow from both
}

// Missing is a consumer whose allocation in Placement is smaller than compute's claim.
type Missing struct {
	Server   string                    `json:"server"` // UUID
	Name     string                    `json:"name"`
	Consumer string                    `json:"consumer"` // the server's UUID, or that of its migration
	Lacks    map[string]map[string]int `json:"lacks"`    // by provider and resource class
	// Why Heal does not write it; empty: it does, if there is room
	Refused string `json:"refused,omitempty"`
	Outcome string `json:"outcome,omitempty"` // with Heal: what was done, or why nothing was done
	Healed  bool   `json:"healed,omitempty"`  // with Heal: it was written
}

// Foreign is a consumer that has an allocation on a host in Placement and is not placed there.
type Foreign struct {
	Consumer string                    `json:"consumer"`
	Holds    map[string]map[string]int `json:"holds"`          // by provider and resource class
	Why      string                    `json:"why"`            // what compute's records have of it
	Unknown  bool                      `json:"unknown"`        // compute has no server and no migration with this id
	Since    time.Time                 `json:"since,omitzero"` // when compute first found it
	// Why Heal does not remove it; empty: it does, if it is named
	Kept    string `json:"kept,omitempty"`
	Outcome string `json:"outcome,omitempty"` // with Heal: what was done, or why nothing was done
	Removed bool   `json:"removed,omitempty"` // with Heal: it was removed
	Undo    string `json:"undo,omitempty"`    // with Heal: the command that writes what was removed
}

// Heal is a request to add to Placement what it lacks of the servers on a host, and to remove what named consumers have
// there.
type Heal struct {
	Oversubscribe bool     `json:"oversubscribe"`    // also if the use then exceeds the capacity
	Remove        []string `json:"remove,omitempty"` // foreign consumers whose allocations on the host are removed
}

// Allocations compares compute's records of a host with Placement now. It returns NotFound if no agent has reported for
// the host.
func (c Client) Allocations(ctx context.Context, host string) (out Allocations, err error) {
	_, err = c.REST.Do(ctx, http.MethodGet, path(host, "allocations"), nil, &out)
	return out, err
}

// Heal adds to Placement what it lacks of the servers on a host, and returns the outcome for each consumer.
func (c Client) Heal(ctx context.Context, host string, h Heal) (out Allocations, err error) {
	_, err = c.REST.Do(ctx, http.MethodPost, path(host, "allocations"), h, &out)
	return out, err
}
