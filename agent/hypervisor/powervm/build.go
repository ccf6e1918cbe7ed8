package powervm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
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
	if err := ctx.Err(); err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	if err := checkID(g.ID); err != nil {
		return err
	}
	if g.Hardware != (hypervisor.Hardware{}) && g.Hardware != (hypervisor.Hardware{Video: "none"}) {
		return fault.New(fault.Conflict, "the image of the guest %s chooses a machine type, a disk bus, a model of "+
			"network interfaces, a video device, a guest agent, UEFI or secure boot, which partitions lack; remove its "+
			"properties hw_…", g.ID)
	}
	if g.Hold != (hypervisor.Hold{}) {
		return fault.New(fault.Conflict, "PowerVM can neither pause nor suspend the partition of the guest %s; stop it", g.ID)
	}
	if g.Rescue != "" {
		return fault.New(fault.Conflict, "PowerVM cannot boot the partition of the guest %s from a rescue image", g.ID)
	}
	g.Devices = slices.SortedFunc(slices.Values(g.Devices), func(a, b hypervisor.Device) int { return a.ID.Compare(b.ID) })
	r, err := h.reserve(g)
	if err != nil {
		return err
	}
	if err := h.realize(ctx, &r, g); err != nil {
		if !r.Complete && !fault.Is(err, fault.Unavailable) { // else the next attempt continues, or Destroy removes it
			err = h.undo(ctx, r, err)
		}
		return err
	}
	r.Guest, r.Complete = g, true
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.write(r)
}

// reserve returns the record of a guest. For a new guest it writes one, which reserves the slots in this driver.
func (h *Hypervisor) reserve(g hypervisor.Guest) (r record, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	records, err := h.read()
	if err != nil {
		return r, err
	}
	if err := h.checkRecord(g.ID); err != nil {
		return r, err
	}
	for _, other := range records {
		if other.Guest.ID == g.ID {
			if !slices.Equal(ids(other.Guest), ids(g)) && other.Complete {
				return r, fault.New(fault.Conflict, "the guest %s has other devices: %v, not %v", g.ID,
					ids(other.Guest), ids(g))
			}
			continue
		}
		for _, id := range ids(g) {
			if slices.Contains(ids(other.Guest), id) {
				return r, fault.New(fault.Conflict, "device %s is held by the guest %s", id, other.Guest.ID)
			}
		}
	}
	r, existed := find(records, g.ID)
	if existed && r.Complete {
		return r, nil
	}
	if !existed && g.Kept {
		return r, fault.New(fault.NotFound, "the guest %s was built here, and its record in %s is missing, so it "+
			"is not built as a new one", g.ID, h.options.Dir)
	}
	if !existed {
		r = record{Name: freeName(g, records)}
		if err := h.abandoned.checkRemoval(r.Name); err != nil {
			return r, err
		}
	}
	r.Guest = g
	return r, h.write(r)
}

// freeName returns the name of a new partition, which the server accepts: the guest's, and the last digits of the
// UUID of its server. While another guest of the server has this name, the digits are others.
func freeName(g hypervisor.Guest, records []record) string {
	const longest = 31 - 1 - markDigits
	name := strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '-' || c == '_' || c == '.' {
			return c
		}
		return '_'
	}, g.Name)
	name = name[:min(len(name), longest)] + "-"
	server := ioslot.PartitionUUID(serverOf(g))
	mark := server[max(0, len(server)-markDigits):]
	for n := 1; slices.ContainsFunc(records, func(r record) bool { return strings.HasSuffix(r.Name, "-"+mark) }); n++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", server, n))
		mark = fmt.Sprintf("%X", sum[:markDigits/2])
	}
	return name + mark
}

// requestedUUID returns the UUID that a new partition should have: that of the server, with the mark of the name. The
// server may choose another one.
func (r record) requestedUUID() string {
	server := ioslot.PartitionUUID(serverOf(r.Guest))
	return server[:max(0, len(server)-markDigits)] + r.Name[len(r.Name)-markDigits:]
}

// undo removes what a failed build has left, so that the slots are free. why is the fault of the build.
func (h *Hypervisor) undo(ctx context.Context, r record, why error) error {
	ctx = context.WithoutCancel(ctx)
	err := error(nil)
	if r.Partition == "" && !r.Requested { // nothing was requested of the server
		h.mu.Lock()
		err = h.remove(r.Guest.ID)
		h.mu.Unlock()
	} else {
		err = h.Destroy(ctx, r.Guest.ID)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "%s; and what was built cannot be removed: %s",
			fault.TextOf(why), fault.TextOf(err))
	}
	return why
}

// realize makes the partition be as the guest requires. It changes no slots of a partition that runs for its user. The
// record gets the UUID of the partition.
func (h *Hypervisor) realize(ctx context.Context, r *record, g hypervisor.Guest) error {
	v, err := h.look(ctx, []record{*r})
	if err != nil {
		return err
	}
	p, exists, err := h.partitionOf(ctx, v, *r)
	if err != nil {
		return err
	}
	if exists {
		if err := h.adopt(r, v, p); err != nil {
			return err
		}
	} else {
		r.Partition = "" // deleted by another client, or not yet created
	}
	rebuild := exists && r.Complete && r.Guest.Build != g.Build
	wrong := exists && !hasSlots(p, g)
	if wrong && isRunning(p) && r.Complete && !rebuild && !g.Stopped {
		return fault.New(fault.Conflict, "the partition of the guest %s runs with other I/O slots than %v, "+
			"perhaps because another client changed them; stop and start the server", g.ID, ids(g))
	}
	if rebuild || wrong {
		if err := h.setPower(ctx, p, true); err != nil {
			return err
		}
		p.State = "not activated"
	}
	if !exists || rebuild || wrong {
		r.Guest = g
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
func (h *Hypervisor) assign(ctx context.Context, r *record, exists bool) error {
	system, slots, err := h.slots(ctx, *r)
	if err != nil {
		return err
	}
	if !exists {
		made, err := h.create(ctx, r, system, slots)
		if err != nil || hasSlots(made, r.Guest) {
			return err
		}
	}
	if err := h.api.Update(ctx, partitionPath(r.Partition), func(object *uom.Element) error {
		setSlots(object, slots, h.options.SlotsRequired)
		return nil
	}); err != nil {
		return err
	}
	p, err := h.api.Partition(ctx, r.Partition)
	if err == nil && !hasSlots(p, r.Guest) {
		return fault.New(fault.Conflict, "the server did not give the I/O slots %v to the partition of the "+
			"guest %s; update NovaLink", ids(r.Guest), r.Guest.ID)
	}
	return err
}

// create creates a partition and stores its UUID, which the server chooses, in the record before anything else is done
// with it. The record says that the request was sent until the server has answered: it may be executed later.
func (h *Hypervisor) create(ctx context.Context, r *record, system uom.ManagedSystem, slots []ioslot.Slot) (
	made uom.Partition, err error) {
	if err := checkRoom(system, r.Guest); err != nil {
		return made, err
	}
	earlier := r.Requested
	r.System, r.Requested = system.UUID, true
	if err := h.store(*r); err != nil {
		return made, err
	}
	object, err := h.api.Create(ctx, "/uom/ManagedSystem/"+system.UUID+"/LogicalPartition",
		partition(*r, roundedMB(system, r.Guest.MemoryMB), slots, h.options.SlotsRequired))
	switch {
	case fault.Is(err, fault.Conflict): // an earlier request was executed; the next attempt finds the partition
		return made, fault.Wrap(fault.Unavailable, err)
	case err != nil:
		r.Requested = earlier || !refused(err)
		return made, err
	}
	made, err = uom.Bare[uom.Partition](object.Bytes(), "LogicalPartition")
	uuid := strings.ToUpper(strings.TrimSpace(cmp.Or(made.UUID, made.AtomID)))
	if err != nil || uuid == "" {
		return made, fault.New(fault.Unavailable, "the answer to the creation of partition %s has no "+
			"UUID; the partition is looked for by its name", r.Name)
	}
	r.Partition, r.Requested = uuid, false
	return made, h.store(*r)
}

// refused reports whether the server has refused a request, so that it has no effect.
func refused(err error) bool {
	return fault.Is(err, fault.Invalid) || fault.Is(err, fault.Forbidden) || fault.Is(err, fault.NotFound)
}

// store writes a record.
func (h *Hypervisor) store(r record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.write(r)
}

// hasSlots reports whether a partition has exactly the slots of a guest.
func hasSlots(p uom.Partition, g hypervisor.Guest) bool {
	return maps.Equal(slotsOf(p), wantedSlots(g))
}

// slotsOf returns the slots of a partition.
func slotsOf(p uom.Partition) map[ioslot.Index]bool {
	out := map[ioslot.Index]bool{}
	for _, text := range p.SlotIndices() {
		n, _ := strconv.ParseUint(strings.TrimSpace(text), 10, 32) // other text is slot 0, which does not exist
		out[ioslot.Index(n)] = true
	}
	return out
}

// wantedSlots returns the slots of a guest.
func wantedSlots(g hypervisor.Guest) map[ioslot.Index]bool {
	out := map[ioslot.Index]bool{}
	for _, d := range g.Devices {
		out[ioslot.Index(d.ID.Address().DRC)] = true
	}
	return out
}

// partition returns the object of a new partition. Its elements have the order of the server's schema.
func partition(r record, memoryMB int, slots []ioslot.Slot, required bool) *uom.Element {
	g, uuid := r.Guest, r.requestedUUID()
	text := func(name string, n int) *uom.Element { return uom.NewText(name, strconv.Itoa(n)) }
	metadata := func() *uom.Element { return uom.NewElement("Metadata", uom.NewElement("Atom")) }
	io := uom.NewElement("PartitionIOConfiguration", metadata(), uom.NewText("MaximumVirtualIOSlots", "64"),
		uom.ProfileSlots(ioslot.Profile(slots), required)).With("schemaVersion", "V1_0")
	memory := uom.NewElement("PartitionMemoryConfiguration", metadata(), text("DesiredMemory", memoryMB),
		text("MaximumMemory", memoryMB), text("MinimumMemory", memoryMB)).With("schemaVersion", "V1_0")
	units := fmt.Sprintf("%.2f", unitsPerVCPU*float64(g.VCPUs))
	shared := uom.NewElement("SharedProcessorConfiguration", metadata(), uom.NewText("DesiredProcessingUnits", units),
		text("DesiredVirtualProcessors", g.VCPUs), uom.NewText("MaximumProcessingUnits", units),
		text("MaximumVirtualProcessors", g.VCPUs), uom.NewText("MinimumProcessingUnits", units),
		text("MinimumVirtualProcessors", g.VCPUs)).With("schemaVersion", "V1_0")
	processors := uom.NewElement("PartitionProcessorConfiguration", metadata(),
		uom.NewText("HasDedicatedProcessors", "false"), shared,
		uom.NewText("SharingMode", "uncapped")).With("schemaVersion", "V1_0")
	return uom.NewElement("LogicalPartition",
		uom.NewElement("Metadata", uom.NewElement("Atom", uom.NewText("AtomID", uuid))),
		io, memory, uom.NewText("PartitionName", r.Name), processors, uom.NewText("PartitionType", "AIX/Linux"),
		uom.NewText("PartitionUUID", uuid),
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

func ids(g hypervisor.Guest) []device.ID {
	var out []device.ID
	for _, d := range g.Devices {
		out = append(out, d.ID)
	}
	return out
}
