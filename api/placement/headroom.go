package placement

import (
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/resource"
)

// Headroom is the answer of GET /berth/v1/headroom of Berth's Placement.
type Headroom struct {
	host.Headroom
	Shared     bool                `json:"shared,omitempty"` // hosts share storage, so their numbers depend on each other
	Aggregates []AggregateHeadroom `json:"aggregates"`       // of the hosts; most room first
}

// AggregateHeadroom is how many more servers fit on the hosts of an aggregate. A host in two counts in both.
type AggregateHeadroom struct {
	Aggregate resource.AggregateID `json:"aggregate"`
	Fits      int                  `json:"fits"`
	Room      int                  `json:"hosts_with_room"`
}
