package identity

// Policy is a set of access rules; *policy.Enforcer is one. caller has the attributes of Credentials.
type Policy interface {
	Allow(rule string, caller, target map[string]any) (ok bool, why string)
}

// Enforcer evaluates the rules of a policy for the callers of requests.
type Enforcer struct{ Policy Policy }

// Allow decides whether a rule allows a caller to act on target; why is the reason if it does not.
func (e Enforcer) Allow(rule string, caller Identity, target map[string]any) (ok bool, why string) {
	return e.Policy.Allow(rule, caller.Credentials(), target)
}
