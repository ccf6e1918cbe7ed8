package placement

import (
	"context"
	"net/http"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// Headroom is the answer of GET /berth/v1/headroom of Berth's Placement.
type Headroom struct {
	host.Headroom
	Shared     bool                `json:"shared,omitempty"` // hosts share storage, so their numbers depend on each other
	Aggregates []AggregateHeadroom `json:"aggregates"`       // of the hosts; most room first
	// NoRoom names the other hosts: they would have no room without their servers either.
	NoRoom []string `json:"no_room"`
}

// AggregateHeadroom is how many more servers fit on the hosts of an aggregate. A host in two counts in both.
type AggregateHeadroom struct {
	Aggregate resource.AggregateID `json:"aggregate"`
	Fits      int                  `json:"fits"`
	Room      int                  `json:"hosts_with_room"`
}

// Headroom counts how many more servers with an ask fit on the hosts that are not excluded. Another Placement than
// Berth's answers with fault.NotFound.
func (c *Client) Headroom(ctx context.Context, ask resource.Ask, excluded []string) (out Headroom, err error) {
	query := AskQuery(ask)
	query.Del(keyLimit)
	if len(excluded) > 0 {
		query[KeyExclude] = excluded
	}
	_, err = c.REST.Do(ctx, http.MethodGet, "/berth/v1/headroom?"+query.Encode(), nil, &out)
	return out, fault.Wrap("", err)
}

// KeyExclude is the parameter of GET /berth/v1/headroom with the name of a host that is not counted.
const KeyExclude = "exclude"
