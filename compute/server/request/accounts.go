package request

import (
	"context"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// ByAgents returns a guarded method that only the agent of the host in the path calls, and often: it is logged at debug
// level. If the host is bound to an account, the caller must be that account.
func (l *Lookups) ByAgents(rule string, handle func(*Call) error) Method {
	return Method{Spec: edge.Spec{Rule: rule, Quiet: true, AnyText: true}, Handle: func(c *Call) error {
		if err := l.CheckAccount(c.R.Context(), c.R.PathValue("host"), c.Who.User); err != nil {
			return err
		}
		return handle(c)
	}}
}

// CheckAccount returns fault.Forbidden if a host is bound to another account.
func (l *Lookups) CheckAccount(ctx context.Context, name, user string) error {
	bound, err := l.store.HostAccount(ctx, name)
	if err == nil && l.Applies(bound) && bound.Account != user {
		return OtherAccount(name, user)
	}
	return err
}

// Applies reports whether a binding exists and is one of the present strategy: a user id has no meaning under another.
func (l *Lookups) Applies(b store.HostAccount) bool {
	return b.Account != "" && b.Strategy == l.strategy
}

// OtherAccount returns the fault of an account that is not the one to which a host is bound.
func OtherAccount(name, user string) error {
	return fault.New(fault.Forbidden, "account %s may not speak for host %s: the host is bound to another account; "+
		"if the account of its agent has changed, an administrator runs `berth host bind %s %s`", user, name, name, user)
}
