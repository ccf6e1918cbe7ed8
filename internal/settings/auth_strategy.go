package settings

import (
	"cmp"
	"log/slog"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/fault"
)

// The values of [api] auth_strategy.
const (
	NoAuth2   = "noauth2"    // every caller is trusted; on loopback only
	HTTPBasic = "http_basic" // accounts of [DEFAULT] http_basic_auth_user_file
	Keystone  = "keystone"   // tokens of OpenStack's identity service
)

// Strategy returns the auth_strategy. missing is the one that applies if the option is not set.
func (s Settings) Strategy(missing string) string { return cmp.Or(s.Auth, missing) }

// Keystone returns the options of [keystone_authtoken], and logs warnings about them. It fails if Keystone is not
// configured.
func (s Settings) Keystone(log *slog.Logger) (identity.KeystoneOptions, error) {
	options, warnings, err := identity.ReadKeystone(s.cfg)
	for _, warning := range warnings {
		log.Warn(warning)
	}
	if err != nil && s.AuthAt == "" {
		err = fault.New(fault.KindOf(err),
			"%s. Keystone is asked because [api] auth_strategy is not set; noauth2 is for trying Berth out", fault.TextOf(err))
	}
	if err != nil {
		return identity.KeystoneOptions{}, err
	}
	options.Log = log
	return options, nil
}
