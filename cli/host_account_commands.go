package cli

import (
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// HostBindCmd binds a host to an account.
type HostBindCmd struct {
	Host    string `arg:"" help:"Name of the host."`
	Account string `arg:"" help:"The account: with http_basic its name, with Keystone the id of the user."`
}

// hostAccount is the result of HostBindCmd and HostUnbindCmd.
type hostAccount struct {
	Host    string `json:"host"`
	Account string `json:"account"`
}

// Run sends the binding to compute, and prints it.
func (c *HostBindCmd) Run(g *Globals) error {
	if err := provider.CheckHostName(c.Host); err != nil {
		return err
	}
	if c.Account == "" {
		return fault.New(fault.Invalid, "the account is empty; write a user's name or id, or use `berth host unbind`")
	}
	ctx, cancel := g.context()
	defer cancel()
	if err := g.hosts().Bind(ctx, c.Host, c.Account); err != nil {
		return err
	}
	return printHostAccount(g, hostAccount{c.Host, c.Account})
}

// HostUnbindCmd removes the binding of a host.
type HostUnbindCmd struct {
	Host string `arg:"" help:"Name of the host."`
}

// Run sends the removal to compute, and prints the host.
func (c *HostUnbindCmd) Run(g *Globals) error {
	if err := provider.CheckHostName(c.Host); err != nil {
		return err
	}
	ctx, cancel := g.context()
	defer cancel()
	if err := g.hosts().Unbind(ctx, c.Host); err != nil {
		return err
	}
	return printHostAccount(g, hostAccount{Host: c.Host})
}

func printHostAccount(g *Globals, a hostAccount) error {
	return g.print(a, []string{"Host", "Account"}, [][]string{{a.Host, dash(a.Account)}})
}
