package settings

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/openberth/berth/api/cors"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/policies"
	"github.com/openberth/berth/policy"
)

// knownPlacement lists the options of PlacementSettings.
func knownPlacement() []config.Name {
	names := append(identity.KnownKeystone(), policy.Known()...)
	names = append(names, config.Name{Group: "berth", Option: "index_refresh_interval"},
		config.Name{Group: "oslo_middleware", Option: "enable_proxy_headers_parsing"})
	for _, option := range []string{"randomize_allocation_candidates", "allocation_candidates_generation_strategy",
		"max_allocation_candidates",
		"allocation_conflict_retry_count", "incomplete_consumer_project_id", "incomplete_consumer_user_id"} {
		names = append(names, config.Name{Group: "placement", Option: option})
	}
	for _, option := range []string{"allowed_origin", "allow_credentials", "expose_headers", "max_age", "allow_methods",
		"allow_headers"} {
		names = append(names, config.Name{Group: "cors", Option: option})
	}
	return names
}

// maxCount bounds max_allocation_candidates and the retry count; larger values are typing errors.
const maxCount = 1 << 30

// defaultIndexAge is the default of index_max_age, in addition to ten refresh intervals. /healthz reports an older
// index.
const defaultIndexAge = 30 * time.Second

// defaultIncompleteID is the default of both incomplete_consumer_… options, as in OpenStack's Placement.
const defaultIncompleteID = "00000000-0000-0000-0000-000000000000"

func (s *Settings) readPlacement(cfg *config.Config, log *slog.Logger) (err error) {
	p := &s.Placement
	if p.Randomize, err = cfg.Bool("placement", "randomize_allocation_candidates", false); err != nil {
		return err
	}
	order, err := cfg.String("placement", "allocation_candidates_generation_strategy", "depth-first",
		[]string{"depth-first", "breadth-first"})
	if err != nil {
		return err
	}
	p.BreadthFirst = order == "breadth-first"
	if p.MaxCandidates, err = cfg.Int("placement", "max_allocation_candidates", -1, -1, maxCount); err != nil {
		return err
	}
	if p.ClaimRetries, err = cfg.Int("placement", "allocation_conflict_retry_count", 10, 0, maxCount); err != nil {
		return err
	}
	if p.IncompleteProject, err = cfg.String("placement", "incomplete_consumer_project_id", defaultIncompleteID,
		nil); err != nil {
		return err
	}
	if p.IncompleteUser, err = cfg.String("placement", "incomplete_consumer_user_id", defaultIncompleteID,
		nil); err != nil {
		return err
	}
	if err := p.readIndex(cfg); err != nil {
		return err
	}
	if p.ProxyHeaders, err = cfg.Bool("oslo_middleware", "enable_proxy_headers_parsing", false); err != nil {
		return err
	}
	if err := s.readCORS(cfg); err != nil {
		return err
	}
	dirs := []string{}
	for _, file := range s.files {
		dirs = append(dirs, filepath.Dir(file))
	}
	// With noauth2 callers are not authenticated, so the policy of an OpenStack Placement on this machine does not apply.
	if s.Auth != "noauth2" {
		p.Policy, err = policy.Load(cfg, policies.Rules(), append(slices.Clone(dirs), "/etc/placement")...)
	}
	if s.Auth == "" && errors.Is(err, fs.ErrPermission) { // the agent and a cloud without Keystone need no policy
		p.policyErr, p.Policy = err, nil
	} else if err != nil {
		return err
	}
	if p.Policy == nil {
		if p.Policy, err = policy.Load(cfg, policies.Rules(), dirs...); err != nil {
			return err
		}
	}
	for _, warning := range p.Policy.Warnings() {
		log.Warn(warning)
	}
	return nil
}

// readIndex reads the options for the age of the index.
func (p *PlacementSettings) readIndex(cfg *config.Config) error {
	seconds, err := cfg.Float("berth", "index_refresh_interval", 1, 0.05, 3600)
	if err != nil {
		return err
	}
	p.IndexRefresh = time.Duration(seconds * float64(time.Second))
	if seconds, err = cfg.Float("berth", "index_max_age", (defaultIndexAge + 10*p.IndexRefresh).Seconds(), 0,
		86400); err != nil {
		return err
	}
	p.IndexMaxAge = time.Duration(seconds * float64(time.Second))
	if e, ok := cfg.Get("berth", "index_max_age"); ok && p.IndexMaxAge > 0 && p.IndexMaxAge < 2*p.IndexRefresh {
		return e.Fault("settings.Read", "less than two times index_refresh_interval (%s); write at least two times that, "+
			"or 0 for any age", p.IndexRefresh)
	}
	return nil
}

func (s *Settings) readCORS(cfg *config.Config) (err error) {
	c := cors.Defaults()
	for option, list := range map[string]*[]string{"allowed_origin": &c.AllowedOrigin, "expose_headers": &c.ExposeHeaders,
		"allow_methods": &c.AllowMethods, "allow_headers": &c.AllowHeaders} {
		if *list, err = cfg.Strings("cors", option, *list); err != nil {
			return err
		}
	}
	if c.AllowCredentials, err = cfg.Bool("cors", "allow_credentials", c.AllowCredentials); err != nil {
		return err
	}
	if c.MaxAge, err = cfg.Int("cors", "max_age", c.MaxAge, 0, 1<<31-1); err != nil {
		return err
	}
	s.Placement.CORS = c
	return nil
}

// CandidateLimit returns max_allocation_candidates with the meaning of OpenStack's Placement: 0 allows one candidate.
func (p PlacementSettings) CandidateLimit() int {
	if p.MaxCandidates == 0 {
		return 1
	}
	return p.MaxCandidates
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

// CheckOrigins returns a fault if [cors] allowed_origin allows every web page while callers are not authenticated.
// missing is the auth_strategy that applies if the option is not set. With noauth2 a page needs no token, so it would
// be an administrator. Every page can have the origin "null", in a sandboxed frame. Origins that are listed by name are
// the operator's decision.
func (s Settings) CheckOrigins(missing string) error {
	if s.NoAuth2(missing) != nil {
		return nil
	}
	for _, origin := range s.Placement.CORS.AllowedOrigin {
		if origin != "*" && origin != "null" {
			continue
		}
		e, _ := s.cfg.Get("cors", "allowed_origin")
		return e.Fault("settings.CheckOrigins", "%s lets every web page act as administrator while [api] auth_strategy is "+
			"noauth2; name the origins of pages that you trust, or set auth_strategy = keystone", origin)
	}
	return nil
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
