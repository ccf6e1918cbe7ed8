package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// actionSpec describes one action of POST /servers/{id}/action.
type actionSpec struct {
	rule   string // of the policy
	action lifecycle.Action
	code   int // of the response

	// read decodes the arguments of the action; nil: it has none.
	read func(s *server, c *call, o *object, found lifecycle.Server, w *lifecycle.ActionRequested) error
}

// actionSpecs returns the actions by their key in the body. act handles forceDelete itself.
func actionSpecs() map[string]actionSpec {
	const accepted = http.StatusAccepted
	return map[string]actionSpec{
		"os-start":       {rule: policies.StartServer, action: lifecycle.Start, code: accepted},
		"os-stop":        {rule: policies.StopServer, action: lifecycle.Stop, code: accepted},
		"reboot":         {rule: policies.RebootServer, action: lifecycle.Reboot, code: accepted, read: readReboot},
		"rebuild":        {rule: policies.RebuildServer, action: lifecycle.Rebuild, code: accepted, read: readRebuild},
		"resize":         {rule: policies.ResizeServer, action: lifecycle.Resize, code: accepted, read: readResize},
		"confirmResize":  {rule: policies.ConfirmResize, action: lifecycle.Confirm, code: http.StatusNoContent},
		"revertResize":   {rule: policies.RevertResize, action: lifecycle.Revert, code: accepted},
		"migrate":        {rule: policies.MigrateServer, action: lifecycle.Migrate, code: accepted, read: readMigrate},
		"os-migrateLive": {rule: policies.LiveMigrateServer, action: lifecycle.Live, code: accepted, read: readLive},
		"evacuate": {rule: policies.EvacuateServer, action: lifecycle.Evacuate, code: http.StatusOK,
			read: readEvacuate},
		"shelve":        {rule: policies.ShelveServer, action: lifecycle.Shelve, code: accepted},
		"shelveOffload": {rule: policies.OffloadServer, action: lifecycle.Offload, code: accepted},
		"unshelve":      {rule: policies.UnshelveServer, action: lifecycle.Unshelve, code: accepted},
		"os-resetState": {rule: policies.ResetServer, action: lifecycle.Reset, code: accepted, read: readReset},
	}
}

// act is POST /v2.1/servers/{id}/action: an object with one key, which names the action.
func (s *server) act(c *call) error {
	found, err := s.visibleServer(c, false)
	if err != nil {
		return err
	}
	var body map[string]json.RawMessage
	if err := c.read(maxBody, &body); err != nil {
		return err
	}
	if len(body) != 1 {
		return fault.New(fault.Invalid, "the body must have one key, the action; it has %d", len(body))
	}
	for key, raw := range body {
		if key == "forceDelete" {
			if err := c.Authorize(policies.ForceDeleteServer, ownerOf(found)); err != nil {
				return err
			}
			if err := s.Conductor.Delete(c.R.Context(), found.ID); err != nil {
				return err
			}
			return c.writeStatus(http.StatusAccepted)
		}
		if key == "os-getConsoleOutput" {
			return s.consoleOutput(c, raw, found)
		}
		d, known := actionSpecs()[key]
		if reason := unsupportedActions[key]; reason != "" {
			return fault.New(fault.Invalid, "Berth does not support the action %s: %s", key, reason)
		}
		if !known {
			return fault.New(fault.Invalid, "There is no such action: %s", clip(key))
		}
		return s.runAction(c, key, raw, d, found)
	}
	return nil
}

// runAction decodes the arguments of an action, starts it, and writes the response.
func (s *server) runAction(c *call, key string, raw json.RawMessage, d actionSpec, found lifecycle.Server) error {
	if err := c.Authorize(d.rule, ownerOf(found)); err != nil {
		return err
	}
	o := &object{name: key, keys: map[string]json.RawMessage{}}
	if d.read != nil && !isNull(raw) {
		if err := json.Unmarshal(raw, &o.keys); err != nil || o.keys == nil {
			return fault.New(fault.Invalid, "Invalid input for %s: it must be an object", key)
		}
	}
	request := lifecycle.ActionRequested{ID: s.NewID(), Action: d.action}
	if d.read != nil {
		if err := d.read(s, c, o, found, &request); err != nil {
			return err
		}
		if err := o.finish(unsupportedKeys(c.version)); err != nil {
			return err
		}
	}
	now, err := s.Conductor.Act(c.R.Context(), found.ID, request)
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "Instance %s could not be found.", found.ID)
	}
	if err != nil {
		return err
	}
	if d.action == lifecycle.Rebuild {
		c.W.Header().Set("Location", c.links("servers", found.ID)[0].HRef)
		v := c.server(now, nil)
		if c.version.Has(compute.NoPersonality) {
			v.Rebuilt = &compute.Rebuilt{UserData: orNull(now.UserData)}
		}
		return c.writeJSON(d.code, map[string]any{"server": v})
	}
	return c.writeStatus(d.code)
}

func readReboot(_ *server, _ *call, o *object, _ lifecycle.Server, w *lifecycle.ActionRequested) error {
	kind, _ := o.text("type", 1, 16)
	switch strings.ToUpper(kind) {
	case "HARD":
		w.Hard = true
	case "SOFT":
	default:
		o.invalid("type", "it is %q, and should be SOFT or HARD", clip(kind))
	}
	return nil
}

func readRebuild(s *server, c *call, o *object, found lifecycle.Server, w *lifecycle.ActionRequested) (err error) {
	if _, given := o.keys["imageRef"]; !given {
		o.invalid("imageRef", "it is missing")
	}
	w.Image = o.image()
	if _, given := o.keys["name"]; given {
		w.Name = o.nameText("name")
	}
	if c.version.Has(compute.ServerDescription) {
		delete(o.keys, "description") // ignored: a rebuild keeps the description
	}
	if w.FirstBoot, err = s.rebuildFirstBoot(c, o, found); err != nil {
		return err
	}
	if o.err == nil {
		w.ImageSnapshot, err = s.rebuildFrom(c, found, w.Image)
	}
	return err
}

func readResize(s *server, c *call, o *object, found lifecycle.Server, w *lifecycle.ActionRequested) error {
	ref, _ := o.scalar("flavorRef", true, "the id of a flavor")
	ref = ref[strings.LastIndexByte(ref, '/')+1:]
	if disk, ok := o.text("OS-DCF:diskConfig", 0, 16); ok && disk != "MANUAL" && disk != "AUTO" {
		o.invalid("OS-DCF:diskConfig", "it is %q, and should be AUTO or MANUAL", disk)
	}
	if o.err != nil {
		return o.err
	}
	f, err := s.visibleFlavor(c.R.Context(), c, ref)
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
	if err := flavor.CheckProperties(f, found.SourceImage(), s.Ignored); err != nil {
		return err
	}
	if err := flavor.CheckSecureBoot(f, found.SourceImage(), s.Ignored); err != nil {
		return err
	}
	w.Flavor, w.SameHost = f, s.ResizeHere
	// The request is that of a new server with the new flavor and the stored image.
	if err := flavor.Fits(f, found.SourceImage()); err != nil {
		return err
	}
	if f.DiskGB < found.Flavor.DiskGB { // it may have grown since it was made from the image
		return fault.New(fault.Invalid, "Resizing the disk of a server down is not allowed: flavor %s has %d GiB, and "+
			"the server's disk has %d GiB; choose a flavor with a larger disk", f.Name, f.DiskGB, found.Flavor.DiskGB)
	}
	return s.checkRequest(f, found.SourceImage())
}

// readMigrate decodes migrate; the host may be given since 2.56. A cold migration never ends on the same host, also
// with [DEFAULT] allow_resize_to_same_host, as in Nova with every driver but vCenter.
func readMigrate(s *server, c *call, o *object, found lifecycle.Server, w *lifecycle.ActionRequested) error {
	if !c.version.Has(compute.ColdMigrateHost) {
		return nil
	}
	return s.readTarget(c.R.Context(), o, found, w)
}

func readLive(s *server, c *call, o *object, found lifecycle.Server, w *lifecycle.ActionRequested) error {
	if _, given := o.keys["host"]; !given {
		o.invalid("host", "it is missing; give a host or null")
	}
	if _, given := o.keys["block_migration"]; !given {
		o.invalid("block_migration", "it is missing")
	}
	delete(o.keys, "block_migration") // ignored: Berth does not distinguish shared and local disks
	if !c.version.Has(compute.LiveMigrateAuto) {
		delete(o.keys, "disk_over_commit")
	}
	if c.version.Has(compute.LiveMigrateForce) {
		o.refuseForce()
	}
	return s.readTarget(c.R.Context(), o, found, w)
}

func readEvacuate(s *server, c *call, o *object, found lifecycle.Server, w *lifecycle.ActionRequested) error {
	delete(o.keys, "onSharedStorage") // 2.1 to 2.13; ignored: the guest is always rebuilt
	if c.version.Has(compute.EvacuateForce) {
		o.refuseForce()
	}
	return s.readTarget(c.R.Context(), o, found, w)
}

// refuseForce decodes force, which would move a server to a host without a check for room.
func (o *object) refuseForce() {
	if o.flag("force", false) {
		o.invalid("force", "Berth always claims resources before a move; leave it out")
	}
}

// readTarget decodes the destination host of a move.
func (s *server) readTarget(ctx context.Context, o *object, found lifecycle.Server,
	w *lifecycle.ActionRequested) error {
	w.To, _ = o.text("host", 0, 255)
	if w.To == "" || o.err != nil {
		return o.err
	}
	if err := provider.CheckHostName(w.To); err != nil {
		return err
	}
	if _, err := s.Store.Host(ctx, w.To); fault.Is(err, fault.NotFound) {
		known, err := s.hostNames(ctx)
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

func readReset(_ *server, _ *call, o *object, _ lifecycle.Server, w *lifecycle.ActionRequested) error {
	state, _ := o.text("state", 1, 16)
	w.ToError = state == "error"
	if state != "error" && state != "active" {
		o.invalid("state", "it is %q, and should be active or error", clip(state))
	}
	return nil
}
