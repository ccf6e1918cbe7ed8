package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// PlannedMove is the move that would take a server off its host now.
type PlannedMove struct {
	Server, Name string
	Action       lifecycle.Action // Live or Migrate; empty: the server cannot be moved
	To           string           // the host that would be tried first; empty: the server cannot be moved
	Reason       string           // why it cannot be moved or why not live, or what its guest loses
	Note         string           // what the move does besides: which ports it creates
}

// PlanDrain returns for each server on a host where it would move if the host were drained now; only for those that
// only selects, if it is not nil. It changes nothing. It runs the scheduler of a real move; each move has the room that
// the moves before it leave. It returns fault.NotFound if no agent has reported for the host.
func (c Scheduler) PlanDrain(ctx context.Context, host string, only func(lifecycle.Server) bool) (
	[]PlannedMove, error) {
	if _, err := c.store.Host(ctx, host); err != nil {
		return nil, err
	}
	servers, err := c.store.OnHost(ctx, host)
	if err != nil {
		return nil, err
	}
	ctx, stop, err := c.options.Leased(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	room := &roomAfterMoves{Placement: c.placement, taken: resource.Allocation{}}
	c.placement, c.moving = room, map[string][]schedule.Guest{}
	plan := []PlannedMove{}
	for _, s := range servers {
		if only != nil && !only(s) {
			continue
		}
		move, err := c.planMove(ctx, room, s, host)
		if err != nil {
			return nil, err
		}
		plan = append(plan, move)
	}
	slices.SortStableFunc(plan, func(a, b PlannedMove) int { return strings.Compare(a.Name, b.Name) })
	return plan, nil
}

// HasDevice reports whether a server has one of these devices on a host.
func HasDevice(s lifecycle.Server, host string, devices []pci.Address) bool {
	for _, residence := range s.Residences() {
		for _, d := range residence.Devices {
			at, err := pci.ParseAddress(d.Address)
			if err == nil && residence.Host == host && slices.Contains(devices, at) {
				return true
			}
		}
	}
	return false
}

// planMove plans the move of one server.
func (c Scheduler) planMove(ctx context.Context, room *roomAfterMoves, s lifecycle.Server, host string) (
	PlannedMove, error) {
	move := PlannedMove{Server: s.ID, Name: s.Name}
	move.Action, move.Reason = drainAction(s, host)
	if move.Action == "" {
		return move, nil
	}
	request := lifecycle.ActionRequested{ID: c.options.NewID(), Action: move.Action}
	moving, _ := lifecycle.Next(s, request, c.options.Now())
	ports, refusal, err := c.ReadPorts(ctx, moving)
	if err != nil {
		return move, err
	}
	var event lifecycle.Event = lifecycle.Refused{Step: lifecycle.Schedule, Reason: refusal}
	if refusal == "" {
		event, err = c.choose(ctx, moving, ports)
		if fault.CodeOf(err) == placement.CodeUndecided {
			event, err = lifecycle.Refused{Step: lifecycle.Schedule, Reason: fault.TextOf(err)}, nil
		}
		if err != nil {
			return move, err
		}
	}
	switch e := event.(type) {
	case lifecycle.Chosen:
		move.To = e.Choices[0].Host
		c.moving[move.To] = append(c.moving[move.To], guestOf(moving, e.Choices[0]))
		move.Note = plannedPorts(ports.Planned)
		room.take(e.Choices[0].Allocation)
		return move, nil
	case lifecycle.NoValidHost:
		move.Reason = e.Reason
	case lifecycle.Refused:
		move.Reason = e.Reason
	}
	move.Action = ""
	return move, nil
}

// plannedPorts returns the note of a move that creates ports on these networks.
func plannedPorts(networks []string) string {
	var notes []string
	for _, network := range networks {
		notes = append(notes, "a port will be created on network "+network)
	}
	return strings.Join(notes, "; ")
}

// drainAction returns the action that moves a server off a host: Live if the Compute API would accept it, with what the
// guest loses meanwhile; else Migrate, with the reason why it is not Live. The action is empty if the server cannot be
// moved now.
func drainAction(s lifecycle.Server, host string) (lifecycle.Action, string) {
	if s.Host != host || s.Move != nil {
		reason := "its move is not finished; wait for it, or confirm or revert it"
		if s.Move == nil {
			reason = "its deletion, or the removal of an earlier guest, is not finished; the host's agent must report it"
		}
		return "", reason
	}
	refusal := s.Refuse(lifecycle.Live, false)
	if refusal == "" {
		if refusal = WhyNotLive(s); refusal == "" {
			return lifecycle.Live, lostDuringLive(s)
		}
	}
	if cold := s.Refuse(lifecycle.Migrate, false); cold != "" {
		return "", cold
	}
	return lifecycle.Migrate, refusal
}

// WhyNotLive returns why the devices of a server prevent a live migration; empty: they do not.
func WhyNotLive(s lifecycle.Server) string {
	for _, r := range s.Requests {
		if r.Port == nil && !r.LiveMigratable() {
			return fmt.Sprintf("Cannot '%s' instance %s: its devices of alias %s are not explicitly requested as "+
				"live-migratable", lifecycle.Live, s.ID, r.Alias)
		}
	}
	var slots []string
	for _, d := range s.Devices {
		if at, err := pci.ParseAddress(d.Address); err == nil && at.IsIOSlot() {
			slots = append(slots, d.Address)
		}
	}
	if len(slots) > 0 {
		return fmt.Sprintf("Cannot '%s' instance %s: it has the physical I/O slots %s, and PowerVM does not live-migrate a "+
			"partition with such slots; migrate it cold", lifecycle.Live, s.ID, strings.Join(slots, ", "))
	}
	return ""
}

// lostDuringLive returns what the guest of a server is without for a moment of its live migration; empty: nothing. The
// migration gives the ports of the server other devices.
func lostDuringLive(s lifecycle.Server) string {
	var ports []string
	for _, r := range s.Requests {
		if r.Port != nil {
			ports = append(ports, r.Port.ID)
		}
	}
	if len(ports) == 0 {
		return ""
	}
	return "the guest is without the devices of its ports " + strings.Join(ports, ", ") + " for a moment; where its " +
		"hypervisor refuses that, it can only be migrated cold"
}
