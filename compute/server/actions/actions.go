package actions

import (
	"encoding/json"
	"net/http"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/networking"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/server/servers"
	"github.com/openberth/berth/fault"
)

// actionRoutes returns the paths of actions. Each action has its own policy rule.
func actionRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/servers/{id}/action": {http.MethodPost: s.OfServer("", s.act)},
	}
}

// actionSpec describes one action of POST /servers/{id}/action.
type actionSpec struct {
	rule   string // of the policy
	action lifecycle.Action
	code   int // of the response

	whenLocked bool // a lock does not concern it

	// run does the whole action; nil: the conductor does it.
	run func(s *Handlers, c *request.Call, arguments json.RawMessage, found lifecycle.Server) error

	// read decodes the arguments for the conductor; nil: there are none.
	read func(s *Handlers, c *request.Call, o *edge.Object, found lifecycle.Server, w *lifecycle.ActionRequested) error

	// answer writes the response after the conductor has started the action; nil: it has no body.
	answer func(s *Handlers, c *request.Call, now lifecycle.Server, w lifecycle.ActionRequested) error
}

// actionSpecs returns the actions by their key in the body.
func actionSpecs() map[string]actionSpec {
	const accepted = http.StatusAccepted
	return map[string]actionSpec{
		"os-start": {rule: policies.StartServer, action: lifecycle.Start, code: accepted},
		"os-stop":  {rule: policies.StopServer, action: lifecycle.Stop, code: accepted},
		"reboot":   {rule: policies.RebootServer, action: lifecycle.Reboot, code: accepted, read: readReboot},
		"pause":    {rule: policies.PauseServer, action: lifecycle.Pause, code: accepted},
		"unpause":  {rule: policies.UnpauseServer, action: lifecycle.Unpause, code: accepted},
		"suspend":  {rule: policies.SuspendServer, action: lifecycle.Suspend, code: accepted},
		"resume":   {rule: policies.ResumeServer, action: lifecycle.Resume, code: accepted},
		"rescue": {rule: policies.RescueServer, action: lifecycle.Rescue, code: http.StatusOK, read: readRescue,
			answer: answerPassword},
		"unrescue":       {rule: policies.UnrescueServer, action: lifecycle.Unrescue, code: accepted},
		"rebuild":        {rule: policies.RebuildServer, action: lifecycle.Rebuild, code: accepted, read: readRebuild},
		"resize":         {rule: policies.ResizeServer, action: lifecycle.Resize, code: accepted, read: readResize},
		"confirmResize":  {rule: policies.ConfirmResize, action: lifecycle.Confirm, code: http.StatusNoContent},
		"revertResize":   {rule: policies.RevertResize, action: lifecycle.Revert, code: accepted},
		"migrate":        {rule: policies.MigrateServer, action: lifecycle.Migrate, code: accepted, read: readMigrate},
		"os-migrateLive": {rule: policies.LiveMigrateServer, action: lifecycle.Live, code: accepted, read: readLive},
		"evacuate": {rule: policies.EvacuateServer, action: lifecycle.Evacuate, code: http.StatusOK, whenLocked: true,
			read: readEvacuate},
		"shelve":        {rule: policies.ShelveServer, action: lifecycle.Shelve, code: accepted},
		"shelveOffload": {rule: policies.OffloadServer, action: lifecycle.Offload, code: accepted},
		"unshelve": {rule: policies.UnshelveServer, action: lifecycle.Unshelve, code: accepted,
			read: readUnshelve},
		"restore": {rule: policies.RestoreServer, action: lifecycle.Restore, code: accepted},
		"os-resetState": {rule: policies.ResetServer, action: lifecycle.Reset, code: accepted, whenLocked: true,
			read: readReset},
		"createImage": {rule: policies.CreateSnapshot, action: lifecycle.Snapshot, whenLocked: true, read: readSnapshot,
			answer: (*Handlers).answerImage},
		"createBackup": {rule: policies.CreateBackup, action: lifecycle.Backup, whenLocked: true, read: readBackup,
			answer: (*Handlers).answerImage},

		"forceDelete": {rule: policies.ForceDeleteServer, code: accepted, run: (*Handlers).forceDelete},
		"lock":        {rule: policies.LockServer, code: accepted, whenLocked: true, run: lockServer},
		"unlock":      {rule: policies.UnlockServer, code: accepted, whenLocked: true, run: unlockServer},
		"os-getConsoleOutput": {rule: policies.ConsoleOutput, code: http.StatusOK, whenLocked: true,
			run: (*Handlers).consoleOutput},
		"trigger_crash_dump":  {rule: policies.CrashDump, code: accepted, run: crashDump},
		"os-getVNCConsole":    {rule: policies.CreateConsole, whenLocked: true, run: (*Handlers).remoteConsole},
		"os-getSerialConsole": {rule: policies.CreateConsole, whenLocked: true, run: (*Handlers).remoteConsole},
		"os-getSPICEConsole":  {rule: policies.CreateConsole, whenLocked: true, run: (*Handlers).remoteConsole},
		"os-getRDPConsole":    {rule: policies.CreateConsole, whenLocked: true, run: (*Handlers).remoteConsole},
		"addSecurityGroup": {rule: policies.AddSecurityGroup, code: accepted, whenLocked: true,
			run: changeGroup("addSecurityGroup")},
		"removeSecurityGroup": {rule: policies.RemoveSecurityGroup, code: accepted, whenLocked: true,
			run: changeGroup("removeSecurityGroup")},
	}
}

// ActionRules returns the policy rules of the actions, by their key in the body.
func ActionRules() map[string]string {
	rules := map[string]string{}
	for key, d := range actionSpecs() {
		rules[key] = d.rule
	}
	return rules
}

// act is POST /v2.1/servers/{id}/action: an object with one key, which names the action.
func (s *Handlers) act(c *request.Call, found lifecycle.Server) error {
	var body map[string]json.RawMessage
	if err := c.ReadJSON(request.MaxBody, &body); err != nil {
		return err
	}
	if len(body) != 1 {
		return fault.New(fault.Invalid, "the body must have one key, the action; it has %d", len(body))
	}
	for key, raw := range body {
		c.Action = key
		d, known := actionSpecs()[key]
		if unsupportedActions[key] != "" {
			return refuseAction(c, key, raw, found)
		}
		if !known {
			return fault.New(fault.Invalid, "There is no such action: %s", edge.Clip(key))
		}
		if err := c.Authorize(d.rule, request.OwnerOf(found)); err != nil {
			return err
		}
		if !d.whenLocked {
			if err := request.RefuseLocked(c, found); err != nil {
				return err
			}
		}
		if d.run != nil {
			return d.run(s, c, raw, found)
		}
		return s.runAction(c, key, raw, d, found)
	}
	return nil
}

// forceDelete deletes a server at once, also one that is soft-deleted.
func (s *Handlers) forceDelete(c *request.Call, _ json.RawMessage, found lifecycle.Server) error {
	if err := s.Conductor.ForceDelete(c.R.Context(), found.ID, request.Caller(c)); err != nil {
		return err
	}
	return c.WriteStatus(http.StatusAccepted)
}

func (s *Handlers) consoleOutput(c *request.Call, arguments json.RawMessage, found lifecycle.Server) error {
	return s.Consoles.Output(c, arguments, found)
}

func (s *Handlers) remoteConsole(c *request.Call, arguments json.RawMessage, found lifecycle.Server) error {
	return s.Consoles.Act(c, arguments, found)
}

// runAction decodes the arguments of an action, starts it, and writes the response.
func (s *Handlers) runAction(c *request.Call, key string, raw json.RawMessage, d actionSpec,
	found lifecycle.Server) error {
	o := c.NewObject(key, map[string]json.RawMessage{})
	if d.read != nil && !edge.IsNull(raw) {
		if err := json.Unmarshal(raw, &o.Keys); err != nil || o.Keys == nil {
			return fault.New(fault.Invalid, "Invalid input for %s: it must be an object", key)
		}
	}
	want := lifecycle.ActionRequested{ID: s.NewID(), Action: d.action, By: request.Caller(c)}
	if d.read != nil {
		if err := d.read(s, c, o, found, &want); err != nil {
			return err
		}
		o.Reasons = servers.UnsupportedKeys(c.Microversion)
		if err := o.Finish(); err != nil {
			return err
		}
	}
	if err := networking.CheckMove(s.Networking, c, key, d.action, found); err != nil {
		return err
	}
	now, err := s.Conductor.Act(c.R.Context(), found.ID, want)
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "Instance %s could not be found.", found.ID)
	}
	if err != nil {
		return err
	}
	if d.answer != nil {
		return d.answer(s, c, now, want)
	}
	if d.action == lifecycle.Rebuild {
		return s.writeRebuilt(c, d.code, now, want.AdminPass)
	}
	if d.action == lifecycle.Evacuate && !c.Has(compute.NoSharedStorage) {
		return c.WriteJSON(d.code, compute.Passworded{AdminPass: servers.ShownPassword(s.Servers, want.AdminPass)})
	}
	return c.WriteStatus(d.code)
}

// changeGroup returns the handler of addSecurityGroup or removeSecurityGroup.
func changeGroup(key string) func(*Handlers, *request.Call, json.RawMessage, lifecycle.Server) error {
	change := networking.ChangeGroup(key)
	return func(s *Handlers, c *request.Call, raw json.RawMessage, found lifecycle.Server) error {
		return change(s.Networking, c, raw, found)
	}
}

// onFloating is the reason for which actions on floating IP addresses are refused: the Compute API itself has none
// since 2.44.
const onFloating = "floating IP addresses belong to the network service; associate one there with a port of the server"

// onPorts is the reason for which actions on addresses and groups are refused.
const onPorts = "addresses and groups belong to ports; attach, detach or change a port (os-interface)"

// unsupportedActions are the actions of POST /servers/{id}/action that the API has and Berth refuses, with the reasons.
var unsupportedActions = map[string]string{
	"changePassword":    onPassword,
	"addFixedIp":        onPorts,
	"removeFixedIp":     onPorts,
	"addFloatingIp":     onFloating,
	"removeFloatingIp":  onFloating,
	"resetNetwork":      onReset,
	"injectNetworkInfo": onNetworkInfo,
}
