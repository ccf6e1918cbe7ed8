package identity

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

// accountOptions are the options of keystoneauth with which a service signs in at Keystone to call another service.
var accountOptions = [...]string{"auth_section", "auth_type", "auth_plugin", "auth_url", "username",
	"user_name", "user_id", "password", "user_domain_name", "user_domain_id", "project_name", "tenant_name",
	"project_id", "tenant_id", "project_domain_name", "project_domain_id", "domain_name", "domain_id",
	"default_domain_name", "default_domain_id", "system_scope", "application_credential_id",
	"application_credential_name", "application_credential_secret", "insecure", "cafile", "certfile", "keyfile",
	"timeout"}

// KnownAccount lists the options of an account at Keystone in a group.
func KnownAccount(group string) []config.Name {
	names := []config.Name{}
	for _, option := range accountOptions {
		names = append(names, config.Name{Group: group, Option: option})
	}
	return names
}

// connection reads the options for connections: the certificates and the time limit.
func (read *reader) connection(o *KeystoneOptions) {
	o.CAFile, o.CertFile, o.KeyFile = read.text("cafile"), read.text("certfile"), read.text("keyfile")
	o.Insecure = read.flag("insecure")
	o.Timeout = time.Duration(read.number("timeout", 10, 1, 600)) * time.Second
}

// section returns the group of the options, for errors.
func (o KeystoneOptions) section() string {
	if o.Group == "" {
		return group
	}
	return o.Group
}

// place names an option in errors, or all options with "".
func (o KeystoneOptions) place(option string) string {
	if o.Place != nil {
		return o.Place(option)
	}
	return strings.TrimSpace("[" + o.section() + "] " + option)
}

// Client returns an HTTP client with the options' certificates and time-out. It follows no redirection, so that a token
// is sent to no other server. It returns fault.Invalid if a certificate cannot be read.
func (o KeystoneOptions) Client() (*http.Client, error) {
	secure, err := o.tls()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = secure
	transport.MaxIdleConnsPerHost = 16
	return &http.Client{Transport: transport, Timeout: o.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// SignIn returns the service's own token, which is renewed before it expires. It returns fault.Unavailable if Keystone
// rejects the account or does not answer.
func (k *Keystone) SignIn(ctx context.Context) (token string, err error) {
	s, err := k.signIn(ctx)
	return s.token, err
}

// Expires returns when the present token of SignIn expires.
func (k *Keystone) Expires(ctx context.Context) (time.Time, error) {
	s, err := k.signIn(ctx)
	return s.expires, err
}

// Forget makes SignIn get a new token in place of this one, which a service has rejected.
func (k *Keystone) Forget(token string) { k.forget(token) }

// CodeNoService is the code of the error for a service that a cloud does not have.
const CodeNoService = "berth.no_service"

// Address returns the URL of a service in the catalog of the service's own token: that of the first of the interfaces
// that the catalog has in the region; an empty region matches any. It returns fault.Unavailable if there is none, with
// the code CodeNoService if the catalog has no such service in any region.
func (k *Keystone) Address(ctx context.Context, kind string, interfaces []string, region string) (string, error) {
	s, err := k.signIn(ctx)
	if err != nil {
		return "", err
	}
	for _, face := range interfaces {
		if address := s.catalog.addressOf(kind, face, region); address != "" {
			return address, nil
		}
	}
	where := ""
	if region != "" {
		where = " in region " + region
	}
	missing := fault.New(fault.Unavailable, "Keystone's catalog has no service of type %s%s with the interface %s; "+
		"check region_name and valid_interfaces, or write endpoint_override", kind, where, strings.Join(interfaces, " or "))
	if !s.catalog.has(kind) {
		missing = missing.WithCode(CodeNoService)
	}
	return "", missing
}
