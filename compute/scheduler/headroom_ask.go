package scheduler

import (
	"context"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// HostHeadroom is how many more servers fit on a host.
type HostHeadroom struct {
	Root     provider.ID // of the host's tree
	Name     string
	Fits     int              // how many servers
	Exact    bool             // no more servers fit in the cloud; false: the search ended before it was certain
	Lacks    []resource.Class // sorted; what runs out first
	Excluded string           // why the scheduler would choose the host for no server now; then nothing fits
	Refused  string           // why a filter refuses one more server than fits; empty: Lacks
}

// allCandidates returns all candidates. Alternatives that Placement does not have are left out; a class or trait that
// it does not have is the reason why there are none.
func (c Scheduler) allCandidates(ctx context.Context, ask resource.Ask) (got placement.Candidates, err error) {
	for {
		got, err = c.placement.Candidates(ctx, ask)
		if !fault.Is(err, fault.Invalid) {
			return got, err
		}
		next, changed := portrequest.WithoutUnknown(ask, unknownTraits(fault.TextOf(err)))
		if !changed {
			reason := fault.TextOf(err)
			if names := unknownNames.FindStringSubmatch(reason); names != nil {
				reason = whyUnknown(names[1])
			}
			return placement.Candidates{Reason: reason}, nil
		}
		ask = next
	}
}
