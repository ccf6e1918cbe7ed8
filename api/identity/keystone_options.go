package identity

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

// KeystoneOptions are the options of [keystone_authtoken]. AuthURL is required, and either a user with a password or an
// application credential.
type KeystoneOptions struct {
	Group string                     // their group, for errors; empty: keystone_authtoken
	Place func(option string) string // names an option, or all with "", in errors; nil: [Group] option

	AuthURL   string // auth_url, with or without /v3
	PublicURL string // www_authenticate_uri, sent to callers without a token; empty: AuthURL

	Username, UserID, Password         string
	UserDomainName, UserDomainID       string
	ProjectName, ProjectID             string // scope of the service's token, if SystemScope and DomainID are empty
	ProjectDomainName, ProjectDomainID string
	DomainName, DomainID               string
	SystemScope                        string // "all"
	TrustID                            string // the token has what the trust delegates; excludes the other scopes

	ApplicationCredentialID, ApplicationCredentialName, ApplicationCredentialSecret string

	Region                    string // region_name: of the endpoint in the catalog that tokens are validated at
	Interface                 string // interface: of that endpoint; empty: internal
	Insecure                  bool   // the server's certificate is not checked
	CAFile, CertFile, KeyFile string
	Timeout                   time.Duration // http_connect_timeout, of one call; 0: 10 seconds
	Retries                   int           // http_request_max_retries: how often a call without an answer is retried
	CacheTime                 time.Duration // token_cache_time; 0: 300 seconds; negative: no cache
	ServiceRoles              []string      // service_token_roles: a service with one of them may forward expired tokens
	ServiceRolesRequired      bool          // service_token_roles_required: others are rejected
	ServiceType               string        // service_type: the name of this service in access rules
	Log                       *slog.Logger  // nil: slog.Default()
}

func (o KeystoneOptions) check() error {
	missing := func(option, remedy string) error {
		return fault.New(fault.Invalid, "%s is missing; %s", o.place(option), remedy)
	}
	address, err := url.Parse(o.AuthURL)
	switch {
	case o.AuthURL == "":
		return missing("auth_url", "write Keystone's address, such as http://controller:5000")
	case err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https":
		return fault.New(fault.Invalid, "%s = %s is not an HTTP URL; "+
			"write one such as http://controller:5000", o.place("auth_url"), o.AuthURL)
	case o.usesApplicationCredential():
		if o.ApplicationCredentialSecret == "" {
			return missing("application_credential_secret", "write it, or use auth_type = password")
		}
		if o.ApplicationCredentialID == "" && o.UserID == "" &&
			(o.Username == "" || o.UserDomainID == "" && o.UserDomainName == "") {
			return missing("application_credential_id", "write it, or the user that application_credential_name belongs to")
		}
		return nil
	case o.Username == "" && o.UserID == "":
		return missing("username", "write the name of the service's user, such as placement")
	case o.Password == "":
		return missing("password", "write that of the user "+o.Username+o.UserID)
	case o.UserID == "" && o.UserDomainID == "" && o.UserDomainName == "":
		return missing("user_domain_name", "write the domain of the user, such as Default")
	case o.ProjectName != "" && o.ProjectID == "" && o.ProjectDomainID == "" && o.ProjectDomainName == "":
		return missing("project_domain_name", "write the domain of the project, such as Default")
	}
	return nil
}

func (o KeystoneOptions) usesApplicationCredential() bool {
	return o.ApplicationCredentialID != "" || o.ApplicationCredentialName != "" || o.ApplicationCredentialSecret != ""
}

func (o KeystoneOptions) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: o.Insecure}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fault.New(fault.Invalid, "%s cannot be read: %w", o.place("cafile"), err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fault.New(fault.Invalid, "%s = %s holds no certificate in PEM", o.place("cafile"), o.CAFile)
		}
	}
	if o.CertFile != "" {
		keyFile := o.KeyFile
		if keyFile == "" {
			keyFile = o.CertFile
		}
		pair, err := tls.LoadX509KeyPair(o.CertFile, keyFile)
		if err != nil {
			return nil, fault.New(fault.Invalid, "%s and keyfile cannot be used: %w", o.place("certfile"), err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

const group = "keystone_authtoken"

// ignoredOptionNames are options of keystonemiddleware that have no effect here, because they are about memcached and
// about forwarded headers.
var ignoredOptionNames = [...]string{"memcached_servers", "memcache_servers", "memcache_security_strategy",
	"memcache_secret_key", "memcache_use_advanced_pool", "memcache_pool_dead_retry", "memcache_pool_maxsize",
	"memcache_pool_socket_timeout", "memcache_pool_unused_timeout", "memcache_pool_conn_get_timeout", "cache",
	"auth_version", "include_service_catalog", "delay_auth_decision", "enforce_token_bind", "log_name"}

// readOptions are the options that ReadKeystone reads.
var readOptions = [...]string{"auth_section", "auth_type", "auth_plugin", "auth_url", "www_authenticate_uri",
	"auth_uri",
	"username", "user_name", "user_id", "password", "user_domain_name", "user_domain_id", "project_name",
	"tenant_name", "project_id", "tenant_id", "project_domain_name", "project_domain_id", "domain_name", "domain_id",
	"default_domain_name", "default_domain_id", "system_scope", "application_credential_id",
	"application_credential_name", "application_credential_secret", "region_name", "interface", "insecure",
	"cafile", "certfile", "keyfile", "http_connect_timeout", "http_request_max_retries", "token_cache_time",
	"service_token_roles", "service_token_roles_required", "service_type"}

// KnownKeystone lists the options of [keystone_authtoken] that are read or deliberately ignored, for
// config.Config.Unknown.
func KnownKeystone() []config.Name {
	names := []config.Name{}
	for _, option := range slices.Concat(readOptions[:], ignoredOptionNames[:]) {
		names = append(names, config.Name{Group: group, Option: option})
	}
	return names
}

// ReadKeystone reads [keystone_authtoken], as keystonemiddleware does, and returns warnings about options that it
// ignores. auth_section names another group with the account of the service. auth_type is password or
// v3applicationcredential.
func ReadKeystone(c *config.Config) (o KeystoneOptions, warnings []string, err error) {
	read := reader{c: c, group: group}
	o.PublicURL = read.text("www_authenticate_uri", "auth_uri")
	o.Interface = read.face()
	o.Region = read.text("region_name")
	o.CAFile, o.CertFile, o.KeyFile = read.text("cafile"), read.text("certfile"), read.text("keyfile")
	o.ServiceType = read.text("service_type")
	o.Insecure = read.flag("insecure")
	o.ServiceRolesRequired = read.flag("service_token_roles_required")
	o.Timeout = time.Duration(read.number("http_connect_timeout", 0, 0, 600)) * time.Second
	o.Retries = read.number("http_request_max_retries", 3, 0, 100)
	o.CacheTime = time.Duration(read.number("token_cache_time", 300, -1, 24*60*60)) * time.Second
	if o.CacheTime == 0 {
		o.CacheTime = -1
	}
	if read.err == nil {
		o.ServiceRoles, read.err = c.Strings(group, "service_token_roles", []string{"service"})
	}
	if section := read.text("auth_section"); section != "" {
		read.group = section
	}
	read.service(&o)
	if read.err != nil {
		return KeystoneOptions{}, nil, read.err
	}
	if o.PublicURL == "" {
		warnings = append(warnings, "[keystone_authtoken] www_authenticate_uri is not set: responses to callers without a "+
			"token have auth_url, which callers may not be able to reach")
	}
	more, err := ignoredOptions(c)
	return o, append(warnings, more...), err
}

// reader reads options of one group until the first error.
type reader struct {
	c     *config.Config
	group string
	more  string // further values of auth_type, each with a comma, for errors
	err   error
}

func (read *reader) text(option string, deprecated ...string) (text string) {
	if read.err == nil {
		var old []config.Name
		for _, name := range deprecated {
			old = append(old, config.Name{Option: name})
		}
		text, read.err = read.c.String(read.group, option, "", nil, old...)
	}
	return text
}

// service reads the account of the service itself.
func (read *reader) service(o *KeystoneOptions) {
	o.AuthURL = read.text("auth_url")
	switch read.text("auth_type", "auth_plugin") {
	case "v3applicationcredential":
		o.ApplicationCredentialID = read.text("application_credential_id")
		o.ApplicationCredentialName = read.text("application_credential_name")
		o.ApplicationCredentialSecret = read.text("application_credential_secret")
	case "password", "v3password":
		o.Password = read.text("password")
		o.ProjectName, o.ProjectID = read.text("project_name", "tenant_name"), read.text("project_id", "tenant_id")
		o.ProjectDomainName, o.ProjectDomainID = read.domain("project_")
		o.DomainName, o.DomainID = read.text("domain_name"), read.text("domain_id")
		o.SystemScope, o.TrustID = read.text("system_scope"), read.text("trust_id")
	default:
		read.invalidAuthType()
	}
	o.Username, o.UserID = read.text("username", "user_name"), read.text("user_id")
	o.UserDomainName, o.UserDomainID = read.domain("user_")
}

// domain reads the name and ID of a domain. default_domain_name and default_domain_id are used if both are missing.
func (read *reader) domain(of string) (name, id string) {
	name, id = read.text(of+"domain_name"), read.text(of+"domain_id")
	if name == "" && id == "" {
		name, id = read.text("default_domain_name"), read.text("default_domain_id")
	}
	return name, id
}

// face reads the interface of Keystone's endpoint. It accepts the old form, such as internalURL.
func (read *reader) face() string {
	face := strings.TrimSuffix(strings.ToLower(read.text("interface")), "url")
	valid := slices.Contains([]string{"", "public", "internal", "admin"}, face)
	if e, found := read.c.Get(read.group, "interface"); found && read.err == nil && !valid {
		read.err = e.Fault("there is no such interface; write public, internal or admin")
	}
	return face
}

func (read *reader) flag(option string) (value bool) {
	if read.err == nil {
		value, read.err = read.c.Bool(read.group, option, false)
	}
	return value
}

func (read *reader) number(option string, def, least, most int) (value int) {
	if read.err == nil {
		value, read.err = read.c.Int(read.group, option, def, least, most)
	}
	return value
}

// invalidAuthType sets the error for an auth_type that is missing or not supported.
func (read *reader) invalidAuthType() {
	if read.err != nil {
		return
	}
	remedy := "write " + read.more + "password or v3applicationcredential"
	if e, found := read.c.Get(read.group, "auth_type", config.Name{Option: "auth_plugin"}); found {
		read.err = e.Fault("Berth does not support this auth_type; %s", remedy)
		return
	}
	read.err = fault.New(fault.Invalid, "[%s] auth_type is missing; %s", read.group, remedy)
}

// ignoredOptions returns warnings about options that have no effect, and a fault for options whose absence would reduce
// security.
func ignoredOptions(c *config.Config) (warnings []string, err error) {
	warn := func(e config.Entry, text string) {
		warnings = append(warnings, fmt.Sprintf("%s: [%s] %s: %s", e.Place(), e.Group, e.Option, text))
	}
	if e, found := c.Get(group, "memcached_servers", config.Name{Option: "memcache_servers"}); found && e.Value != "" {
		warn(e, "tokens are kept in this process's memory; memcached is not used")
	}
	e, found := c.Get(group, "auth_version")
	if found && !strings.HasPrefix(strings.TrimPrefix(e.Value, "v"), "3") && e.Value != "" {
		warn(e, "the v3 API of Keystone is used")
	}
	delay, err := c.Bool(group, "delay_auth_decision", false)
	if e, found := c.Get(group, "delay_auth_decision"); found && delay {
		warn(e, "requests without a valid token are refused at once anyway")
	}
	e, found = c.Get(group, "enforce_token_bind")
	if err == nil && found && e.Value != "disabled" && e.Value != "permissive" {
		err = e.Fault("Keystone does not support bound tokens since its release Train; write permissive")
	}
	return warnings, err
}
