package server

import (
	"context"
	"net/http"
	"slices"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// maxAccount is the longest user id, in bytes; Keystone's have 64 at most.
const maxAccount = 255

// noAuth2 is the auth_strategy whose callers are not authenticated.
const noAuth2 = "noauth2"

// checkAccount returns fault.Forbidden if a host is bound to another account.
func (s *server) checkAccount(ctx context.Context, name, user string) error {
	bound, err := s.Store.HostAccount(ctx, name)
	if err == nil && s.applies(bound) && bound.Account != user {
		return otherAccount(name, user)
	}
	return err
}

// applies reports whether a binding exists and is one of the present strategy: a user id has no meaning under another.
func (s *server) applies(b store.HostAccount) bool {
	return b.Account != "" && b.Strategy == s.Strategy
}

// bind binds a host without a binding to the account of its agent, at the first contact. A start that may not serve the
// host gets no binding. It returns fault.Forbidden if another account is first.
func (s *server) bind(c *call, name string, from schedule.Sender) error {
	ctx, user := c.R.Context(), c.Who.User
	bound, err := s.Store.HostAccount(ctx, name)
	if err != nil {
		return err
	}
	if s.applies(bound) { // as byAgents has checked
		return nil
	}
	if err := s.Conductor.Admit(ctx, name, from); err != nil {
		return c.occupied(err)
	}
	bound, err = s.Store.BindFreeHost(ctx, store.HostAccount{Host: name, Account: user, Strategy: s.Strategy,
		Bound: s.Now()})
	if err != nil {
		return err
	}
	if bound.Account != user {
		return otherAccount(name, user)
	}
	s.Log.Info("host bound to an account", "host", name, "account", user)
	return nil
}

func otherAccount(name, user string) error {
	return fault.New(fault.Forbidden, "account %s may not speak for host %s: the host is bound to another account; "+
		"if the account of its agent has changed, an administrator runs `berth host bind %s %s`", user, name, name, user)
}

// bindHost is PUT /berth/v1/hosts/{host}/account: an operator binds a host to an account. The host may be new.
func (s *server) bindHost(c *call) error {
	var body host.Account
	if err := c.read(maxBody, &body); err != nil {
		return err
	}
	if body.Account == "" || len(body.Account) > maxAccount {
		return fault.New(fault.Invalid, "account must be a user id of 1 to %d bytes", maxAccount)
	}
	if err := s.Store.BindHost(c.R.Context(), store.HostAccount{Host: c.R.PathValue("host"), Account: body.Account,
		Strategy: s.Strategy, Bound: s.Now()}); err != nil {
		return err
	}
	s.Log.Info("host bound to an account by an operator", "host", c.R.PathValue("host"), "account", body.Account,
		"operator", c.Who.User)
	return c.writeStatus(http.StatusNoContent)
}

// unbindHost is DELETE /berth/v1/hosts/{host}/account: the next account that contacts compute for the host is bound.
func (s *server) unbindHost(c *call) error {
	name := c.R.PathValue("host")
	if err := s.Store.UnbindHost(c.R.Context(), name); err != nil {
		return s.unboundHost(c.R.Context(), name, err)
	}
	s.Log.Info("host unbound by an operator", "host", name, "operator", c.Who.User)
	return c.writeStatus(http.StatusNoContent)
}

// unboundHost adds similar names to a fault of kind NotFound, if the host does not exist.
func (s *server) unboundHost(ctx context.Context, name string, err error) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	known, wrong := s.hostNames(ctx)
	if wrong != nil {
		return wrong
	}
	if slices.Contains(known, name) {
		return err
	}
	return provider.UnknownHost(name, known)
}

// boundAccounts returns the accounts that hosts are bound to, by host.
func (s *server) boundAccounts(ctx context.Context) (map[string]string, error) {
	all, err := s.Store.HostAccounts(ctx)
	accounts := map[string]string{}
	for name, b := range all {
		if s.applies(b) {
			accounts[name] = b.Account
		}
	}
	return accounts, err
}
