package conductor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// reservationChars is the length of the prefix that the ids of all servers of one request share: the first 48 bits of
// the UUID.
const reservationChars = 13

// reservationPrefix returns the prefix that the ids of all servers of the request of a server share.
func reservationPrefix(id string) string { return id[:min(len(id), reservationChars)] }

// decideMinCount counts the servers of a request that have an allocation. Once there are min_count of them, all of them
// continue; if fewer can get one, all of them fail. It returns fault.Unavailable while neither is certain: the servers
// with an allocation keep it until each of the others has been scheduled, because only then the room is known. All
// servers of a request report the same room.
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
	room, decided := reportedRoom(s.MinCount, request)
	switch {
	case decided:
		return lifecycle.MinCountFailed{Reason: roomText(s.MinCount) + strconv.Itoa(room)}, nil
	case placed >= s.MinCount || slices.ContainsFunc(request, func(o lifecycle.Server) bool { return o.MinCountReached }):
		return lifecycle.MinCountReached{}, nil
	case placed < s.MinCount && trying == 0:
		return lifecycle.MinCountFailed{Reason: roomText(s.MinCount) + strconv.Itoa(placed)}, nil
	}
	return nil, fault.New(fault.Unavailable,
		"%d of the %d servers that the request needs have room; %d more are being scheduled", placed, s.MinCount, trying)
}

// roomText returns the reason of lifecycle.MinCountFailed without the number at its end.
func roomText(minCount int) string {
	return fmt.Sprintf("the request needs at least %d servers, and there is room for ", minCount)
}

// reportedRoom returns the room that the first server of a request has reported which failed for its min_count. Servers
// that fail later cannot count it: the first has left the state in which it counts.
func reportedRoom(minCount int, request []lifecycle.Server) (room int, reported bool) {
	for _, other := range request {
		if other.Fault == nil {
			continue
		}
		_, rest, found := strings.Cut(other.Fault.Message, roomText(minCount))
		if digits := len(rest) - len(strings.TrimLeft(rest, "0123456789")); found && digits > 0 {
			room, err := strconv.Atoi(rest[:digits])
			return room, err == nil
		}
	}
	return 0, false
}
