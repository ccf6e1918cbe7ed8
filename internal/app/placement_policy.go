package app

import (
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/policy"
)

// enforcer adapts an Enforcer of oslo.policy rules to the callers of the server.
type enforcer struct{ *policy.Enforcer }

// Allow decides whether a rule allows a caller to act on target; why is the reason if it does not.
func (e enforcer) Allow(rule string, caller identity.Identity, target map[string]any) (ok bool, why string) {
	return e.Enforcer.Allow(rule, caller.Credentials(), target)
}
