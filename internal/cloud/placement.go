package cloud

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/openberth/berth/api/cors"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/policies"
	"github.com/openberth/berth/placement/server"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/policy"
)

// PlacementSettings are what placement.conf says beside the database: [placement], [cors], [oslo_policy].
type PlacementSettings struct {
	Randomize         bool   // [placement] randomize_allocation_candidates
	BreadthFirst      bool   // [placement] allocation_candidates_generation_strategy
	MaxCandidates     int    // [placement] max_allocation_candidates; -1: all
	ClaimRetries      int    // [placement] allocation_conflict_retry_count: how often a claim is tried in all; 0 means 1
	IncompleteProject string // [placement] incomplete_consumer_project_id
	IncompleteUser    string // [placement] incomplete_consumer_user_id
	CORS              cors.Options
	ProxyHeaders      bool // [oslo_middleware] enable_proxy_headers_parsing
	Policy            *policy.Enforcer
	unread            error         // why a policy that Keystone's callers are judged by could not be read
	IndexRefresh      time.Duration // [berth] index_refresh_interval, seconds in the file
	IndexMaxAge       time.Duration // [berth] index_max_age, seconds in the file; 0: any age
}

// knownPlacement lists the options of PlacementSettings.
func knownPlacement() []config.Name {
	names := append(identity.KnownKeystone(), policy.Known()...)
	names = append(names, config.Name{Group: "berth", Option: "index_refresh_interval"}, config.Name{Group: "oslo_middleware", Option: "enable_proxy_headers_parsing"})
	for _, option := range []string{"randomize_allocation_candidates", "allocation_candidates_generation_strategy", "max_allocation_candidates",
		"allocation_conflict_retry_count", "incomplete_consumer_project_id", "incomplete_consumer_user_id"} {
		names = append(names, config.Name{Group: "placement", Option: option})
	}
	for _, option := range []string{"allowed_origin", "allow_credentials", "expose_headers", "max_age", "allow_methods", "allow_headers"} {
		names = append(names, config.Name{Group: "cors", Option: option})
	}
	return names
}

// manyCandidates bounds max_allocation_candidates and the retries: more is a typing error.
const manyCandidates = 1 << 30

// oldIndex is how old the index may be, beside ten refreshes, before /healthz says so, when nobody says otherwise.
const oldIndex = 30 * time.Second

const nobodysID = "00000000-0000-0000-0000-000000000000" // the original's default for both incomplete_consumer_… options

func (s *Settings) readPlacement(cfg *config.Config, log *slog.Logger) (err error) {
	p := &s.Placement
	if p.Randomize, err = cfg.Bool("placement", "randomize_allocation_candidates", false); err != nil {
		return err
	}
	order, err := cfg.String("placement", "allocation_candidates_generation_strategy", "depth-first", []string{"depth-first", "breadth-first"})
	if err != nil {
		return err
	}
	p.BreadthFirst = order == "breadth-first"
	if p.MaxCandidates, err = cfg.Int("placement", "max_allocation_candidates", -1, -1, manyCandidates); err != nil {
		return err
	}
	if p.ClaimRetries, err = cfg.Int("placement", "allocation_conflict_retry_count", 10, 0, manyCandidates); err != nil {
		return err
	}
	if p.IncompleteProject, err = cfg.String("placement", "incomplete_consumer_project_id", nobodysID, nil); err != nil {
		return err
	}
	if p.IncompleteUser, err = cfg.String("placement", "incomplete_consumer_user_id", nobodysID, nil); err != nil {
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
	if s.Auth != "noauth2" { // with it each caller is who he says he is: the policy of an original that is installed here is none of ours
		p.Policy, err = policy.Load(cfg, policies.Rules(), append(slices.Clone(dirs), "/etc/placement")...)
	}
	if s.Auth == "" && errors.Is(err, fs.ErrPermission) { // an agent needs none, nor does a cloud without Keystone
		p.unread, p.Policy = err, nil
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

// readIndex reads how stale candidates may be.
func (p *PlacementSettings) readIndex(cfg *config.Config) error {
	seconds, err := cfg.Float("berth", "index_refresh_interval", 1, 0.05, 3600)
	if err != nil {
		return err
	}
	p.IndexRefresh = time.Duration(seconds * float64(time.Second))
	if seconds, err = cfg.Float("berth", "index_max_age", (oldIndex + 10*p.IndexRefresh).Seconds(), 0, 86400); err != nil {
		return err
	}
	p.IndexMaxAge = time.Duration(seconds * float64(time.Second))
	if e, ok := cfg.Get("berth", "index_max_age"); ok && p.IndexMaxAge > 0 && p.IndexMaxAge < 2*p.IndexRefresh {
		return e.Fault("cloud.ReadSettings", "the index is up to index_refresh_interval old (%s) when all is well; write twice that or more, or 0 for any age", p.IndexRefresh)
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

// maxCandidates is max_allocation_candidates as the original takes it: 0 leaves one.
func (p PlacementSettings) maxCandidates() int {
	if p.MaxCandidates == 0 {
		return 1
	}
	return p.MaxCandidates
}

// enforcer fits an Enforcer of oslo.policy's rules to what the server knows of a caller.
type enforcer struct{ *policy.Enforcer }

// Allow judges a rule for a caller.
func (e enforcer) Allow(rule string, caller identity.Identity, target map[string]any) (ok bool, why string) {
	return e.Enforcer.Allow(rule, caller.Credentials(), target)
}

// Authenticator is who says who is asking, and what a caller without a token is told. missing is what an unset auth_strategy means.
func (s Settings) Authenticator(missing string, log *slog.Logger) (auth identity.Authenticator, challenge string, err error) {
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
	if s.Placement.unread != nil {
		return nil, "", s.Placement.unread
	}
	options, warnings, err := identity.ReadKeystone(s.cfg)
	for _, warning := range warnings {
		log.Warn(warning)
	}
	if err != nil && s.AuthAt == "" {
		err = fault.New(fault.KindOf(err), "cloud.Authenticator", "%s. Keystone is asked because [api] auth_strategy is not set; noauth2 is for trying Berth out",
			fault.TextOf(err))
	}
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

// CheckOrigins returns a fault if [cors] allowed_origin lets in every web page while callers are not authenticated.
// missing is what an unset auth_strategy means. With noauth2 a page needs no token of its own, so it would be an
// administrator. "null" is an origin that every page can have, in a sandboxed frame. Origins that are named are the
// operator's decision.
func (s Settings) CheckOrigins(missing string) error {
	if s.NoAuth2(missing) != nil {
		return nil
	}
	for _, origin := range s.Placement.CORS.AllowedOrigin {
		if origin != "*" && origin != "null" {
			continue
		}
		e, _ := s.cfg.Get("cors", "allowed_origin")
		return e.Fault("cloud.CheckOrigins", "%s lets every web page act as administrator while [api] auth_strategy is "+
			"noauth2; name the origins of pages that you trust, or set auth_strategy = keystone", origin)
	}
	return nil
}

// OpenPlacement starts the placement house on a database, which it brings up to date first. missing is what an unset
// auth_strategy means.
func OpenPlacement(ctx context.Context, url string, s Settings, missing string, log *slog.Logger) (*House, error) {
	log = log.With("house", "placement")
	auth, challenge, err := s.Authenticator(missing, log)
	if err != nil {
		return nil, err
	}
	db, err := openDatabase(ctx, url, log)
	if err != nil {
		return nil, err
	}
	p := s.Placement
	options := server.Options{Auth: auth, Challenge: challenge, Log: log, RandomizeCandidates: p.Randomize, BreadthFirst: p.BreadthFirst,
		MaxCandidates: p.maxCandidates(), CORS: p.CORS, ProxyHeaders: p.ProxyHeaders, RefreshInterval: p.IndexRefresh, MaxIndexAge: p.IndexMaxAge}
	if p.Policy != nil {
		options.Enforcer = enforcer{p.Policy}
	}
	srv, err := func() (*server.Server, error) {
		st, err := store.Open(ctx, db)
		if err != nil {
			return nil, err
		}
		st.IncompleteProject, st.IncompleteUser, st.ClaimAttempts = p.IncompleteProject, p.IncompleteUser, max(p.ClaimRetries, 1)
		if err := st.Sync(ctx); err != nil {
			return nil, err
		}
		return server.New(ctx, st, options)
	}()
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	work.Go(func() { srv.Run(following) })
	return &House{Handler: rest.Limit(srv, s.RequestTime), Lost: db.Lost(), Close: sync.OnceValue(func() error {
		stop()
		work.Wait()
		return closeDatabase(db, log)
	})}, nil
}

// NoAuth2 is nil when the settings ask for noauth2, else the fault of a house that has nothing else. missing is what an unset option means.
func (s Settings) NoAuth2(missing string) error {
	auth, at := s.Auth, s.AuthAt
	if auth == "" {
		auth, at = missing, "auth_strategy is not set, so "+missing
	}
	if auth == "noauth2" {
		return nil
	}
	return fault.New(fault.Invalid, "cloud.NoAuth2", "%s: [api] auth_strategy = %s: only `berth placement` can ask Keystone yet; set auth_strategy = noauth2 and listen on loopback only", at, auth)
}
