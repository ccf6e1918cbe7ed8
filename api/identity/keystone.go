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

	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

const (
	defaultTimeout   = 10 * time.Second
	defaultCacheTime = 5 * time.Minute
	refusedCacheTime = 30 * time.Second // how long an invalid token is cached, at most
	refusedBackoff   = 5 * time.Second  // pause after Keystone has rejected the service's own account
	renewMargin      = time.Minute      // how long before it expires the service's own token is renewed
	cacheSize        = 10_000           // valid tokens; and the same number of invalid ones
	maxToken         = 8 << 10          // bytes
)

// KeystoneOptions are the options of [keystone_authtoken]. AuthURL is required, and either a user with a password or an
// application credential.
type KeystoneOptions struct {
	Group string // their group, for errors; empty: keystone_authtoken

	AuthURL   string // auth_url, with or without /v3
	PublicURL string // www_authenticate_uri, sent to callers without a token; empty: AuthURL

	Username, UserID, Password         string
	UserDomainName, UserDomainID       string
	ProjectName, ProjectID             string // scope of the service's token, if SystemScope and DomainID are empty
	ProjectDomainName, ProjectDomainID string
	DomainName, DomainID               string
	SystemScope                        string // "all"

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

// Keystone validates tokens at OpenStack's identity service. It is safe for concurrent use.
type Keystone struct {
	opts   KeystoneOptions
	log    *slog.Logger
	url    string // of the v3 API
	client *http.Client

	inFlight singleflight.Group // one call for all concurrent requests with the same token
	valid    *cache[*tokenInfo]
	refused  *cache[struct{}]

	own     sync.Mutex // guards what is below
	session session    // the service's own token

	now  func() time.Time
	wait func(context.Context, time.Duration) error // between two tries
}

// NewKeystone checks the options and returns a Keystone, whose method Authenticate is an Authenticator. It makes no
// call.
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
		now: time.Now, wait: backoff.Sleep,
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
		return fault.New(fault.Invalid, "identity.NewKeystone", "[%s] auth_url = %s is not an HTTP URL; "+
			"write one such as http://controller:5000", o.section(), o.AuthURL)
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

// Challenge returns the value of the header WWW-Authenticate for responses with 401: the URL of Keystone.
func (k *Keystone) Challenge() string {
	address := k.opts.PublicURL
	if address == "" {
		address = k.opts.AuthURL
	}
	return `Keystone uri="` + address + `"`
}

// Authenticate is an Authenticator: it returns the owner of X-Auth-Token and, with X-Service-Token, the service that
// forwards the request. It returns fault.Forbidden if a token is missing, unknown, expired or revoked, and
// fault.Unavailable if Keystone does not answer. The result for a token is cached for CacheTime, but not after the
// token expires.
func (k *Keystone) Authenticate(r *http.Request) (Identity, error) {
	var service *tokenInfo
	given := strings.TrimSpace(joined(r.Header, "X-Service-Token"))
	mayBeExpired := false
	if given != "" {
		var err error
		if service, err = k.resolve(r.Context(), given, false); err != nil {
			return Identity{}, namingHeader("X-Service-Token", err)
		}
		mayBeExpired = slices.ContainsFunc(service.id.Roles, func(role string) bool {
			return slices.Contains(k.opts.ServiceRoles, role)
		})
		if !mayBeExpired && k.opts.ServiceRolesRequired {
			return Identity{}, forbidden("the X-Service-Token has none of the roles of services: %s",
				strings.Join(k.opts.ServiceRoles, ", "))
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

// checkAccessRules checks a request against the access rules of the application credential of its token. A request
// that a service forwards was checked when that service received it.
func (k *Keystone) checkAccessRules(rules *[]accessRule, r *http.Request, passedOn bool) error {
	if rules == nil {
		return nil
	}
	if k.opts.ServiceType == "" {
		k.log.Warn("access rules of a token not checked, request refused: [keystone_authtoken] service_type is not set")
		return forbidden("the token has access rules, and this service is not configured to check them")
	}
	if passedOn || slices.ContainsFunc(*rules, func(a accessRule) bool {
		return a.matches(k.opts.ServiceType, r.Method, r.URL.Path)
	}) {
		return nil
	}
	return forbidden("the access rules of the token's application credential do not have %s %s", r.Method, r.URL.Path)
}

func forbidden(format string, args ...any) error {
	return fault.New(fault.Forbidden, "identity.Keystone", format, args...)
}

// errUnknownToken is the error for a token that Keystone does not accept.
var errUnknownToken = errors.New("Keystone does not know the token: " +
	"it may have expired or been revoked; ask for a new one")

// namingHeader turns errUnknownToken into a fault that names the header. It returns other errors as they are.
func namingHeader(header string, err error) error {
	if errors.Is(err, errUnknownToken) {
		return forbidden("%s: %w", header, err)
	}
	return err
}

// resolve returns the content of a token, from the cache if possible.
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
	// The call continues if the first request is cancelled, because other requests wait for its result.
	answer := k.inFlight.DoChan(name, func() (any, error) {
		return k.fetch(context.WithoutCancel(ctx), id, token)
	})
	select {
	case <-ctx.Done():
		return nil, fault.New(fault.Unavailable, "identity.Keystone",
			"the request ended before Keystone answered: %w", ctx.Err())
	case result := <-answer:
		if result.Err != nil {
			return nil, result.Err
		}
		return k.checkExpiry(result.Val.(*tokenInfo), expired)
	}
}

// cached returns the cached content of a token; nil and no error if the cache does not have it.
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

// checkExpiry returns errUnknownToken for a token that has expired, unless expired tokens are allowed.
func (k *Keystone) checkExpiry(v *tokenInfo, expired bool) (*tokenInfo, error) {
	if !expired && !k.now().Before(v.expires) {
		return nil, errUnknownToken
	}
	return v, nil
}

// fetch validates a token at Keystone and caches the result. The cache time starts before the call, so that a
// revocation after the answer is noticed in time.
func (k *Keystone) fetch(ctx context.Context, id cacheKey, token string) (*tokenInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*k.opts.Timeout)
	defer cancel()
	if v, err := k.cached(id); v != nil || err != nil {
		return v, err // another call has cached the result meanwhile
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
