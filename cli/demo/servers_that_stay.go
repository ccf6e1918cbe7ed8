package demo

import (
	"context"
	"fmt"
	"io"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/pci"
)

// tooManyFlavor requests one device more than the host has.
const tooManyFlavor = "with-too-many"

// stayingServers hold up to a third of the devices.
var stayingServers = []string{"web", "db", "build", "cache"}

// LeaveServers creates servers after the tour, so that a cloud that stays has something to show: some that hold one
// device each, and greedy, which is refused. It prints them. devices are those of the host.
func LeaveServers(ctx context.Context, out io.Writer, c Cloud, devices []pci.Device) error {
	t := &tour{Cloud: c, ctx: ctx, out: out}
	one, err := t.Compute.Flavor(ctx, flavorName)
	if err != nil {
		return err
	}
	many, err := t.Compute.CreateFlavor(ctx, compute.CreateFlavor{Name: tooManyFlavor, VCPUs: 1, RAM: 64})
	if err != nil {
		return err
	}
	offered := len(Offered(devices))
	specs := map[string]string{"pci_passthrough:alias": fmt.Sprintf("%s:%d", Alias, offered+1)}
	if err := t.Compute.SetExtraSpecs(ctx, many.ID, specs); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nServers that stay:\n\n")
	for _, name := range stayingServers[:max(1, min(len(stayingServers), offered/3))] {
		if err := t.leave(name, one.ID, "ACTIVE"); err != nil {
			return err
		}
	}
	return t.leave("greedy", many.ID, "ERROR")
}

// leave creates a server, and waits until it has the status.
func (t *tour) leave(name, flavor, status string) error {
	made, err := t.Compute.CreateServer(t.ctx, compute.CreateServer{Name: name, Flavor: flavor})
	if err != nil {
		return err
	}
	done, err := t.settled(made.ID)
	if err != nil {
		return err
	}
	if done.Status != status {
		return fail("%s should be %s, but is %s: %s", name, status, done.Status, faultText(done))
	}
	if done.Fault != nil {
		t.say("%s is %s: %s", name, status, faultText(done))
	} else {
		t.say("%s is %s and holds a device", name, status)
	}
	return nil
}
