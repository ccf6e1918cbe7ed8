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
	"github.com/openberth/berth/compute/server/consoles"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// actionRoutes returns the paths of actions. Each action has its own policy rule.
func (s *server) actionRoutes() request.Routes {
	return request.Routes{
		"/v2.1/servers/{id}/action": {http.MethodPost: s.OfServer("", s.act)},
	}
}

// actionSpec describes one action of POST /servers/{id}/action.
type actionSpec struct {
	rule   string // of the policy
	action lifecycle.Action
	code   int // of the response

	// read decodes the arguments of the action; nil: it has none.
	read func(s *server, c *request.Call, o *request.Object, found lifecycle.Server, w *lifecycle.ActionRequested) error
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
func (s *server) act(c *request.Call, found lifecycle.Server) error {
	var body map[string]json.RawMessage
	if err := c.Read(request.MaxBody, &body); err != nil {
		return err
	}
	if len(body) != 1 {
		return fault.New(fault.Invalid, "the body must have one key, the action; it has %d", len(body))
	}
	for key, raw := range body {
		if key == "forceDelete" {
			if err := c.Authorize(policies.ForceDeleteServer, request.OwnerOf(found)); err != nil {
				return err
			}
			if err := s.Conductor.Delete(c.R.Context(), found.ID); err != nil {
				return err
			}
			return c.WriteStatus(http.StatusAccepted)
		}
		if key == "os-getConsoleOutput" {
			return s.consoles.Output(c, raw, found)
		}
		d, known := actionSpecs()[key]
		if reason := unsupportedActions[key]; reason != "" {
			return fault.New(fault.Invalid, "Berth does not support the action %s: %s", key, reason)
		}
		if !known {
			return fault.New(fault.Invalid, "There is no such action: %s", request.Clip(key))
		}
		return s.runAction(c, key, raw, d, found)
	}
	return nil
}

// runAction decodes the arguments of an action, starts it, and writes the response.
func (s *server) runAction(c *request.Call, key string, raw json.RawMessage, d actionSpec,
	found lifecycle.Server) error {
	if err := c.Authorize(d.rule, request.OwnerOf(found)); err != nil {
		return err
	}
	o := &request.Object{Name: key, Keys: map[string]json.RawMessage{}}
	if d.read != nil && !request.IsNull(raw) {
		if err := json.Unmarshal(raw, &o.Keys); err != nil || o.Keys == nil {
			return fault.New(fault.Invalid, "Invalid input for %s: it must be an object", key)
		}
	}
	want := lifecycle.ActionRequested{ID: s.NewID(), Action: d.action}
	if d.read != nil {
		if err := d.read(s, c, o, found, &want); err != nil {
			return err
		}
		if err := o.Finish(unsupportedKeys(c.Microversion)); err != nil {
			return err
		}
	}
	now, err := s.Conductor.Act(c.R.Context(), found.ID, want)
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "Instance %s could not be found.", found.ID)
	}
	if err != nil {
		return err
	}
	if d.action == lifecycle.Rebuild {
		c.W.Header().Set("Location", c.Links("servers", found.ID)[0].HRef)
		v := serverView(c, now, nil)
		if c.Has(compute.NoPersonality) {
			v.Rebuilt = &compute.Rebuilt{UserData: request.OrNull(now.UserData)}
		}
		return c.WriteJSON(d.code, map[string]any{"server": v})
	}
	return c.WriteStatus(d.code)
}

func readReboot(_ *server, _ *request.Call, o *request.Object, _ lifecycle.Server, w *lifecycle.ActionRequested) error {
	kind, _ := o.Text("type", 1, 16)
	switch strings.ToUpper(kind) {
	case "HARD":
		w.Hard = true
	case "SOFT":
	default:
		o.Invalid("type", "it is %q, and should be SOFT or HARD", request.Clip(kind))
	}
	return nil
}

func readRebuild(s *server, c *request.Call, o *request.Object, found lifecycle.Server,
	w *lifecycle.ActionRequested) (err error) {
	if _, given := o.Keys["imageRef"]; !given {
		o.Invalid("imageRef", "it is missing")
	}
	w.Image = readImageRef(o)
	if _, given := o.Keys["name"]; given {
		w.Name = o.NameText("name")
	}
	if c.Has(compute.ServerDescription) {
		delete(o.Keys, "description") // ignored: a rebuild keeps the description
	}
	if w.FirstBoot, err = s.rebuildFirstBoot(c, o, found); err != nil {
		return err
	}
	if o.Err == nil {
		w.ImageSnapshot, err = s.rebuildFrom(c, found, w.Image)
	}
	return err
}

func readResize(s *server, c *request.Call, o *request.Object, found lifecycle.Server,
	w *lifecycle.ActionRequested) error {
	ref, _ := o.Scalar("flavorRef", true, "the id of a flavor")
	ref = ref[strings.LastIndexByte(ref, '/')+1:]
	if disk, ok := o.Text("OS-DCF:diskConfig", 0, 16); ok && disk != "MANUAL" && disk != "AUTO" {
		o.Invalid("OS-DCF:diskConfig", "it is %q, and should be AUTO or MANUAL", disk)
	}
	if o.Err != nil {
		return o.Err
	}
	f, err := s.catalog.VisibleFlavor(c.R.Context(), c, ref)
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
	return s.catalog.CheckRequest(f, found.SourceImage())
}

// readMigrate decodes migrate; the host may be given since 2.56. A cold migration never ends on the same host, also
// with [DEFAULT] allow_resize_to_same_host, as in Nova with every driver but vCenter.
func readMigrate(s *server, c *request.Call, o *request.Object, found lifecycle.Server,
	w *lifecycle.ActionRequested) error {
	if !c.Has(compute.ColdMigrateHost) {
		return nil
	}
	return s.readTarget(c.R.Context(), o, found, w)
}

func readLive(s *server, c *request.Call, o *request.Object, found lifecycle.Server,
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
	if c.Has(compute.LiveMigrateForce) {
		refuseForce(o)
	}
	return s.readTarget(c.R.Context(), o, found, w)
}

func readEvacuate(s *server, c *request.Call, o *request.Object, found lifecycle.Server,
	w *lifecycle.ActionRequested) error {
	delete(o.Keys, "onSharedStorage") // 2.1 to 2.13; ignored: the guest is always rebuilt
	if c.Has(compute.EvacuateForce) {
		refuseForce(o)
	}
	return s.readTarget(c.R.Context(), o, found, w)
}

// refuseForce decodes force, which would move a server to a host without a check for room.
func refuseForce(o *request.Object) {
	if o.Flag("force", false) {
		o.Invalid("force", "Berth always claims resources before a move; leave it out")
	}
}

// readTarget decodes the destination host of a move.
func (s *server) readTarget(ctx context.Context, o *request.Object, found lifecycle.Server,
	w *lifecycle.ActionRequested) error {
	w.To, _ = o.Text("host", 0, 255)
	if w.To == "" || o.Err != nil {
		return o.Err
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

func readReset(_ *server, _ *request.Call, o *request.Object, _ lifecycle.Server, w *lifecycle.ActionRequested) error {
	state, _ := o.Text("state", 1, 16)
	w.ToError = state == "error"
	if state != "error" && state != "active" {
		o.Invalid("state", "it is %q, and should be active or error", request.Clip(state))
	}
	return nil
}

// onPorts is the reason for which actions on addresses and groups are refused.
const onPorts = "addresses and groups belong to ports; attach, detach or change a port (os-interface)"

// unsupportedActions are the actions of POST /servers/{id}/action that the API has and Berth refuses, with the reasons.
var unsupportedActions = map[string]string{
	"pause":               "guests cannot be paused; stop the server",
	"unpause":             "guests cannot be paused",
	"suspend":             "guests cannot be suspended; stop or shelve the server",
	"resume":              "guests cannot be suspended",
	"lock":                "servers cannot be locked",
	"unlock":              "servers cannot be locked",
	"rescue":              "guests cannot be rescued",
	"unrescue":            "guests cannot be rescued",
	"restore":             "a deleted server cannot be restored",
	"createImage":         "guests have no snapshots",
	"createBackup":        "guests have no snapshots",
	"trigger_crash_dump":  "guests have no crash dumps",
	"changePassword":      "Berth cannot set a guest's password",
	"addFixedIp":          onPorts,
	"removeFixedIp":       onPorts,
	"addFloatingIp":       onPorts,
	"removeFloatingIp":    onPorts,
	"addSecurityGroup":    onPorts,
	"removeSecurityGroup": onPorts,
	"resetNetwork":        onPorts,
	"injectNetworkInfo":   onPorts,
	"os-getVNCConsole":    consoles.NoRemote,
	"os-getSPICEConsole":  consoles.NoRemote,
	"os-getRDPConsole":    consoles.NoRemote,
	"os-getSerialConsole": consoles.NoRemote,
}
