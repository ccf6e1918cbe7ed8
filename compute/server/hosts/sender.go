package hosts

import (
	"errors"
	"strconv"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/presence"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// maxText is the maximum length of instance, start and lock_id, in bytes.
const maxText = 128

// readSender checks the sender of a report or of a request for a stream. It returns fault.Invalid if instance or start
// is missing.
func readSender(from host.Sender) (schedule.Sender, error) {
	for _, f := range []struct {
		name, text string
		may        bool // be empty
	}{{"instance", from.Instance, false}, {"start", from.Start, false}, {"lock_id", from.LockID, true}} {
		if f.text == "" && !f.may || len(f.text) > maxText {
			return schedule.Sender{}, fault.New(fault.Invalid, "%s must be that of the agent, of 1 to %d bytes; it is %q",
				f.name, maxText, edge.Clip(f.text))
		}
	}
	if len(from.Previous) > host.MaxPrevious {
		return schedule.Sender{}, fault.New(fault.Invalid, "previous has %d starts; at most %d are accepted",
			len(from.Previous), host.MaxPrevious)
	}
	return schedule.Sender(from), nil
}

// occupied sets Retry-After if the agent may be admitted later. It returns err.
func occupied(c *request.Call, err error) error {
	if o, is := errors.AsType[*presence.Occupied](err); is && o.Wait > 0 {
		c.W.Header().Set("Retry-After", strconv.Itoa(int(o.Wait.Seconds())+1))
	}
	return err
}
