package edge

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/openberth/berth/api/audit"
	"github.com/openberth/berth/api/cors"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/fault"
)

// NoAuth2 is the auth_strategy whose callers are not authenticated.
const NoAuth2 = "noauth2"

// Options are what the servers of all services have in common.
type Options struct {
	Authenticate identity.Authenticator // identifies the caller; nil: all callers are refused
	Strategy     string                 // [api] auth_strategy; empty: NoAuth2
	Challenge    string                 // the WWW-Authenticate header of a 401 answer; empty: none
	Enforcer     Enforcer               // the access policy; nil: the service's default
	CORS         cors.Options           // [cors]; without AllowedOrigin no CORS headers are sent
	ProxyHeaders bool                   // [oslo_middleware] enable_proxy_headers_parsing: they are trusted
	Log          *slog.Logger           // nil: slog.Default()
	Now          func() time.Time       // nil: time.Now
	Metrics      *Metrics               // nil: new ones, with the prefix berth_
	Audit        *audit.Log             // records requests that write; nil: they are not recorded
	Service      string                 // its name in the audit log
}

// WithDefaults returns the options with the default of each that is not set. policy is that of Enforcer.
func (o Options) WithDefaults(policy Enforcer) Options {
	if o.Authenticate == nil {
		o.Authenticate = denyAll
	}
	if o.Strategy == "" {
		o.Strategy = NoAuth2
	}
	if o.Enforcer == nil {
		o.Enforcer = policy
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// denyAll is the Authenticator of an API without one.
func denyAll(*http.Request) (identity.Identity, error) {
	return identity.Identity{}, fault.New(fault.Forbidden, "No authentication is configured.")
}
