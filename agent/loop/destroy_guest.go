package loop

import (
	"context"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// DestroyGuest destroys a guest that compute's assignments do not mention. Its devices are freed at the agent's next
// start. With force, the guest is destroyed even if it is assigned or compute does not answer. Faults: NotFound when
// there is no such guest; Conflict when compute assigns it to this host, or the agent runs.
func (a *Agent) DestroyGuest(ctx context.Context, id string, force bool) error {
	const op = "loop.DestroyGuest"
	j, err := journal.Open(a.o.Dir)
	if err != nil {
		return err
	}
	defer j.Close()
	guests, err := a.o.Hypervisor.Guests(ctx)
	if err != nil {
		return fault.Wrap("", "hypervisor.Guests", err)
	}
	var names []string
	for _, g := range guests {
		names = append(names, g.ID)
	}
	if !slices.Contains(names, id) {
		return fault.New(fault.NotFound, op, "host %s has no guest %s; its guests are: %s", a.o.Host, id,
			strings.Join(names, ", "))
	}
	if !force {
		line, err := a.firstAssignments(ctx)
		if err != nil {
			return fault.New(fault.KindOf(err), op,
				"cannot ask compute whether it assigns the guest to this host: %w; --force destroys it all the same", err)
		}
		if slices.ContainsFunc(line.Servers, func(s host.Server) bool { return s.ID == id || s.PreviousID == id }) {
			return fault.New(fault.Conflict, op,
				"compute assigns guest %s to this host; delete or move the server, or use --force", id)
		}
	}
	if err := a.o.Hypervisor.Destroy(ctx, id); err != nil {
		return fault.Wrap("", "hypervisor.Destroy", err)
	}
	return j.Write(journal.Gone(id))
}
