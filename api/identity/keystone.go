package identity

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/openberth/berth/fault"
)

const (
	defaultTimeout   = 10 * time.Second
	defaultCacheTime = 5 * time.Minute
	refusedCacheTime = 30 * time.Second // how long a token stays refused without asking again, at most
	refusedBackoff   = 5 * time.Second  // how long Keystone is not asked again when it refused the service itself
	renewMargin      = time.Minute      // how long before its end the service's own token is renewed
	cacheSize        = 10_000           // tokens; as many again that were refused
	maxToken         = 8 << 10          // bytes
)

// KeystoneOptions are [keystone_authtoken]. What is needed: AuthURL, and either a user with a password or an application credential.
type KeystoneOptions struct {
	Group string // where they stand, for errors; empty: keystone_authtoken

	AuthURL   string // auth_url, with or without /v3
	PublicURL string // www_authenticate_uri, told to callers without a token; empty: AuthURL

	Username, UserID, Password         string
	UserDomainName, UserDomainID       string
	ProjectName, ProjectID             string // what the service's token is for; with none of these, nor SystemScope, for nothing
	ProjectDomainName, ProjectDomainID string
	DomainName, DomainID               string
	SystemScope                        string // "all"

	ApplicationCredentialID, ApplicationCredentialName, ApplicationCredentialSecret string

	Region                    string // region_name: of the endpoint in the catalog that tokens are validated at
	Interface                 string // interface: of that endpoint; empty: internal
	Insecure                  bool   // the server's certificate is not checked
	CAFile, CertFile, KeyFile string
	Timeout                   time.Duration // http_connect_timeout, of one call; 0: 10 seconds
	Retries                   int           // http_request_max_retries: how often a call that found nobody is tried again
	CacheTime                 time.Duration // token_cache_time; 0: 300 seconds; below: nothing is kept
	ServiceRoles              []string      // service_token_roles: one of them lets a service pass expired tokens on
	ServiceRolesRequired      bool          // service_token_roles_required: a service without one of them is refused
	ServiceType               string        // service_type: how rules of application credentials call this service
	Log                       *slog.Logger  // nil: slog.Default()
}

// Keystone asks OpenStack's identity service about tokens. It is safe for concurrent use.
type Keystone struct {
	opts   KeystoneOptions
	log    *slog.Logger
	url    string // of the v3 API
	client *http.Client

	inFlight singleflight.Group // one call for all who ask the same
	valid    *cache[*tokenInfo]
	refused  *cache[struct{}]

	own     sync.Mutex // guards what is below
	session session    // the service's own token

	now  func() time.Time
	wait func(context.Context, time.Duration) error // between two tries
}

// NewKeystone checks options and makes an Authenticator of them (its method Authenticate). It asks nobody yet.
func NewKeystone(o KeystoneOptions) (*Keystone, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Interface == "" {
		o.Interface = "internal"
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.CacheTime == 0 {
		o.CacheTime = defaultCacheTime
	}
	client, err := o.Client()
	if err != nil {
		return nil, err
	}
	return &Keystone{
		opts: o, log: o.Log, url: v3Address(o.AuthURL), client: client,
		valid: newCache[*tokenInfo](cacheSize), refused: newCache[struct{}](cacheSize),
		now: time.Now, wait: wait,
	}, nil
}

func (o KeystoneOptions) check() error {
	missing := func(option, remedy string) error {
		return fault.New(fault.Invalid, "identity.NewKeystone", "[%s] %s is missing; %s", o.section(), option, remedy)
	}
	address, err := url.Parse(o.AuthURL)
	switch {
	case o.AuthURL == "":
		return missing("auth_url", "write Keystone's address, such as http://controller:5000")
	case err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https":
		return fault.New(fault.Invalid, "identity.NewKeystone", "[%s] auth_url = %s is no address; write one such as http://controller:5000", o.section(), o.AuthURL)
	case o.usesApplicationCredential():
		if o.ApplicationCredentialSecret == "" {
			return missing("application_credential_secret", "write it, or use auth_type = password")
		}
		if o.ApplicationCredentialID == "" && o.UserID == "" && (o.Username == "" || o.UserDomainID == "" && o.UserDomainName == "") {
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
	const op = "identity.NewKeystone"
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: o.Insecure}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fault.New(fault.Invalid, op, "[%s] cafile cannot be read: %w", o.section(), err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fault.New(fault.Invalid, op, "[%s] cafile = %s holds no certificate in PEM", o.section(), o.CAFile)
		}
	}
	if o.CertFile != "" {
		keyFile := o.KeyFile
		if keyFile == "" {
			keyFile = o.CertFile
		}
		pair, err := tls.LoadX509KeyPair(o.CertFile, keyFile)
		if err != nil {
			return nil, fault.New(fault.Invalid, op, "[%s] certfile and keyfile cannot be used: %w", o.section(), err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// Challenge is the value of the header WWW-Authenticate for answers with 401: where a token is to be had.
func (k *Keystone) Challenge() string {
	address := k.opts.PublicURL
	if address == "" {
		address = k.opts.AuthURL
	}
	return `Keystone uri="` + address + `"`
}

// Authenticate is an Authenticator: it finds out whose token X-Auth-Token is, and with X-Service-Token which service passes
// the request on. A token that is missing, unknown, expired or revoked is a fault Forbidden; Unavailable says that Keystone
// could not be asked. What Keystone said of a token holds for CacheTime, and not beyond the token's end.
func (k *Keystone) Authenticate(r *http.Request) (Identity, error) {
	var service *tokenInfo
	given := strings.TrimSpace(joined(r.Header, "X-Service-Token"))
	mayBeExpired := false
	if given != "" {
		var err error
		if service, err = k.resolve(r.Context(), given, false); err != nil {
			return Identity{}, namingHeader("X-Service-Token", err)
		}
		mayBeExpired = slices.ContainsFunc(service.id.Roles, func(role string) bool { return slices.Contains(k.opts.ServiceRoles, role) })
		if !mayBeExpired && k.opts.ServiceRolesRequired {
			return Identity{}, forbidden("the X-Service-Token has none of the roles of services: %s", strings.Join(k.opts.ServiceRoles, ", "))
		}
	}
	token := strings.TrimSpace(joined(r.Header, "X-Auth-Token"))
	if token == "" {
		return Identity{}, forbidden("the request has no X-Auth-Token; ask Keystone for a token")
	}
	user, err := k.resolve(r.Context(), token, mayBeExpired)
	if err != nil {
		return Identity{}, namingHeader("X-Auth-Token", err)
	}
	if err := k.checkAccessRules(user.rules, r, service != nil); err != nil {
		return Identity{}, err
	}
	id := user.id
	id.Roles = slices.Clone(id.Roles)
	if service != nil {
		passing := service.id
		id.Service = &passing
	}
	return id, nil
}

// within holds a request against the access rules of the application credential that its token was made with. A request that
// a service passes on was held against them when it came in.
func (k *Keystone) checkAccessRules(rules *[]accessRule, r *http.Request, passedOn bool) error {
	if rules == nil {
		return nil
	}
	if k.opts.ServiceType == "" {
		k.log.Warn("a token has access rules, which cannot be judged: [keystone_authtoken] service_type is not set")
		return forbidden("the token has access rules, and this service is not set up to judge them")
	}
	if passedOn || slices.ContainsFunc(*rules, func(a accessRule) bool { return a.matches(k.opts.ServiceType, r.Method, r.URL.Path) }) {
		return nil
	}
	return forbidden("the access rules of the token's application credential do not have %s %s", r.Method, r.URL.Path)
}

func forbidden(format string, args ...any) error {
	return fault.New(fault.Forbidden, "identity.Keystone", format, args...)
}

// unknown is a token that Keystone does not vouch for.
var errUnknownToken = errors.New("Keystone does not know the token: it may have expired or been revoked; ask for a new one")

// about turns what was found out of a token into a fault that names the header.
func namingHeader(header string, err error) error {
	if errors.Is(err, errUnknownToken) {
		return forbidden("%s: %w", header, err)
	}
	return err
}

// judge finds out about a token, from memory if possible.
func (k *Keystone) resolve(ctx context.Context, token string, expired bool) (*tokenInfo, error) {
	if len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errUnknownToken
	}
	id := cacheKey{sha256.Sum256([]byte(token)), expired}
	v, err := k.cached(id)
	if v != nil || err != nil {
		return v, err
	}
	name := string(id.sum[:])
	if expired {
		name += "expired"
	}
	// Who began to ask may go away; the others still want the answer.
	answer := k.inFlight.DoChan(name, func() (any, error) {
		return k.fetch(context.WithoutCancel(ctx), id, token)
	})
	select {
	case <-ctx.Done():
		return nil, fault.New(fault.Unavailable, "identity.Keystone", "the request ended before Keystone answered: %w", ctx.Err())
	case result := <-answer:
		if result.Err != nil {
			return nil, result.Err
		}
		return k.checkExpiry(result.Val.(*tokenInfo), expired)
	}
}

// remember gives what Keystone said before, or nothing.
func (k *Keystone) cached(id cacheKey) (*tokenInfo, error) {
	now := k.now()
	if v, found := k.valid.get(id, now); found {
		return k.checkExpiry(v, id.expired)
	}
	if _, found := k.refused.get(id, now); found {
		return nil, errUnknownToken
	}
	return nil, nil
}

// alive refuses a token that has come to its end, unless that is allowed.
func (k *Keystone) checkExpiry(v *tokenInfo, expired bool) (*tokenInfo, error) {
	if !expired && !k.now().Before(v.expires) {
		return nil, errUnknownToken
	}
	return v, nil
}

// ask asks Keystone about a token, and keeps the answer. The time it is kept begins before the question: what is revoked
// after the answer is noticed in time.
func (k *Keystone) fetch(ctx context.Context, id cacheKey, token string) (*tokenInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*k.opts.Timeout)
	defer cancel()
	if v, err := k.cached(id); v != nil || err != nil {
		return v, err // the answer came while we waited for our turn
	}
	began := k.now()
	v, err := k.validate(ctx, token, id.expired)
	switch {
	case k.opts.CacheTime < 0:
	case errors.Is(err, errUnknownToken):
		k.refused.put(id, struct{}{}, began.Add(min(k.opts.CacheTime, refusedCacheTime)))
	case err == nil:
		until := began.Add(k.opts.CacheTime)
		if !id.expired && v.expires.Before(until) {
			until = v.expires
		}
		k.valid.put(id, v, until)
	}
	return v, err
}
