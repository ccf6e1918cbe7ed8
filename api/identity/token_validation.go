package identity

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
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
	isService := false // the service token is one of a service: the user's may have expired, and its rules were checked
	if given != "" {
		var err error
		if service, err = k.resolve(r.Context(), given, false); err != nil {
			return Identity{}, namingHeader("X-Service-Token", err)
		}
		isService = slices.ContainsFunc(service.id.Roles, func(role string) bool {
			return slices.Contains(k.opts.ServiceRoles, role)
		})
		if !isService && k.opts.ServiceRolesRequired {
			return Identity{}, forbidden("the X-Service-Token has none of the roles of services: %s",
				strings.Join(k.opts.ServiceRoles, ", "))
		}
	}
	token := strings.TrimSpace(joined(r.Header, "X-Auth-Token"))
	if token == "" {
		return Identity{}, forbidden("the request has no X-Auth-Token; ask Keystone for a token")
	}
	user, err := k.resolve(r.Context(), token, isService)
	if err != nil {
		return Identity{}, namingHeader("X-Auth-Token", err)
	}
	if err := k.checkAccessRules(user.rules, r, isService); err != nil {
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

func forbidden(format string, args ...any) error {
	return fault.New(fault.Forbidden, format, args...)
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
		return nil, fault.New(fault.Unavailable, "the request ended before Keystone answered: %w", ctx.Err())
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

// validate validates a token at Keystone. If Keystone rejects the service's own token, it gets a new one and retries
// once.
func (k *Keystone) validate(ctx context.Context, token string, expired bool) (*tokenInfo, error) {
	query := "?nocatalog=1"
	if expired {
		query += "&allow_expired=1"
	}
	for try := 1; ; try++ {
		s, err := k.signIn(ctx)
		if err != nil {
			return nil, err
		}
		status, _, body, err := k.call(ctx, http.MethodGet, s.url+"/auth/tokens"+query, nil,
			http.Header{"X-Auth-Token": {s.token}, "X-Subject-Token": {token}, "Openstack-Identity-Access-Rules": {"1"}})
		if err != nil {
			return nil, err
		}
		switch {
		case status == http.StatusOK:
			var doc tokenBody
			if err := json.Unmarshal(body, &doc); err != nil || doc.Token.User.ID == "" || doc.Token.ExpiresAt.IsZero() {
				return nil, unavailable("Keystone at %s answered with something that is not a token", s.url)
			}
			return doc.info(), nil
		case status == http.StatusNotFound:
			return nil, errUnknownToken
		case status == http.StatusUnauthorized && try == 1:
			k.forget(s.token)
		case status == http.StatusUnauthorized || status == http.StatusForbidden:
			return nil, unavailable("Keystone at %s does not let the user of [keystone_authtoken] validate tokens "+
				"(status %d); it needs the role service or admin", s.url, status)
		default:
			return nil, unavailable("Keystone at %s answered the validation of a token with status %d", s.url, status)
		}
	}
}
