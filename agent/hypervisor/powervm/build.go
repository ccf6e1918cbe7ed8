package powervm

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/agent/powervm/uom"
	"github.com/openberth/berth/fault"
)

// Build creates the partition of a guest with all its slots, or starts, stops or rebuilds an existing one. A slot that
// is missing or belongs to another partition is a Conflict before anything is sent, so that another host is tried
// (R49, C28).
func (h *Hypervisor) Build(ctx context.Context, g hypervisor.Guest) error {
	const op = "powervm.Build"
	if err := ctx.Err(); err != nil {
		return fault.Wrap(fault.Unavailable, op, err)
	}
	if err := checkID(op, g.ID); err != nil {
		return err
	}
	g.Devices = slices.SortedFunc(slices.Values(g.Devices), func(a, b hypervisor.Device) int { return a.ID.Compare(b.ID) })
	r, existed, err := h.reserve(g)
	if err != nil {
		return err
	}
	if err := h.realize(ctx, r, g); err != nil {
		if !existed && !fault.Is(err, fault.Unavailable) { // else the next attempt continues, or Destroy removes it
			err = h.undo(ctx, r, err)
		}
		return err
	}
	r.guest, r.Complete = g, true
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.write(r)
}

// reserve returns the record of a guest. For a new guest it writes one, which reserves the slots in this driver.
func (h *Hypervisor) reserve(g hypervisor.Guest) (r record, existed bool, err error) {
	const op = "powervm.Build"
	h.mu.Lock()
	defer h.mu.Unlock()
	records, err := h.read()
	if err != nil {
		return r, false, err
	}
	for _, other := range records {
		if other.guest.ID == g.ID {
			if !slices.Equal(ids(other.guest), ids(g)) && other.Complete {
				return r, false, fault.New(fault.Conflict, op, "the guest %s has other devices: %v, not %v", g.ID,
					ids(other.guest), ids(g))
			}
			continue
		}
		for _, id := range ids(g) {
			if slices.Contains(ids(other.guest), id) {
				return r, false, fault.New(fault.Conflict, op, "device %s is held by the guest %s", id, other.guest.ID)
			}
		}
	}
	if r, existed = find(records, g.ID); existed && r.Complete {
		return r, true, nil
	}
	if !existed {
		r = record{Partition: freeUUID(g, records)}
	}
	r.guest = g
	return r, false, h.write(r)
}

// freeUUID returns the UUID of a new partition: that of the server, or while another guest of the server has it, the
// one of the guest's id.
func freeUUID(g hypervisor.Guest, records []record) string {
	server := g.ID
	if g.Server != "" {
		server = g.Server
	}
	uuid := ioslot.PartitionUUID(server)
	for n := 1; slices.ContainsFunc(records, func(r record) bool { return r.Partition == uuid }); n++ {
		uuid = ioslot.PartitionUUID(server)[:23] + fmt.Sprintf("-%012X", n)
	}
	return uuid
}

// undo removes what a failed build has left, so that the slots are free. why is the fault of the build.
func (h *Hypervisor) undo(ctx context.Context, r record, why error) error {
	if err := h.Destroy(context.WithoutCancel(ctx), r.guest.ID); err != nil {
		return fault.New(fault.Unavailable, "powervm.Build", "%s; and what was built cannot be removed: %s",
			fault.TextOf(why), fault.TextOf(err))
	}
	return why
}

// realize makes the partition be as the guest requires. It changes no slots of a partition that runs for its user.
func (h *Hypervisor) realize(ctx context.Context, r record, g hypervisor.Guest) error {
	partitions, err := h.partitions(ctx)
	if err != nil {
		return err
	}
	p, exists := partitions[r.Partition]
	rebuild := exists && r.Complete && r.guest.Build != g.Build
	wrong := exists && !hasSlots(p, g)
	if wrong && isRunning(p) && r.Complete && !rebuild && !g.Stopped {
		return fault.New(fault.Conflict, "powervm.Build", "the partition of the guest %s runs with other I/O slots than %v, "+
			"perhaps because another client changed them; stop and start the server", g.ID, ids(g))
	}
	if rebuild || wrong {
		if err := h.setPower(ctx, p, true); err != nil {
			return err
		}
		p.State = "not activated"
	}
	if !exists || rebuild || wrong {
		r.guest = g
		if err := h.assign(ctx, r, exists); err != nil {
			return err
		}
		p = uom.Partition{UUID: r.Partition, State: "not activated"}
	}
	return h.setPower(ctx, p, g.Stopped)
}

// assign creates the partition with its slots, or gives them to an existing one, which must be powered off. Servers
// from before 2017 ignore the slots in the request that creates a partition; then it changes the new partition. It ends
// with a Conflict when the partition lacks a slot after all.
func (h *Hypervisor) assign(ctx context.Context, r record, exists bool) error {
	system, slots, err := h.slots(ctx, r)
	if err != nil {
		return err
	}
	if !exists {
		object, err := h.api.Create(ctx, "/uom/ManagedSystem/"+system.UUID+"/LogicalPartition",
			partition(r, slots, h.options.SlotsRequired))
		if err != nil {
			return err
		}
		if made, err := uom.Bare[uom.Partition](object.Bytes(), "LogicalPartition"); err == nil && hasSlots(made, r.guest) {
			return nil
		}
	}
	if err := h.api.Update(ctx, partitionPath(r.Partition), func(object *uom.Element) error {
		setSlots(object, slots, h.options.SlotsRequired)
		return nil
	}); err != nil {
		return err
	}
	partitions, err := h.partitions(ctx)
	if err == nil && !hasSlots(partitions[r.Partition], r.guest) {
		return fault.New(fault.Conflict, "powervm.Build", "the server did not give the I/O slots %v to the partition of the "+
			"guest %s; update NovaLink", ids(r.guest), r.guest.ID)
	}
	return err
}

// hasSlots reports whether a partition has exactly the slots of a guest.
func hasSlots(p uom.Partition, g hypervisor.Guest) bool {
	have, want := map[string]bool{}, map[string]bool{}
	for _, text := range p.SlotIndices() {
		have[strings.TrimSpace(text)] = true
	}
	for _, d := range g.Devices {
		want[strconv.FormatUint(uint64(d.ID.Address().DRC), 10)] = true
	}
	for index := range want {
		if !have[index] {
			return false
		}
	}
	return len(have) == len(want)
}

// partition returns the object of a new partition. Its elements have the order of the server's schema.
func partition(r record, slots []ioslot.Slot, required bool) *uom.Element {
	g := r.guest
	text := func(name string, n int) *uom.Element { return uom.NewText(name, strconv.Itoa(n)) }
	metadata := func() *uom.Element { return uom.NewElement("Metadata", uom.NewElement("Atom")) }
	io := uom.NewElement("PartitionIOConfiguration", metadata(), uom.NewText("MaximumVirtualIOSlots", "64"),
		uom.ProfileSlots(ioslot.Profile(slots), required)).With("schemaVersion", "V1_0")
	memory := uom.NewElement("PartitionMemoryConfiguration", metadata(), text("DesiredMemory", g.MemoryMB),
		text("MaximumMemory", g.MemoryMB), text("MinimumMemory", g.MemoryMB)).With("schemaVersion", "V1_0")
	// Each virtual processor is entitled to a tenth of a processor, as far as the guest has no more.
	units := fmt.Sprintf("%.2f", 0.1*float64(g.VCPUs))
	shared := uom.NewElement("SharedProcessorConfiguration", metadata(), uom.NewText("DesiredProcessingUnits", units),
		text("DesiredVirtualProcessors", g.VCPUs), uom.NewText("MaximumProcessingUnits", units),
		text("MaximumVirtualProcessors", g.VCPUs), uom.NewText("MinimumProcessingUnits", units),
		text("MinimumVirtualProcessors", g.VCPUs)).With("schemaVersion", "V1_0")
	processors := uom.NewElement("PartitionProcessorConfiguration", metadata(),
		uom.NewText("HasDedicatedProcessors", "false"), shared,
		uom.NewText("SharingMode", "uncapped")).With("schemaVersion", "V1_0")
	return uom.NewElement("LogicalPartition",
		uom.NewElement("Metadata", uom.NewElement("Atom", uom.NewText("AtomID", r.Partition))),
		io, memory, uom.NewText("PartitionName", partitionName(r)), processors, uom.NewText("PartitionType", "AIX/Linux"),
		uom.NewText("PartitionUUID", r.Partition),
		uom.NewText("SimplifiedRemoteRestartCapable", strconv.FormatBool(len(slots) == 0)).With("ksv", "V1_2_0"),
	).With("schemaVersion", "V1_0")
}

// setSlots replaces the slots of a partition's object by the full list (C22).
func setSlots(object *uom.Element, slots []ioslot.Slot, required bool) {
	io := object.Child("PartitionIOConfiguration")
	if io == nil {
		return
	}
	list := uom.ProfileSlots(ioslot.Profile(slots), required)
	at := slices.IndexFunc(io.Children, func(e *uom.Element) bool { return e.Name.Local == "ProfileIOSlots" })
	if at >= 0 {
		io.Children[at] = list
		return
	}
	after := slices.IndexFunc(io.Children, func(e *uom.Element) bool { return e.Name.Local == "MaximumVirtualIOSlots" })
	io.Children = slices.Insert(io.Children, after+1, list)
}

// partitionName returns a name that the server accepts, unique on it: the guest's, and the end of the UUID.
func partitionName(r record) string {
	const longest = 31 - 1 - 12
	name := strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '-' || c == '_' || c == '.' {
			return c
		}
		return '_'
	}, r.guest.Name)
	return name[:min(len(name), longest)] + "-" + r.Partition[len(r.Partition)-12:]
}

func ids(g hypervisor.Guest) []device.ID {
	var out []device.ID
	for _, d := range g.Devices {
		out = append(out, d.ID)
	}
	return out
}
