package app

import (
	"log/slog"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/policy"
)

// enforcer adapts an Enforcer of oslo.policy rules to the callers of the server.
type enforcer struct{ *policy.Enforcer }

// Allow decides whether a rule allows a caller to act on target; why is the reason if it does not.
func (e enforcer) Allow(rule string, caller identity.Identity, target map[string]any) (ok bool, why string) {
	return e.Enforcer.Allow(rule, caller.Credentials(), target)
}

// authenticator returns what authenticates callers, and the challenge for a caller without a token. missing is the
// auth_strategy that applies if the option is not set.
func authenticator(s settings.Settings, missing string,
	log *slog.Logger) (auth identity.Authenticator, challenge string, err error) {
	if s.NoAuth2(missing) == nil {
		if err := s.CheckOrigins(missing); err != nil {
			return nil, "", err
		}
		if origins := s.Placement.CORS.AllowedOrigin; len(origins) > 0 {
			log.Warn("noauth2: web pages of the origins in [cors] allowed_origin can act as administrator",
				"origins", origins)
		}
		return identity.NoAuth2, "", nil
	}
	options, err := s.Keystone(log)
	if err != nil {
		return nil, "", err
	}
	options.Log = log
	keystone, err := identity.NewKeystone(options)
	if err != nil {
		return nil, "", err
	}
	return keystone.Authenticate, keystone.Challenge(), nil
}
