package app

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/network"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/console"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet/read"
	"github.com/openberth/berth/internal/settings"
)

// ConsoleCloud returns this cloud for users of the console, who sign in with their own accounts. The console calls the
// APIs in memory. If [neutron] names another network service, the console has no ports.
func (c *Cloud) ConsoleCloud() (console.Cloud, error) {
	out := console.Cloud{Kind: console.WithToken, Name: "this cloud", SignIn: c.signInByToken}
	out.Named = c.auth.strategy == settings.NoAuth2
	switch c.auth.strategy {
	case settings.NoAuth2:
	case settings.HTTPBasic:
		out.Kind = console.WithPassword
		out.SignIn = func(user console.Credentials) (console.Clients, error) {
			calls := identity.ServiceCalls{Type: identity.BasicAccount, Name: user.User, Password: user.Password}
			return c.signInBy(calls)
		}
	default:
		options, err := c.Settings.Keystone(slog.New(slog.DiscardHandler)) // its warnings were logged at the start
		if err != nil {
			return out, err
		}
		out.Kind = console.WithKeystone
		out.SignIn = func(user console.Credentials) (console.Clients, error) {
			return c.signInBy(identity.ServiceCalls{Type: identity.KeystoneAccount, Keystone: user.At(options)})
		}
	}
	return out, nil
}

// signInByToken returns the clients of a user of noauth2.
func (c *Cloud) signInByToken(user console.Credentials) (console.Clients, error) {
	if user.Token == "" {
		return console.Clients{}, fault.New(fault.Invalid, "the token is missing; write USER or USER:PROJECT, such as admin")
	}
	return c.consoleClients(nil, user.Token)
}

// signInBy returns the clients of an account.
func (c *Cloud) signInBy(calls identity.ServiceCalls) (console.Clients, error) {
	account, err := calls.Account()
	if err != nil {
		return console.Clients{}, err
	}
	out, err := c.consoleClients(account, "")
	out.Ends = account.Expires
	return out, err
}

// consoleClients returns clients of the services in memory with an account, or with a token if that is nil.
func (c *Cloud) consoleClients(account rest.Account, token string) (console.Clients, error) {
	web := func(s *Service) *http.Client {
		client := rest.InMemory(s.Handler)
		client.Timeout = consoleTime
		return client
	}
	p := api.NewClient("http://placement", web(c.Placement), token)
	v := compute.NewClient("http://compute", web(c.Compute), token)
	h := hostClient("http://compute", web(c.Compute))
	h.REST.Headers["X-Auth-Token"] = token
	n := network.NewClient("http://network", web(c.Network), token)
	for _, client := range []*rest.Client{p.REST, v.REST, h.REST, n.REST} {
		if account != nil {
			client.Account = account
		}
	}
	out := console.Clients{Services: read.Services{Placement: p, Compute: v, Hosts: &h, Network: n}}
	named, err := networkClient(c.Settings, rest.TLSFiles{})
	if named != nil {
		out.Network = nil
	}
	return out, err
}

// consoleTime is the time limit of a request of the console.
const consoleTime = time.Minute
