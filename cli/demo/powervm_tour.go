package demo

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// PowerVM is what the tour of a PowerVM host shows beside the cloud.
type PowerVM struct {
	Slots     string // the slots of the system, as paragraphs of an inventory file
	Inventory string // the content of the inventory file: it offers two GPUs as SlotClass
	// Owners returns the name of the partition that has each I/O slot, by DRC index.
	Owners func() map[string]string
}

// SlotClass is the resource class of the slots in the tour.
const SlotClass = "CUSTOM_GPU"

// RunPowerVM runs the tour of a PowerVM host with two GPUs and prints it to out.
func RunPowerVM(ctx context.Context, out io.Writer, c Cloud, p PowerVM) error {
	t := &slotTour{tour: &tour{Cloud: c, ctx: ctx, out: out}, PowerVM: p}
	t.title("The management REST API reports the I/O slots; `berth agent ioslots` lists them as the inventory file " +
		"has them.")
	t.say("%s", p.Slots)
	t.title("The operator's inventory file says which slots guests may have.")
	t.say("%s", p.Inventory)
	for _, step := range []func() error{t.providers, t.two, t.third, t.live, t.resize, t.remove} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// slotTour is one run of the tour.
type slotTour struct {
	*tour
	PowerVM
	flavor  string // with a GPU
	servers []string
}

// providers prints the provider tree: one provider for each offered slot.
func (t *slotTour) providers() error {
	t.title("The agent reports one provider for each offered slot (used/capacity, traits).")
	tree, used, err := t.wholeTree()
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := tree.Print(&b, used); err != nil {
		return err
	}
	t.say("%s", b.String())
	if n := len(slotProviders(tree)); n != 2 {
		return fail("two slots should have providers, but %d have", n)
	}
	return nil
}

func slotProviders(tree provider.Tree) (list []provider.Provider) {
	for _, p := range tree.Providers {
		if p.Inventories[SlotClass].Total == 1 {
			list = append(list, p)
		}
	}
	return list
}

// createFlavor creates a flavor with extra specs and returns its id.
func (t *slotTour) createFlavor(name string, specs map[string]string) (string, error) {
	f, err := t.Compute.CreateFlavor(t.ctx, compute.CreateFlavor{Name: name, VCPUs: 1, RAM: 1024})
	if err == nil && len(specs) > 0 {
		err = t.Compute.SetExtraSpecs(t.ctx, f.ID, specs)
	}
	return f.ID, err
}

// create creates a server and returns it when it is ACTIVE or ERROR.
func (t *slotTour) create(name, flavor string) (compute.Server, error) {
	made, err := t.Compute.CreateServer(t.ctx, compute.CreateServer{Name: name, Flavor: flavor})
	if err != nil {
		return compute.Server{}, err
	}
	s, err := t.settled(made.ID)
	if err == nil {
		t.servers = append(t.servers, s.ID)
	}
	return s, err
}

// two creates two servers with a GPU each.
func (t *slotTour) two() (err error) {
	t.title("A flavor requests a GPU with plain groups; two servers are created.")
	specs := map[string]string{"resources1:" + SlotClass: "1", "trait1:CUSTOM_POWERVM_IOSLOT_VENDOR_ID_10DE": "required"}
	t.say("flavor with-a-gpu: resources1:%s=1, trait1:CUSTOM_POWERVM_IOSLOT_VENDOR_ID_10DE=required", SlotClass)
	if t.flavor, err = t.createFlavor("with-a-gpu", specs); err != nil {
		return err
	}
	for _, name := range []string{"first", "second"} {
		s, err := t.create(name, t.flavor)
		if err != nil {
			return err
		}
		if s.Status != "ACTIVE" {
			return fail("%s should be ACTIVE, but is %s: %s", name, s.Status, faultText(s))
		}
		t.say("%s is ACTIVE", name)
	}
	owners := t.Owners()
	for _, slot := range sortedSlots(owners) {
		t.say("slot %s belongs to the partition %s", slot, owners[slot])
	}
	if len(owners) != 2 {
		return fail("two slots should belong to partitions, but %d do", len(owners))
	}
	return nil
}

func sortedSlots(owners map[string]string) []string {
	return slices.Sorted(maps.Keys(owners))
}

// third creates a server for which no GPU is left.
func (t *slotTour) third() error {
	t.title("A third server is rejected, with the reason.")
	s, err := t.create("third", t.flavor)
	if err != nil {
		return err
	}
	t.say("third is %s: %s", s.Status, faultText(s))
	if s.Status != "ERROR" || !strings.Contains(faultText(s), SlotClass) {
		return fail("third should be in ERROR because of %s", SlotClass)
	}
	return nil
}

// live requests a live migration, which is refused before anything happens.
func (t *slotTour) live() error {
	t.title("A live migration with a slot is refused, and nothing has happened.")
	err := t.Compute.Act(t.ctx, t.servers[0], "os-migrateLive", map[string]any{"host": nil, "block_migration": "auto"})
	if err == nil {
		return fail("the live migration should be refused")
	}
	t.say("%s", fault.TextOf(err))
	s, err := t.Compute.Server(t.ctx, t.servers[0])
	if err == nil && s.Status != "ACTIVE" {
		err = fail("the server should be ACTIVE, but is %s", s.Status)
	}
	return err
}

// resize deletes the first server, and resizes one without a GPU to the flavor with one.
func (t *slotTour) resize() error {
	t.title("The first server is deleted, and another one is resized from no GPU to one.")
	if err := t.deleteServer(t.servers[0]); err != nil {
		return err
	}
	plain, err := t.createFlavor("without-a-gpu", nil)
	if err != nil {
		return err
	}
	s, err := t.create("fourth", plain)
	if err != nil {
		return err
	}
	before := len(t.Owners())
	for _, action := range []struct {
		name, status string
		args         map[string]any
	}{{"resize", "VERIFY_RESIZE", map[string]any{"flavorRef": t.flavor}}, {"confirmResize", "ACTIVE", nil}} {
		if err := t.Compute.Act(t.ctx, s.ID, action.name, action.args); err != nil {
			return err
		}
		err := t.until("fourth to be "+action.status, func() (bool, error) {
			s, err := t.Compute.Server(t.ctx, s.ID)
			return err == nil && s.Status == action.status && s.TaskState == nil, err
		})
		if err != nil {
			return err
		}
	}
	t.say("fourth had no slot; now %d slots belong to partitions instead of %d", len(t.Owners()), before)
	if after := len(t.Owners()); after != before+1 {
		return fail("%d slots should belong to partitions, but %d do", before+1, after)
	}
	return nil
}

// deleteServer deletes a server and waits until it is gone.
func (t *slotTour) deleteServer(id string) error {
	if err := t.Compute.DeleteServer(t.ctx, id); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return t.until("server "+id+" to be gone", func() (bool, error) {
		_, err := t.Compute.Server(t.ctx, id)
		if fault.Is(err, fault.NotFound) {
			return true, nil
		}
		return false, err
	})
}

// remove deletes all servers; the slots and the usages are free again.
func (t *slotTour) remove() error {
	t.title("The servers are deleted.")
	for _, id := range t.servers {
		if err := t.deleteServer(id); err != nil {
			return err
		}
	}
	err := t.until("every slot to be free", func() (bool, error) { return len(t.Owners()) == 0, nil })
	if err != nil {
		return err
	}
	_, used, err := t.wholeTree()
	if err != nil {
		return err
	}
	all := 0
	for _, amounts := range used {
		for _, n := range amounts {
			all += n
		}
	}
	t.say("%s", fmt.Sprintf("No slot belongs to a partition, and the usages in Placement are %d.", all))
	if all != 0 {
		return fail("usages should be zero, but %d units are in use", all)
	}
	return nil
}
