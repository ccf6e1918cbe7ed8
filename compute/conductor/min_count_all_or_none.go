package conductor

import (
	"fmt"
	"slices"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// reservationChars is the length of the prefix that the ids of all servers of one request share: the first 48 bits of
// the UUID.
const reservationChars = 13

// reservationPrefix returns the prefix that the ids of all servers of the request of a server share.
func reservationPrefix(id string) string { return id[:min(len(id), reservationChars)] }

// decideMinCount counts the servers of a request that have an allocation. Once there are min_count of them, all of them
// continue; if fewer can get one, all of them fail. It returns fault.Unavailable while neither is certain.
func decideMinCount(s lifecycle.Server, request []lifecycle.Server) (lifecycle.Event, error) {
	placed, trying := 0, 0
	for _, other := range request {
		switch other.State {
		case lifecycle.Preparing, lifecycle.Scheduling, lifecycle.Claiming, lifecycle.Rescheduling:
			trying++
		case lifecycle.AwaitingMinCount:
			placed++
		}
	}
	switch {
	case placed >= s.MinCount || slices.ContainsFunc(request, func(o lifecycle.Server) bool { return o.MinCountReached }):
		return lifecycle.MinCountReached{}, nil
	case placed+trying < s.MinCount:
		return lifecycle.MinCountFailed{Reason: fmt.Sprintf(
			"the request needs at least %d servers, and there is room for %d", s.MinCount, placed+trying)}, nil
	}
	return nil, fault.New(fault.Unavailable, "conductor.checkMinCount",
		"%d of the %d servers that the request needs have room; %d more are being scheduled", placed, s.MinCount, trying)
}
