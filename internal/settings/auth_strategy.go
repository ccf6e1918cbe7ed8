package settings

import (
	"log/slog"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

// readAuthStrategy reads [api] auth_strategy.
func (s *Settings) readAuthStrategy(cfg *config.Config) (err error) {
	if s.Auth, err = cfg.String("api", "auth_strategy", "", []string{"noauth2", "keystone"}); err != nil {
		return err
	}
	if e, ok := cfg.Get("api", "auth_strategy"); ok {
		s.AuthAt = e.Place()
	}
	return nil
}

// Keystone returns the options of [keystone_authtoken], and logs warnings about them. It fails if Keystone is not
// configured, or if the policy for its callers could not be read.
func (s Settings) Keystone(log *slog.Logger) (identity.KeystoneOptions, error) {
	if s.Placement.policyErr != nil {
		return identity.KeystoneOptions{}, s.Placement.policyErr
	}
	options, warnings, err := identity.ReadKeystone(s.cfg)
	for _, warning := range warnings {
		log.Warn(warning)
	}
	if err != nil && s.AuthAt == "" {
		err = fault.New(fault.KindOf(err), "settings.Keystone",
			"%s. Keystone is asked because [api] auth_strategy is not set; noauth2 is for trying Berth out", fault.TextOf(err))
	}
	if err != nil {
		return identity.KeystoneOptions{}, err
	}
	options.Log = log
	return options, nil
}

// NoAuth2 returns nil if the settings select noauth2, and otherwise the fault of a service that supports nothing else.
// missing is the auth_strategy that applies if the option is not set.
func (s Settings) NoAuth2(missing string) error {
	auth, at := s.Auth, s.AuthAt
	if auth == "" {
		auth, at = missing, "auth_strategy is not set, so "+missing
	}
	if auth == "noauth2" {
		return nil
	}
	return fault.New(fault.Invalid, "settings.NoAuth2", "%s: [api] auth_strategy = %s: only `berth placement` can ask "+
		"Keystone yet; set auth_strategy = noauth2 and listen on loopback only", at, auth)
}
