package actions

import (
	"context"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/server/networking"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/server/servers"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

func readReboot(_ *Handlers, _ *request.Call, o *edge.Object, _ lifecycle.Server,
	w *lifecycle.ActionRequested) error {
	kind := ""
	o.Require("type")
	o.Text("type", &kind, 16)
	switch strings.ToUpper(kind) {
	case "HARD":
		w.Hard = true
	case "SOFT":
	default:
		o.Invalid("type", "it is %q, and should be SOFT or HARD", edge.Clip(kind))
	}
	return nil
}

func readResize(s *Handlers, c *request.Call, o *edge.Object, found lifecycle.Server,
	w *lifecycle.ActionRequested) error {
	ref := ""
	o.Require("flavorRef")
	o.Scalar("flavorRef", &ref, "the id of a flavor")
	ref = ref[strings.LastIndexByte(ref, '/')+1:]
	w.Details.AutoDisk = servers.ReadDiskConfig(o)
	if o.Err() != nil {
		return o.Err()
	}
	f, err := s.Catalog.VisibleFlavor(c.R.Context(), c, ref)
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.Invalid, "Invalid input for resize.flavorRef: %w", err)
	}
	if err != nil {
		return err
	}
	switch {
	case f.ID == found.Flavor.ID:
		return fault.New(fault.Invalid, "When resizing, instances must change flavor!")
	case f.Disabled:
		return fault.New(fault.Invalid, "flavor %s is disabled; choose another flavor", f.Name)
	}
	if err := flavor.CheckProperties(f, found.SourceImage(), s.Catalog.Ignored); err != nil {
		return err
	}
	if err := flavor.CheckSecureBoot(f, found.SourceImage(), s.Catalog.Ignored); err != nil {
		return err
	}
	w.Flavor, w.SameHost = f, s.ResizeHere
	// The request is that of a new server with the new flavor and the stored image.
	if err := flavor.Fits(f, found.SourceImage()); err != nil {
		return err
	}
	if err := s.Servers.CheckZeroDisk(c, f, found.Image); err != nil {
		return err
	}
	if f.DiskGB < found.Flavor.DiskGB { // it may have grown since it was made from the image
		return fault.New(fault.Invalid, "Resizing the disk of a server down is not allowed: flavor %s has %d GiB, and "+
			"the server's disk has %d GiB; choose a flavor with a larger disk", f.Name, f.DiskGB, found.Flavor.DiskGB)
	}
	w.Amounts, err = s.Catalog.RequestAmounts(f, found.SourceImage())
	return err
}

// readMigrate decodes migrate; the host may be given since 2.56. A cold migration never ends on the same host, also
// with [DEFAULT] allow_resize_to_same_host, as in Nova with every driver but vCenter.
func readMigrate(s *Handlers, c *request.Call, o *edge.Object, found lifecycle.Server,
	w *lifecycle.ActionRequested) error {
	if !c.Has(compute.ColdMigrateHost) {
		return nil
	}
	return s.readTarget(c.R.Context(), o, found, w)
}

func readLive(s *Handlers, c *request.Call, o *edge.Object, found lifecycle.Server,
	w *lifecycle.ActionRequested) error {
	if _, given := o.Keys["host"]; !given {
		o.Invalid("host", "it is missing; give a host or null")
	}
	if _, given := o.Keys["block_migration"]; !given {
		o.Invalid("block_migration", "it is missing")
	}
	delete(o.Keys, "block_migration") // ignored: Berth does not distinguish shared and local disks
	if !c.Has(compute.LiveMigrateAuto) {
		delete(o.Keys, "disk_over_commit")
	}
	if c.Has(compute.LiveMigrateForce) && !c.Has(compute.NoForcedMoves) {
		refuseForce(o)
	}
	return s.readTarget(c.R.Context(), o, found, w)
}

func readEvacuate(s *Handlers, c *request.Call, o *edge.Object, found lifecycle.Server,
	w *lifecycle.ActionRequested) error {
	if !c.Has(compute.NoSharedStorage) { // ignored: the guest is always rebuilt
		o.Require("onSharedStorage")
		o.Flag("onSharedStorage", new(bool))
	}
	w.AdminPass = servers.ReadPassword(o)
	w.KeepStopped = c.Has(compute.EvacuateStopped)
	if c.Has(compute.EvacuateForce) && !c.Has(compute.NoForcedMoves) {
		refuseForce(o)
	}
	return s.readTarget(c.R.Context(), o, found, w)
}

// refuseForce decodes force, which would move a server to a host without a check for room.
func refuseForce(o *edge.Object) {
	force := false
	if o.Flag("force", &force); force {
		o.Invalid("force", "Berth always claims resources before a move; leave it out")
	}
}

// readTarget decodes the destination host of a move.
func (s *Handlers) readTarget(ctx context.Context, o *edge.Object, found lifecycle.Server,
	w *lifecycle.ActionRequested) error {
	o.Text("host", &w.To, 255)
	if w.To == "" || o.Err() != nil {
		return o.Err()
	}
	if err := provider.CheckHostName(w.To); err != nil {
		return err
	}
	if _, err := s.Store.Host(ctx, w.To); fault.Is(err, fault.NotFound) {
		known, err := s.HostNames(ctx)
		if err != nil {
			return err
		}
		return fault.New(fault.Invalid, "Compute host %s could not be found; %s", w.To,
			provider.SuggestHost(w.To, known))
	} else if err != nil {
		return err
	}
	if w.To == found.Host {
		return fault.New(fault.Invalid, "The target host can't be the same one.")
	}
	return nil
}

// readUnshelve reads where a server is unshelved, after its ports were counted again.
func readUnshelve(s *Handlers, c *request.Call, o *edge.Object, found lifecycle.Server,
	w *lifecycle.ActionRequested) error {
	if err := networking.CountPorts(s.Networking, c, found); err != nil {
		return err
	}
	return servers.ReadUnshelved(s.Servers, c, o, found, w)
}

func readReset(_ *Handlers, _ *request.Call, o *edge.Object, _ lifecycle.Server,
	w *lifecycle.ActionRequested) error {
	state := ""
	o.Require("state")
	o.Word("state", &state, "active", "error")
	w.ToError = state == "error"
	return nil
}
