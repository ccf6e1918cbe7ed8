package hosts

import (
	"context"
	"net/http"
	"slices"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// Accounts is what the handlers need of the accounts that hosts are bound to; *store.Store implements it.
type Accounts interface {
	HostAccounts(ctx context.Context) (map[string]store.HostAccount, error)
	HostAccount(ctx context.Context, host string) (store.HostAccount, error)
	BindHost(ctx context.Context, b store.HostAccount) error
	BindFreeHost(ctx context.Context, b store.HostAccount) (store.HostAccount, error)
	UnbindHost(ctx context.Context, host string) error
}

// accountRoutes returns the paths of the accounts of hosts.
func accountRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/berth/v1/hosts/{host}/account": {
			http.MethodPut:    request.Guarded(policies.BindHost, s.bindHost),
			http.MethodDelete: request.Guarded(policies.UnbindHost, s.unbindHost),
		},
	}
}

// maxAccount is the longest user id, in bytes; Keystone's have 64 at most.
const maxAccount = 255

// bind binds a host without a binding to the account of its agent, at the first contact. A start that may not serve the
// host gets no binding. It returns fault.Forbidden if another account is first.
func (s *Handlers) bind(c *request.Call, name string, from schedule.Sender) error {
	ctx, user := c.R.Context(), c.Who.User
	bound, err := s.Accounts.HostAccount(ctx, name)
	if err != nil {
		return err
	}
	if s.Applies(bound) { // as byAgents has checked
		return nil
	}
	if err := s.Agents.Admit(ctx, name, from); err != nil {
		return occupied(c, err)
	}
	bound, err = s.Accounts.BindFreeHost(ctx, store.HostAccount{Host: name, Account: user, Strategy: s.Strategy,
		Bound: s.Now()})
	if err != nil {
		return err
	}
	if bound.Account != user {
		return request.OtherAccount(name, user)
	}
	s.Log.Info("host bound to an account", "host", name, "account", user)
	return nil
}

// bindHost is PUT /berth/v1/hosts/{host}/account: an operator binds a host to an account. The host may be new.
func (s *Handlers) bindHost(c *request.Call) error {
	var body host.Account
	if err := c.ReadJSON(request.MaxBody, &body); err != nil {
		return err
	}
	if body.Account == "" || len(body.Account) > maxAccount {
		return fault.New(fault.Invalid, "account must be a user id of 1 to %d bytes", maxAccount)
	}
	if err := s.Accounts.BindHost(c.R.Context(), store.HostAccount{Host: c.R.PathValue("host"), Account: body.Account,
		Strategy: s.Strategy, Bound: s.Now()}); err != nil {
		return err
	}
	s.Log.Info("host bound to an account by an operator", "host", c.R.PathValue("host"), "account", body.Account,
		"operator", c.Who.User)
	return c.WriteStatus(http.StatusNoContent)
}

// unbindHost is DELETE /berth/v1/hosts/{host}/account: the next account that contacts compute for the host is bound.
func (s *Handlers) unbindHost(c *request.Call) error {
	name := c.R.PathValue("host")
	if err := s.Accounts.UnbindHost(c.R.Context(), name); err != nil {
		return s.unboundHost(c.R.Context(), name, err)
	}
	s.Log.Info("host unbound by an operator", "host", name, "operator", c.Who.User)
	return c.WriteStatus(http.StatusNoContent)
}

// unboundHost adds similar names to a fault of kind NotFound, if the host does not exist.
func (s *Handlers) unboundHost(ctx context.Context, name string, err error) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	known, wrong := s.HostNames(ctx)
	if wrong != nil {
		return wrong
	}
	if slices.Contains(known, name) {
		return err
	}
	return provider.UnknownHost(name, known)
}

// boundAccounts returns the accounts that hosts are bound to, by host.
func (s *Handlers) boundAccounts(ctx context.Context) (map[string]string, error) {
	all, err := s.Accounts.HostAccounts(ctx)
	accounts := map[string]string{}
	for name, b := range all {
		if s.Applies(b) {
			accounts[name] = b.Account
		}
	}
	return accounts, err
}
