package host

import (
	"context"
	"net/http"
	"time"
)

// FoundDifferences are the differences between services that a periodic audit of the cloud has found on hosts. They
// replace those of the last report; compute keeps them in memory and shows them as conditions of the hosts.
type FoundDifferences struct {
	ValidSeconds float64                   `json:"valid_seconds"` // how long they are shown without another report
	Hosts        map[string]HostDifference `json:"hosts"`         // by name; a host without differences is left out
}

// HostDifference is what was found on one host.
type HostDifference struct {
	Count int      `json:"count"`
	First []string `json:"first"` // a clause for each of the first ones
}

// Limits of a report.
const (
	MaxDifferenceHosts = 1000
	MaxDifferences     = 3   // clauses for one host
	MaxDifferenceText  = 250 // bytes of a clause
	MaxDifferenceTime  = 7 * 24 * time.Hour
)

// PutDifferences reports the differences of a periodic audit.
func (c Client) PutDifferences(ctx context.Context, found FoundDifferences) error {
	_, err := c.REST.Do(ctx, http.MethodPut, "/berth/v1/differences", found, nil)
	return err
}
