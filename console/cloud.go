package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet/read"
)

// SignInKind is how users sign in.
type SignInKind string

// The kinds of sign-in.
const (
	WithToken    SignInKind = "token"      // a token, such as that of noauth2: USER or USER:PROJECT
	WithPassword SignInKind = "http_basic" // name and password
	WithKeystone SignInKind = "keystone"   // name, password, project and their domains
)

// Credentials are what a user signs in with.
type Credentials struct {
	User, Password      string
	Token               string // in place of a name and a password
	Project, UserDomain string // at Keystone
	ProjectDomain       string
}

// owner returns whose credentials these are: without a password, and without the project.
func (c Credentials) owner() Credentials {
	return Credentials{User: c.User, Token: c.Token, UserDomain: c.UserDomain}
}

// At returns the options of a service's account at Keystone with these credentials in place of those of the service.
func (c Credentials) At(o identity.KeystoneOptions) identity.KeystoneOptions {
	return identity.KeystoneOptions{AuthURL: o.AuthURL, Username: c.User, Password: c.Password,
		UserDomainName: c.UserDomain, ProjectName: c.Project, ProjectDomainName: c.ProjectDomain, Region: o.Region,
		Interface: o.Interface, Insecure: o.Insecure, CAFile: o.CAFile, CertFile: o.CertFile, KeyFile: o.KeyFile,
		Timeout: o.Timeout, Retries: o.Retries, Log: o.Log, Place: placeOfUser}
}

// placeOfUser names what a user has signed in with, for errors.
func placeOfUser(option string) string {
	if option == "auth_url" {
		return "the address of Keystone"
	}
	return "the name, the password, the project or the domains"
}

// Clients are the clients of a user.
type Clients struct {
	read.Services
	kept *read.Copy                               // what the session has read
	Ends func(context.Context) (time.Time, error) // when the token of the user expires; nil or zero: it is not known
}

// Cloud is the cloud that the console shows.
type Cloud struct {
	Kind   SignInKind
	Name   string                             // of the cloud or its address, for the sign-in page
	SignIn func(Credentials) (Clients, error) // makes no call
	Named  bool                               // a token is USER or USER:PROJECT, and no secret
	// Compute is the address of compute for browsers; empty: that in its answers. The answers of services in memory
	// have no address that browsers reach.
	Compute string
}

// nameOf returns the name that pages and the log show for a user.
func (c Cloud) nameOf(user Credentials) string {
	switch {
	case user.User != "":
		return user.User
	case c.Named && user.Token != "":
		name, _, _ := strings.Cut(user.Token, ":")
		return cmp.Or(name, user.Token)
	}
	return "user with a token"
}

// sessionTime is the time after which a user signs in again.
const sessionTime = 12 * time.Hour

// check signs a user in: it returns when the sign-in ends. It returns fault.Forbidden if the cloud refuses the
// credentials. A user without any right is not refused.
func (c *Clients) check(ctx context.Context, now time.Time) (ends time.Time, err error) {
	ends = now.Add(sessionTime)
	if c.Ends != nil {
		end, err := c.Ends(ctx)
		if err != nil {
			return ends, err
		}
		if !end.IsZero() && end.Before(ends) {
			ends = end
		}
	}
	kind, err := read.Negotiate(ctx, c.Compute)
	if err != nil {
		return ends, err
	}
	if !kind.Berth {
		c.Hosts = nil
	}
	_, err = c.Compute.REST.Do(ctx, http.MethodGet, "/v2.1/servers?"+url.Values{"limit": {"1"}}.Encode(), nil, nil)
	if err != nil && !refused(err) && fault.Is(err, fault.Forbidden) {
		err = nil
	}
	return ends, err
}

// refused reports whether a service or Keystone did not accept the credentials of a request.
func refused(err error) bool {
	if _, is := errors.AsType[*identity.RefusedAccount](err); is {
		return true
	}
	s := rest.StatusOf(err)
	return s != nil && s.Code == http.StatusUnauthorized
}

// untimed returns a copy of a client whose answers may take any time, for streams.
func untimed(client *rest.Client) *rest.Client {
	out, web := *client, http.Client{}
	if client.HTTP != nil {
		web = *client.HTTP
	}
	web.Timeout = 0
	out.HTTP = &web
	return &out
}
