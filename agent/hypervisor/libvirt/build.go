package libvirt

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// Build defines and starts the guest's domain, or changes it.
//
// New CPUs, memory and NUMA cells of a running guest take effect when it starts the next time. A rebuilt guest ends
// only after its new disk has been made.
func (d *Driver) Build(ctx context.Context, g hypervisor.Guest) error {
	if _, err := uuid.Parse(g.ID); err != nil {
		return fault.New(fault.Invalid, "%q is not a valid guest id: %w", g.ID, err)
	}
	g.Devices = slices.SortedFunc(slices.Values(g.Devices), func(a, b hypervisor.Device) int {
		return a.ID.Compare(b.ID)
	})
	c, host, err := d.connect(ctx)
	if err != nil {
		return fault.Wrap("", err)
	}
	b := &builder{d: d, c: c, host: host, guest: g}
	if err := b.receive(ctx); err != nil {
		return fault.Wrap("", err)
	}
	created, err := b.reserve(ctx)
	if err == nil {
		err = b.domain.checkRead()
	}
	if err == nil && b.domain.undefined {
		err = b.redefine(ctx)
	}
	if err == nil && b.domain.migratesTo() != "" {
		err = b.settle(ctx)
	}
	if err != nil {
		return fault.Wrap("", err)
	}
	if created {
		return fault.Wrap("", b.create(ctx))
	}
	if err := b.change(ctx); err != nil {
		return fault.Wrap("", err)
	}
	if b.domain.unsaved { // such as after a live migration to this host
		err = d.writeRecord(b.domain.UUID, b.domain.xml.Guest)
	}
	return fault.Wrap("", err)
}

// receive copies the disk and the NVRAM of a guest that moves here, unless the guest exists.
func (b *builder) receive(ctx context.Context) error {
	if b.guest.DiskFrom == nil || b.d.filesOf(uuid.Nil, b.guest).Disk == "" {
		return nil
	}
	domains, _, err := b.d.list(ctx, b.c)
	if err != nil {
		return err
	}
	if have, found := find(domains, b.guest.ID); found {
		return forgetIncoming(b.d, b.guest.ID) // an interrupted Build has left it
	} else if err := checkDevices(b.guest, have.guest, found, domains); err != nil {
		return err
	}
	if b.copied, err = receiveDisk(ctx, b.d, b.guest); err != nil {
		return err
	}
	b.keepFirmware(b.copied.of)
	b.c, b.host, err = b.d.connect(ctx) // copying takes long
	return err
}

// reserve finds the guest's domain, or defines it, which reserves its devices and its UUID. created is true if it has
// defined it.
func (b *builder) reserve(ctx context.Context) (created bool, err error) {
	b.d.defining.Lock()
	defer b.d.defining.Unlock()
	domains, used, err := b.d.list(ctx, b.c)
	if err != nil {
		return false, err
	}
	found := false
	b.domain, found = find(domains, b.guest.ID)
	if err := checkDevices(b.guest, b.domain.guest, found, domains); err != nil {
		return false, err
	}
	switch {
	case found:
		return false, nil
	case b.guest.Kept:
		return false, fault.New(fault.NotFound, "the guest %s was built here, and now neither libvirt nor "+
			"%s has it, so it is not built with a blank disk", b.guest.ID, b.d.o.Dir)
	}
	if prepared, there := findDomain(domains, b.guest.ID, true); there {
		if b.incoming && b.prepared(prepared) {
			b.domain = prepared
			return false, nil
		}
		if err := b.d.remove(ctx, b.c, prepared); err != nil { // its guest has not arrived
			return false, err
		}
		delete(used, prepared.UUID)
	}
	b.domain.UUID = freeUUID(b.guest.ID, used)
	if err := b.d.removeUnfinished(b.domain.UUID, b.incoming); err != nil {
		return false, err
	}
	if b.copied.exists() { // before the definition: a guest that is listed has its disk
		if err := b.place(ctx); err != nil {
			return false, err
		}
	}
	if err := b.define(ctx); err != nil {
		return true, b.keepIfUnknown(err)
	}
	if !b.copied.exists() {
		return true, nil
	}
	return true, forgetIncoming(b.d, b.guest.ID)
}

// keepIfUnknown removes the record, and a link to the copied disk, after a definition has failed, and returns the
// error. They stay if libvirt has not refused: it may still execute the definition, which needs the disk.
func (b *builder) keepIfUnknown(failed error) error {
	if _, refused := errors.AsType[*rpc.Error](failed); !refused && fault.Is(failed, fault.Unavailable) {
		return failed
	}
	return errors.Join(failed, b.d.removeFiles(b.domain.UUID))
}

// place gives what was copied, and a disk that is shared, its place, with a record that says that its guest is not
// complete. A guest whose NVRAM was not copied gets a new one.
func (b *builder) place(ctx context.Context) error {
	err := b.d.writeRecord(b.domain.UUID, domainxml.Guest{ID: b.guest.ID, Domain: b.domain.UUID.String()})
	if err == nil && b.copied.base != nil {
		err = recordBase(b.d.path(b.domain.UUID.String()), b.guest.Build, *b.copied.base)
	}
	if err == nil {
		err = place(ctx, b.d, b.domain.UUID, b.guest, b.copied)
	}
	if err == nil {
		err = b.d.makeNVRAM(b.domain.UUID, b.guest, false)
	}
	b.made = err == nil
	return err
}

// redefine defines the domain again as its record or its metadata have it, around the disk that exists. The fault is
// Unavailable while a QEMU that libvirt does not know runs the guest.
func (b *builder) redefine(ctx context.Context) error {
	was := b.domain
	if was.refused != "" {
		return fault.New(fault.Conflict, "the guest %s cannot be defined again: %s", b.guest.ID, was.refused)
	}
	if !was.running() {
		if err := b.d.checkUnused(was.UUID); err != nil {
			return err
		}
	}
	if err := b.d.checkSnapshots(was); err != nil {
		return err
	}
	host, err := b.d.withNames(b.host, was.guest)
	if err != nil {
		return err
	}
	files, err := b.d.filesWithFirmware(was.UUID, was.guest)
	if err != nil {
		return err
	}
	made, err := domainxml.Make(host, was.UUID.String(), was.guest, files)
	if err != nil {
		return err
	}
	made.Guest = was.xml.Guest
	text, err := domainxml.Encode(made)
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	defined, err := b.c.Define(ctx, text)
	if err != nil {
		return err
	}
	b.d.o.Log.Warn("guest defined again in libvirt", "guest", b.guest.ID, "reason", was.guest.Lost)
	b.domain = domain{Domain: defined, guest: was.guest, xml: made}
	b.domain.guest.Lost = ""
	return nil
}

// define defines the domain, or replaces its definition, for the guest. The fault is Conflict if the new definition
// would not have the current disk of the guest.
func (b *builder) define(ctx context.Context) error {
	if have := b.domain.guest; have.ID != "" && have.Build == b.guest.Build {
		if err := b.d.checkSnapshots(b.domain); err != nil {
			return err
		}
	}
	host, err := b.d.withNames(b.host, b.guest)
	if err != nil {
		return err
	}
	files, err := b.d.filesWithFirmware(b.domain.UUID, b.guest)
	if err != nil {
		return err
	}
	made, err := domainxml.Make(host, b.domain.UUID.String(), b.stored(), files)
	if err != nil {
		return err
	}
	made.Guest.Made = b.domain.made() || b.made
	if b.incoming {
		b.addDestination(&made.Guest)
	}
	if err := b.d.writeRecord(b.domain.UUID, made.Guest); err != nil {
		return err
	}
	text, err := domainxml.Encode(made)
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	defined, err := b.c.Define(ctx, text)
	if err != nil {
		return err
	}
	stopped := b.domain.guest.Stopped || b.domain.guest.ID == ""
	b.domain = domain{Domain: defined, guest: b.guest, xml: made}
	b.domain.guest.Stopped = stopped
	return nil
}

// create makes and starts a guest that has just been defined. After a fault it undefines the guest again.
func (b *builder) create(ctx context.Context) error {
	err := b.finish(ctx)
	if err != nil {
		b.undo(ctx)
	}
	return err
}

// finish makes the guest's files, records that they are complete, and starts the guest if it must run.
func (b *builder) finish(ctx context.Context) error {
	if err := b.makeFiles(ctx); err != nil {
		return err
	}
	if !b.domain.made() {
		stored := b.domain.stored(b.stored())
		stored.Made = true
		if err := b.d.storeMetadata(ctx, b.c, b.domain, stored); err != nil {
			return err
		}
		b.domain.xml.Guest = stored
	}
	if b.guest.Stopped {
		return nil
	}
	if err := restoreBase(ctx, b.d.o.Images, b.d.filesOf(b.domain.UUID, b.guest).Disk, b.guest); err != nil {
		return err
	}
	if err := b.d.checkUnused(b.domain.UUID); err != nil {
		return err
	}
	started, err := b.c.Start(ctx, b.domain.Domain)
	if err != nil {
		return err
	}
	b.domain.Domain = started
	b.storeStarted(ctx)
	if err := b.d.removeLeft(b.domain.UUID, b.guest); err != nil {
		b.d.o.Log.Warn("files of an earlier disk not removed", "guest", b.guest.ID, "error", err)
	}
	return nil
}

// makeFiles makes the files that the guest does not have yet. The guest must be defined.
func (b *builder) makeFiles(ctx context.Context) error {
	places, err := b.places(ctx)
	if err != nil {
		return err
	}
	kept := b.made || b.domain.made() && b.domain.guest.Build == b.guest.Build
	return b.d.makeFiles(ctx, b.domain.UUID, b.guest, kept, places)
}

// places returns the PCI addresses that libvirt has given the interfaces of the guest in its definition, by port. A
// guest that arrives by live migration keeps those that it has, which are not known here.
func (b *builder) places(ctx context.Context) (map[string]string, error) {
	if b.incoming || len(b.guest.Interfaces) == 0 {
		return nil, nil
	}
	text, err := b.c.XML(ctx, b.domain.Domain, rpc.Persistent)
	if err != nil {
		return nil, err
	}
	parsed, err := domainxml.Decode(text)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "%s", unreadable(b.domain.Domain, err))
	}
	places := map[string]string{}
	for _, i := range b.guest.Interfaces {
		places[i.Port] = domainxml.PlaceOf(parsed, i)
	}
	return places, nil
}

// storeStarted records that the guest has been started. It is not abandoned with ctx, and Build does not fail with it:
// the guest runs as described. Without the record, a guest that shuts down by itself is started again.
func (b *builder) storeStarted(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	err := b.d.storeGuest(ctx, b.c, b.domain, b.guest)
	if known, is := errors.AsType[*rpc.Error](err); is && known.Code == rpc.ErrOperationInvalid { // it has ended already
		b.domain.ID = -1
		err = b.d.storeGuest(ctx, b.c, b.domain, b.guest)
	}
	if err != nil {
		b.d.o.Log.Warn("start of a guest not recorded", "guest", b.guest.ID, "error", err)
	}
}

// undo removes what a failed Build has made. What remains is removed by Destroy.
func (b *builder) undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := b.d.remove(ctx, b.c, b.domain); err != nil {
		b.d.o.Log.Warn("unfinished guest not removed", "guest", b.guest.ID, "error", err)
	}
}

// change makes an existing guest as it must be.
func (b *builder) change(ctx context.Context) error {
	have := b.domain.guest
	if have.Build != b.guest.Build {
		return b.rebuild(ctx)
	}
	b.keepFirmware(have)
	if err := b.unpause(ctx); err != nil {
		return err
	}
	if have.Rescue != b.guest.Rescue {
		return b.changeRescue(ctx)
	}
	if differentDevices(have, b.guest) {
		if !b.domain.running() || b.guest.Stopped {
			return b.changeDevices(ctx)
		}
		if err := b.plug(ctx); err != nil {
			return err
		}
		have = b.domain.guest
	}
	if err := b.changeInterfaces(ctx); err != nil {
		return err
	}
	switch {
	case !sameHardware(have, b.guest):
		if err := b.define(ctx); err != nil {
			return err
		}
	case !reflect.DeepEqual(domainxml.Write(have), domainxml.Write(b.stored())),
		b.domain.xml.Guest.Paused != b.guest.Paused:
		if err := b.d.storeGuest(ctx, b.c, b.domain, b.stored()); err != nil {
			return err
		}
	}
	return b.setPower(ctx)
}

// setPower starts, stops, pauses or suspends an existing guest.
func (b *builder) setPower(ctx context.Context) error {
	runs := b.domain.running()
	switch {
	case b.guest.Suspended:
		return b.suspend(ctx)
	case b.guest.Paused && !b.domain.guest.Paused:
		return endedMeanwhile(b.guest.ID, rpc.Suspend(ctx, b.c, b.domain.Domain))
	case b.guest.Stopped && runs && b.domain.guest.Paused: // it would not notice a request to shut down
		return end(ctx, b.c, b.domain.Domain)
	case b.guest.Stopped && runs:
		return b.d.stop(ctx, b.c, b.domain)
	case b.guest.Stopped && b.domain.guest.Suspended:
		return rpc.RemoveSaved(ctx, b.c, b.domain.Domain)
	case !runs && (!b.guest.Stopped || !b.domain.made()):
		return b.finish(ctx)
	}
	return nil
}

// changeRescue makes a guest boot the disk of another rescue image, or its own disk again. The guest is stopped when
// the disk exists.
func (b *builder) changeRescue(ctx context.Context) error {
	if file := b.d.filesOf(b.domain.UUID, b.guest).Rescue; file != "" {
		if err := makeRescueDisk(ctx, b.d, b.guest, file); err != nil {
			return err
		}
	}
	if b.domain.running() {
		if err := b.d.stop(ctx, b.c, b.domain); err != nil {
			return err
		}
		b.domain.ID = -1
	}
	if err := b.define(ctx); err != nil {
		return err
	}
	if err := b.finish(ctx); err != nil || b.guest.Rescue != "" {
		return err
	}
	return fault.Wrap(fault.Unavailable, remove(b.d.path(b.domain.UUID.String(), rescueName)))
}

// changeDevices gives a guest that does not run, or is to be stopped, the devices of other ports.
func (b *builder) changeDevices(ctx context.Context) error {
	if b.domain.running() {
		if err := b.d.stop(ctx, b.c, b.domain); err != nil {
			return err
		}
		b.domain.ID = -1
	}
	if err := b.define(ctx); err != nil {
		return err
	}
	return b.finish(ctx)
}

// sameHardware reports whether two guests have the same CPUs, memory, NUMA cells and choices of their images.
func sameHardware(a, b hypervisor.Guest) bool {
	return a.VCPUs == b.VCPUs && a.MemoryMB == b.MemoryMB && a.Hardware == b.Hardware &&
		reflect.DeepEqual(a.Cells, b.Cells)
}

// rebuild gives the guest a new disk. The old guest ends when the new disk exists.
func (b *builder) rebuild(ctx context.Context) error {
	// A disk of this build is that of an earlier attempt, maybe with another image.
	if err := b.d.removeDisk(b.domain.UUID, b.guest); err != nil {
		return err
	}
	if err := b.makeFiles(ctx); err != nil {
		return err
	}
	b.made = true
	if err := end(ctx, b.c, b.domain.Domain); err != nil {
		return err
	}
	if b.domain.guest.Suspended { // its memory does not fit the new disk
		if err := rpc.RemoveSaved(ctx, b.c, b.domain.Domain); err != nil {
			return err
		}
	}
	if err := b.define(ctx); err != nil {
		return err
	}
	if err := b.finish(ctx); err != nil {
		return err
	}
	return b.d.removeOldDisks(b.domain.UUID, b.guest)
}

// changeInterfaces detaches the interfaces without a device that the guest no longer has, and attaches new ones. A
// changed interface is detached and attached again. A running guest that does not release an interface keeps it until
// it ends.
func (b *builder) changeInterfaces(ctx context.Context) error {
	was, now := b.domain.guest.Interfaces, b.guest.Interfaces
	for _, one := range was {
		if one.Device != (device.ID{}) || slices.Contains(now, one) || !b.attached(one) {
			continue
		}
		if err := b.changeInterface(ctx, one, b.c.Detach); err != nil {
			return err
		}
	}
	for _, one := range now {
		if one.Device != (device.ID{}) || slices.Contains(was, one) ||
			!slices.ContainsFunc(was, func(w hypervisor.Interface) bool {
				return w.MAC == one.MAC
			}) && b.attached(one) { // an earlier attempt failed afterwards
			continue
		}
		if err := b.changeInterface(ctx, one, b.c.Attach); err != nil {
			return err
		}
	}
	return nil
}

// attached reports whether the domain had an interface with this MAC address before the change.
func (b *builder) attached(i hypervisor.Interface) bool {
	return b.domain.xml.HasInterface(i.MAC)
}

// changeInterface attaches or detaches an interface.
func (b *builder) changeInterface(ctx context.Context, i hypervisor.Interface,
	change func(context.Context, rpc.Domain, rpc.Impact, string) error) error {
	element, err := domainxml.InterfaceOf(b.host, i, b.guest)
	if err != nil {
		return err
	}
	text, err := domainxml.EncodeInterface(element)
	if err != nil {
		return err
	}
	err = change(ctx, b.domain.Domain, rpc.ImpactOn(b.domain.running()), text)
	if known, is := errors.AsType[*rpc.Error](err); is && known.Code == rpc.ErrDeviceMissing {
		return nil
	}
	return err
}
