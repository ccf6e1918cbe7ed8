package cli

import (
	"cmp"
	"maps"
	"net/http"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/console"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet/read"
)

// ConsoleCloud returns the cloud of the command for users of the console: they sign in with their own accounts, at the
// addresses and with the certificates of the command. The account of the command is not used.
func ConsoleCloud(g *Globals) (console.Cloud, error) {
	found, err := selectCloud(g.OSCloud, addressed(g))
	if err != nil {
		return console.Cloud{}, err
	}
	kind, err := signInKind(found)
	if err != nil {
		return console.Cloud{}, err
	}
	return console.Cloud{Kind: kind, Name: cloudName(g, found), Named: found.authType() == "none",
		SignIn: func(c console.Credentials) (console.Clients, error) {
			return consoleClients(g, found.of(c), c)
		}}, nil
}

// cloudName returns the name or the address of a cloud.
func cloudName(g *Globals, c cloud) string {
	return cmp.Or(g.URL, g.ComputeURL, c.name, c.get("auth_url"), c.endpoint(compute.CatalogType), DefaultComputeURL)
}

// signInKind returns how users sign in to a cloud.
func signInKind(c cloud) (console.SignInKind, error) {
	switch kind := c.authType(); kind {
	case "", "none", "token", "v3token", "admin_token":
		return console.WithToken, nil
	case "http_basic":
		return console.WithPassword, nil
	case "password", "v3password", "v3applicationcredential":
		if c.get("auth_url") == "" {
			return "", c.missing("auth_url", "write the address of Keystone, with which the console signs users in")
		}
		return console.WithKeystone, nil
	default:
		return "", c.fault("auth_type", "%q is not supported; use password, http_basic or none", kind)
	}
}

// of returns the cloud with the account of a user in place of its own.
func (c cloud) of(user console.Credentials) cloud {
	c.options = maps.Clone(c.options)
	for _, option := range []string{"user_id", "project_id", "tenant_id", "tenant_name", "user_domain_id",
		"project_domain_id", "default_domain", "default_domain_id", "default_domain_name", "domain_id", "domain_name",
		"system_scope", "application_credential_id", "application_credential_name", "application_credential_secret",
		"token"} {
		delete(c.options, option)
	}
	if kind := c.authType(); kind == "v3applicationcredential" || kind == "v3password" {
		c.options["auth_type"] = "password"
	}
	c.options["username"], c.options["password"] = user.User, user.Password
	c.options["user_domain_name"], c.options["project_domain_name"] = user.UserDomain, user.ProjectDomain
	c.options["project_name"] = user.Project
	return c
}

// consoleClients returns clients with the account of a user.
func consoleClients(g *Globals, c cloud, user console.Credentials) (out console.Clients, err error) {
	a := &commandAccount{cloud: c, token: user.Token, url: g.URL, files: c.certificates(g.TLSFiles()),
		http: &http.Client{Timeout: requestTime}}
	transport, err := a.files.Transport()
	if err != nil {
		return out, err
	}
	a.http.Transport = transport
	a.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if user.Token == "" {
		calls, _, err := c.calls(a.files)
		if err != nil {
			return out, err
		}
		calls.Keystone = user.At(calls.Keystone)
		if a.account, err = calls.Account(); err != nil {
			return out, err
		}
	}
	if user.Token == "" && a.account == nil {
		return out, fault.New(fault.Invalid, "the token is missing; write it")
	}
	return a.consoleClients(g), nil
}

// consoleClients returns the clients of an account.
func (a *commandAccount) consoleClients(g *Globals) console.Clients {
	p, c, n := placement.NewClient("", nil, ""), compute.NewClient("", nil, ""), network.NewClient("", nil, "")
	h := host.Client{REST: &rest.Client{Headers: map[string]string{}}}
	a.connect(p.REST, placement.CatalogType, g.PlacementURL, DefaultPlacementURL)
	a.connect(c.REST, compute.CatalogType, g.ComputeURL, DefaultComputeURL)
	a.connect(n.REST, network.CatalogType, g.NetworkURL, DefaultNetworkURL)
	a.connect(h.REST, compute.CatalogType, g.ComputeURL, DefaultComputeURL)
	out := console.Clients{Services: read.Services{Placement: p, Compute: c, Network: n, Hosts: &h}}
	if a.account != nil {
		out.Ends = a.account.Expires
	}
	return out
}
