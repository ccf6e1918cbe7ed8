package cli

import (
	"fmt"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// outcome describes an action of the Compute API for a command that waits until it has ended.
type outcome struct {
	participle string                                  // "server web was not migrated"
	done       func(before, after compute.Server) bool // nil: every server without a fault
}

// outcomes are the actions that commands wait for, by their keys in the Compute API.
var outcomes = map[string]outcome{
	"os-stop":        {"stopped", hasStatus("SHUTOFF")},
	"os-start":       {"started", hasStatus("ACTIVE")},
	"reboot":         {"rebooted", hasStatus("ACTIVE")},
	"rebuild":        {"rebuilt", nil},
	"resize":         {"resized", isResized},
	"migrate":        {"migrated", isMigrated},
	"os-migrateLive": {"migrated", isOnAnotherHost},
	"evacuate":       {"evacuated", isOnAnotherHost},
	"confirmResize":  {"confirmed", isNotInVerifyResize},
	"revertResize":   {"reverted", isNotInVerifyResize},
	"shelve":         {"shelved", hasStatus("SHELVED_OFFLOADED", "SHELVED")},
	"unshelve":       {"unshelved", hasStatus("ACTIVE", "SHUTOFF")},
	"restore":        {"restored", hasStatus("ACTIVE")},
}

func hasStatus(wanted ...string) func(before, after compute.Server) bool {
	return func(_, after compute.Server) bool {
		for _, status := range wanted {
			if after.Status == status {
				return true
			}
		}
		return false
	}
}

// isResized accepts a resize that is already confirmed, such as by another user.
func isResized(before, after compute.Server) bool {
	return after.Status == "VERIFY_RESIZE" || flavorOf(before) != flavorOf(after)
}

func isMigrated(before, after compute.Server) bool {
	return after.Status == "VERIFY_RESIZE" || isOnAnotherHost(before, after)
}

// isOnAnotherHost accepts servers whose hosts the service does not show to the caller; their faults show a failure.
func isOnAnotherHost(before, after compute.Server) bool {
	return before.Place == nil || after.Place == nil || hostOf(before) != hostOf(after)
}

func isNotInVerifyResize(_, after compute.Server) bool { return after.Status != "VERIFY_RESIZE" }

// failure returns why a server whose task has ended is not as the action should have left it, or nil. Servers in ERROR
// are not considered: failures names them. The service shows the fault of a server until its next action.
func (o outcome) failure(before, after compute.Server) error {
	reason := strings.TrimSuffix(faultOf(after), ".")
	switch {
	case after.Status == "ERROR":
		return nil
	case reason == "" && (o.done == nil || o.done(before, after)):
		return nil
	case reason == "":
		reason = "it is " + statusOf(after)
		if host := hostOf(after); host != "" {
			reason += " on " + host
		}
	}
	name := after.Name
	if name == "" {
		name = after.ID
	}
	return fault.New(fault.Conflict, "server %s was not %s: %s; see `berth server why %s`", name, o.participle,
		reason, name)
}

// nextSteps returns what the user does next with servers in VERIFY_RESIZE, or an empty string without such servers.
func nextSteps(list []compute.Server) string {
	var names []string
	for _, s := range list {
		if s.Status == "VERIFY_RESIZE" {
			names = append(names, provider.Printable(s.Name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	all := strings.Join(names, " ")
	return fmt.Sprintf("in VERIFY_RESIZE: `berth server confirm %s` releases the source, `berth server revert %s` "+
		"returns to it\n", all, all)
}
