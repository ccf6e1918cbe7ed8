package scheduler

import (
	"context"
	"strings"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// PortChoices returns the candidates for the request of a port within the provider tree of the server's host, or why
// there is none. If the port needs a device, the host has a free one for each of them.
func (c Scheduler) PortChoices(ctx context.Context, s lifecycle.Server, ask resource.Ask, devices []pci.Request) (
	choices []schedule.Choice, refusal string, err error) {
	host, err := c.store.Host(ctx, s.Host)
	if err != nil {
		return nil, "", err
	}
	got, err := c.placement.Candidates(placement.ForProject(ctx, s.Project), ask.InTree(host.Provider))
	if err != nil {
		if known, changed := portrequest.WithoutUnknown(ask, unknownTraits(fault.TextOf(err))); changed {
			return c.PortChoices(ctx, s, known, devices)
		}
		if names := unknownNames.FindStringSubmatch(fault.TextOf(err)); names != nil && placement.Refused(err) {
			return nil, whyUnknown(names[1]), nil
		}
		if placement.Refused(err) {
			return nil, "Placement returns no candidates: " + fault.TextOf(err), nil
		}
		return nil, "", err
	}
	if len(got.List) == 0 {
		return nil, strings.TrimSuffix(got.Reason, "."), nil
	}
	if len(devices) == 0 {
		for _, c := range got.List {
			choices = append(choices, schedule.Choice{Allocation: c.Allocation, Mappings: c.Mappings})
		}
		return choices, "", nil
	}
	input, err := c.Input(ctx, got)
	if err != nil {
		return nil, "", err
	}
	input.Placed = s.Cells
	choices, refusals := schedule.Choose(input, devices, seed(s))
	return choices, schedule.Summarise(refusals), nil
}
