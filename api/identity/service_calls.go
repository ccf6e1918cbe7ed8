package identity

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

// AccountType is the kind of an account.
type AccountType string

// Types of accounts. None sends the token of noauth2.
const (
	NoAccount       AccountType = "none"
	BasicAccount    AccountType = "http_basic"
	KeystoneAccount AccountType = "keystone"
)

// ServiceCalls are the options with which one service calls another one: its account, its address and its
// certificates.
type ServiceCalls struct {
	Group      string          // the group of the options, for errors
	Type       AccountType     // NoAccount also if auth_type is not set
	Keystone   KeystoneOptions // the account, if it is at Keystone; for all types Insecure, CAFile, CertFile, KeyFile
	Name       string          // username, for BasicAccount
	Password   string          // password, for BasicAccount
	Address    string          // endpoint_override, or endpoint; empty: that of Keystone's catalog
	Region     string          // region_name, in that catalog
	Interfaces []string        // valid_interfaces, in that catalog
}

// Named reports whether the options name the service: by its address, or by an account of Keystone, whose catalog has
// it.
func (c ServiceCalls) Named() bool { return c.Address != "" || c.Type == KeystoneAccount }

// KnownCalls lists the options that ReadCalls reads in a group.
func KnownCalls(group string) []config.Name {
	names := KnownAccount(group)
	for _, option := range []string{"endpoint_override", "endpoint", "region_name", "valid_interfaces"} {
		names = append(names, config.Name{Group: group, Option: option})
	}
	return names
}

// ReadCalls reads the options with which a service calls another one from the group of that service, such as
// placement. They have keystoneauth's names; auth_type may be none, http_basic, password or v3applicationcredential.
func ReadCalls(c *config.Config, group string) (s ServiceCalls, err error) {
	read := reader{c: c, group: group, more: "none, http_basic, "}
	s.Group, s.Type = group, NoAccount
	s.Address, s.Region = read.text("endpoint_override"), read.text("region_name")
	s.Interfaces = read.interfaces("valid_interfaces")
	read.connection(&s.Keystone)
	if section := read.text("auth_section"); section != "" {
		read.group = section
	}
	s.Keystone.Group = read.group
	switch read.text("auth_type", "auth_plugin") {
	case "", "none":
		s.Address = cmp.Or(s.Address, read.text("endpoint"))
	case "http_basic":
		s.Type, s.Address = BasicAccount, cmp.Or(s.Address, read.text("endpoint"))
		s.Name, s.Password = read.text("username", "user_name"), read.text("password")
	default:
		s.Type = KeystoneAccount
		read.service(&s.Keystone)
	}
	return s, read.err
}

// interfaces reads a list of the interfaces of a catalog.
func (read *reader) interfaces(option string) (list []string) {
	if read.err != nil {
		return nil
	}
	list, read.err = read.c.Strings(read.group, option, []string{"internal", "public"})
	for _, name := range list {
		if e, _ := read.c.Get(read.group, option); !slices.Contains([]string{"public", "internal", "admin"}, name) {
			read.err = e.Fault("%q is not an interface; write public, internal or admin, separated by commas", name)
		}
	}
	return list
}

// checkBasic checks an account of HTTP Basic authentication.
func (s ServiceCalls) checkBasic() error {
	section := s.Keystone.section()
	switch {
	case s.Name == "":
		return fault.New(fault.Invalid, "[%s] username is missing; write the name of an account of the user file",
			section)
	case s.Password == "":
		return fault.New(fault.Invalid, "[%s] password is missing; write that of the account %s", section, s.Name)
	case strings.Contains(s.Name, ":"):
		return fault.New(fault.Invalid, "[%s] username contains a colon, which HTTP Basic authentication cannot send; "+
			"use another account", section)
	}
	return nil
}

// Account returns the account that signs requests; nil for NoAccount. It makes no call. It returns fault.Invalid if the
// account is not complete.
func (s ServiceCalls) Account() (*Account, error) {
	switch s.Type {
	case BasicAccount:
		return &Account{calls: s}, s.checkBasic()
	case KeystoneAccount:
		k, err := NewKeystone(s.Keystone)
		return &Account{calls: s, keystone: k}, err
	}
	return nil, nil
}

// Account signs the requests of a client. It is a rest.Account, and safe for concurrent use.
type Account struct {
	calls    ServiceCalls
	keystone *Keystone // nil: name and password, by HTTP Basic authentication
}

// Sign adds the credentials to a request: the token of the account, which is renewed before it expires, or its name and
// password. It returns fault.Unavailable if Keystone rejects the account or does not answer.
func (a *Account) Sign(r *http.Request) error {
	r.Header.Del("X-Auth-Token")
	if a.keystone == nil {
		r.SetBasicAuth(a.calls.Name, a.calls.Password)
		return nil
	}
	token, err := a.keystone.SignIn(r.Context())
	if err != nil {
		return err
	}
	r.Header.Set("X-Auth-Token", token)
	return nil
}

// Renew discards the token of a request that was answered with 401, and reports whether Sign gets a new one.
func (a *Account) Renew(r *http.Request) bool {
	if a.keystone == nil {
		return false
	}
	a.keystone.Forget(r.Header.Get("X-Auth-Token"))
	return true
}

// Expires returns when the present token of the account expires; zero for an account that is not at Keystone.
func (a *Account) Expires(ctx context.Context) (time.Time, error) {
	if a.keystone == nil {
		return time.Time{}, nil
	}
	return a.keystone.Expires(ctx)
}

// Locate returns the address of a service in Keystone's catalog, by its type. It returns nil for an account that is not
// at Keystone: there is no catalog.
func (a *Account) Locate(kind string) func(context.Context) (string, error) {
	if a == nil || a.keystone == nil {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		address, err := a.keystone.Address(ctx, kind, a.calls.Interfaces, a.calls.Region)
		return strings.TrimRight(address, "/"), err
	}
}
