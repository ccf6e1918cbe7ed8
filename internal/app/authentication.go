package app

import (
	"log/slog"

	"github.com/openberth/berth/api/audit"
	"github.com/openberth/berth/api/cors"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/trace"
	"github.com/openberth/berth/internal/settings"
)

// authentication is how the callers of the services of one process are authenticated.
type authentication struct {
	strategy  string // [api] auth_strategy
	caller    identity.Authenticator
	challenge string     // WWW-Authenticate of the responses with 401; empty: none
	audit     *audit.Log // nil: requests are not recorded
}

// CheckAuthentication returns why the callers of a service with these settings could not be authenticated. missing is
// the auth_strategy that applies if the option is not set. It creates nothing.
func CheckAuthentication(s settings.Settings, missing string) error {
	_, err := newAuthentication(s, missing, slog.New(slog.DiscardHandler))
	return err
}

// edge returns what the servers of all services have in common. service is the name of the service.
// Without a policy of the service the default one applies.
func (a authentication) edge(service string, origins cors.Options, proxyHeaders bool, enforcer settings.Policy,
	log *slog.Logger) edge.Options {
	o := edge.Options{Authenticate: a.caller, Strategy: a.strategy, Challenge: a.challenge, CORS: origins,
		ProxyHeaders: proxyHeaders, Log: log, Audit: a.audit, Service: service}
	if enforcer.Enforcer != nil {
		o.Enforcer = identity.Enforcer{Policy: enforcer.Enforcer}
	}
	return o
}

// closeAudit writes the audit events that wait. Each service calls it when it closes.
func (a authentication) closeAudit() error {
	if a.audit == nil {
		return nil
	}
	return a.audit.Close()
}

// newAuthentication returns what [api] auth_strategy selects. missing is the one that applies if the option is not set.
func newAuthentication(s settings.Settings, missing string, log *slog.Logger) (authentication, error) {
	log = trace.Log(log)
	a := authentication{strategy: s.Strategy(missing), caller: identity.NoAuth2}
	if s.Audit.Driver == settings.AuditLog {
		a.audit = audit.New(s.Audit.Directory, s.Audit.Days, log)
	}
	switch a.strategy {
	case settings.NoAuth2:
		if err := s.CheckOrigins(missing); err != nil {
			return a, err
		}
		if origins := s.Placement.CORS.AllowedOrigin; len(origins) > 0 {
			log.Warn("noauth2: web pages of the origins in [cors] allowed_origin can act as administrator",
				"origins", origins)
		}
	case settings.HTTPBasic:
		options := s.Accounts.Basic
		options.Log = log
		basic, err := identity.NewHTTPBasic(options)
		if err != nil {
			return a, err
		}
		a.caller, a.challenge = basic.Authenticate, identity.BasicChallenge
	default:
		options, err := s.Keystone(log)
		if err != nil {
			return a, err
		}
		keystone, err := identity.NewKeystone(options)
		if err != nil {
			return a, err
		}
		a.caller, a.challenge = keystone.Authenticate, keystone.Challenge()
	}
	return a, nil
}
