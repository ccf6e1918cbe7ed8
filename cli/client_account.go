package cli

import (
	"cmp"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// The addresses of the services without an option.
const (
	DefaultPlacementURL = "http://127.0.0.1:8778"
	DefaultComputeURL   = "http://127.0.0.1:8774"
	DefaultNetworkURL   = "http://127.0.0.1:9696"
	DefaultImageURL     = "http://127.0.0.1:9292"
)

// defaultToken is the token without an account: that of noauth2's administrator.
const defaultToken = "admin"

// requestTime is the time limit of one request.
const requestTime = time.Minute

// commandAccount is the account of a command, with the addresses and certificates that belong to it.
type commandAccount struct {
	url     string // that serves all APIs; empty: none
	cloud   cloud
	account *identity.Account // nil: token
	token   string
	files   rest.TLSFiles
	http    *http.Client
	err     error // why there is no account, or which certificate cannot be used; returned by each request
}

// DefaultCloud is the cloud of clouds.yaml that commands use if nothing else selects an account or an address. `berth
// init` writes it.
const DefaultCloud = "berth"

// addressed reports whether the command line has an address of a service.
func addressed(g *Globals) bool {
	return cmp.Or(g.URL, g.PlacementURL, g.ComputeURL, g.NetworkURL, g.ImageURL) != ""
}

// newCommandAccount returns the account of a command: the token of the command line, else that of the OS_ variables or
// of a cloud in clouds.yaml, else that of DefaultCloud unless addressed, else the administrator of noauth2. addressed:
// the command line has an address of a service. files are the certificates of the command line. It makes no call.
func newCommandAccount(token, cloud string, addressed bool, files rest.TLSFiles) *commandAccount {
	a := &commandAccount{token: token, files: files, http: &http.Client{Timeout: requestTime}}
	a.err = a.find(cloud, addressed)
	return a
}

// find determines the account of a command without --token, and the certificates of its requests. name is that of the
// cloud in clouds.yaml.
func (a *commandAccount) find(name string, addressed bool) (err error) {
	var calls identity.ServiceCalls
	if a.token == "" {
		if a.cloud, err = selectCloud(name, addressed); err != nil {
			return err
		}
		a.files = a.cloud.certificates(a.files)
		if calls, a.token, err = a.cloud.calls(a.files); err != nil {
			return err
		}
		a.token = cmp.Or(a.token, defaultToken)
	}
	transport, err := a.files.Transport()
	if err != nil {
		return err
	}
	a.http.Transport = transport
	if a.account, err = calls.Account(); a.account != nil { // credentials are sent to no other server
		a.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	return err
}

// selectCloud returns the cloud with a name in clouds.yaml; without a name that of the OS_ variables, or DefaultCloud
// if none is set and the command line has no address.
func selectCloud(name string, addressed bool) (cloud, error) {
	c, err := readCloud(name)
	if err == nil && name == "" && !addressed && !c.isSet() {
		return readDefaultCloud(c)
	}
	return c, err
}

// connect sets the account and the address of a client of a service. address is that of the command line; missing is
// the address if no option and no catalog has one.
func (a *commandAccount) connect(client *rest.Client, kind, address, missing string) {
	switch {
	case a.err != nil:
		client.Account = failedAccount{a.err}
	case a.account != nil:
		client.Account = a.account
	default:
		client.Headers["X-Auth-Token"] = a.token
	}
	if client.HTTP == nil {
		client.HTTP = a.http
	}
	client.TLSNames = a.files.Names
	if address == "" && a.url != "" {
		address = strings.TrimRight(WithScheme(a.url), "/") + "/" + kind
	}
	address = cmp.Or(address, a.cloud.endpoint(kind))
	locate := a.account.Locate(kind)
	if kind == compute.CatalogType {
		address, locate = compute.RootURL(address), compute.LocateRoot(locate)
	}
	if kind == network.CatalogType {
		address, locate = network.RootURL(address), network.LocateRoot(locate)
	}
	if kind == image.CatalogType {
		address, locate = image.RootURL(address), image.LocateRoot(locate)
	}
	switch {
	case address != "":
		client.Base = strings.TrimRight(WithScheme(address), "/")
	case locate != nil:
		client.Locate = locate
	case a.cloud.name != "":
		client.Account = failedAccount{fault.New(fault.Invalid, "%s has no address of the %s service; set %s there, or the "+
			"URL on the command line", a.cloud.place(""), kind, overrides[kind]).WithCode(identity.CodeNoService)}
	default:
		client.Base = missing
	}
}

// overrides are the options of a cloud with the address of a type of service.
var overrides = map[string]string{placement.CatalogType: "placement_endpoint_override",
	compute.CatalogType: "compute_endpoint_override", network.CatalogType: "network_endpoint_override",
	image.CatalogType: "image_endpoint_override"}

// AddressOption returns the option of the command's cloud that has the address of a type of service, such as
// "network_endpoint_override of cloud red in clouds.yaml"; empty: the command uses no cloud.
func (g *Globals) AddressOption(kind string) string {
	a := g.account()
	if a.err != nil || !a.cloud.isSet() {
		return ""
	}
	return a.cloud.place(overrides[kind])
}

// WithScheme returns an address with http:// if it has no scheme, or https:// if its port is 443.
func WithScheme(address string) string {
	switch {
	case address == "" || strings.Contains(address, "://"):
		return address
	case strings.HasSuffix(strings.SplitN(address, "/", 2)[0], ":443"):
		return "https://" + address
	}
	return "http://" + address
}

// failedAccount is the account of a command that has none: every request fails with the reason.
type failedAccount struct{ err error }

// Sign returns the reason.
func (f failedAccount) Sign(*http.Request) error { return f.err }

// Renew reports that a new request fails as well.
func (f failedAccount) Renew(*http.Request) bool { return false }

// calls returns the account of a cloud, or a token that is sent as it is. Both are empty for a cloud without an
// account. files are the certificates of calls of Keystone.
func (c cloud) calls(files rest.TLSFiles) (calls identity.ServiceCalls, token string, err error) {
	get := c.get
	calls = identity.ServiceCalls{Type: identity.NoAccount, Region: get("region_name"),
		Interfaces: []string{strings.TrimSuffix(cmp.Or(get("interface"), get("endpoint_type"), "public"), "URL")}}
	calls.Keystone = identity.KeystoneOptions{Place: c.place, CAFile: files.CAFile, CertFile: files.CertFile,
		KeyFile: files.KeyFile, Insecure: files.Insecure, Interface: calls.Interfaces[0], Retries: 1,
		Timeout: requestTime, Log: slog.New(slog.DiscardHandler)}
	switch kind := c.authType(); kind {
	case "", "none":
	case "token", "v3token", "admin_token":
		if token = get("token"); token == "" {
			err = c.missing("token", "write a token, such as that of `openstack token issue`")
		}
	case "http_basic":
		calls.Type, calls.Name, calls.Password = identity.BasicAccount, get("username"), get("password")
		err = c.require("username", "password")
	case "password", "v3password":
		calls.Type = identity.KeystoneAccount
		k := &calls.Keystone
		k.AuthURL, k.Username, k.UserID, k.Password = get("auth_url"), get("username"), get("user_id"), get("password")
		k.UserDomainID, k.UserDomainName = c.domain("user_")
		k.ProjectID, k.ProjectName = get("project_id"), get("project_name")
		k.ProjectDomainID, k.ProjectDomainName = c.domain("project_")
		k.DomainID, k.DomainName, k.SystemScope = get("domain_id"), get("domain_name"), get("system_scope")
		k.TrustID = get("trust_id")
		if k.UserID == "" {
			err = c.require("auth_url", "username", "password")
		}
	case "v3applicationcredential":
		calls.Type = identity.KeystoneAccount
		k := &calls.Keystone
		k.AuthURL, k.Username, k.UserID = get("auth_url"), get("username"), get("user_id")
		k.UserDomainID, k.UserDomainName = c.domain("user_")
		k.ApplicationCredentialID = get("application_credential_id")
		k.ApplicationCredentialName = get("application_credential_name")
		k.ApplicationCredentialSecret = get("application_credential_secret")
		err = c.require("auth_url", "application_credential_secret")
	default:
		err = c.fault("auth_type", "%q is not supported; use password, v3applicationcredential, token, http_basic or none",
			kind)
	}
	return calls, token, err
}

// endpoint returns the address of a type of service that the cloud sets; empty if it sets none.
func (c cloud) endpoint(kind string) string {
	return cmp.Or(c.get(overrides[kind]), c.get("endpoint"))
}
