package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/placement/server"
	"github.com/openberth/berth/placement/store"
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

// OpenPlacement starts Placement on a database, after it has updated the schema. missing is the auth_strategy that
// applies if the option is not set.
func OpenPlacement(ctx context.Context, url string, s settings.Settings, missing string,
	log *slog.Logger) (*Service, error) {
	log = log.With("service", "placement")
	auth, challenge, err := authenticator(s, missing, log)
	if err != nil {
		return nil, err
	}
	db, err := openDatabase(ctx, url, log)
	if err != nil {
		return nil, err
	}
	p := s.Placement
	options := server.Options{Auth: auth, Challenge: challenge, Log: log, RandomizeCandidates: p.Randomize,
		BreadthFirst:  p.BreadthFirst,
		MaxCandidates: p.CandidateLimit(), CORS: p.CORS, ProxyHeaders: p.ProxyHeaders, RefreshInterval: p.IndexRefresh,
		MaxIndexAge: p.IndexMaxAge}
	if p.Policy != nil {
		options.Enforcer = enforcer{p.Policy}
	}
	srv, err := func() (*server.Server, error) {
		st, err := store.Open(ctx, db)
		if err != nil {
			return nil, err
		}
		st.IncompleteProject, st.IncompleteUser, st.ClaimAttempts = p.IncompleteProject, p.IncompleteUser, max(p.ClaimRetries,
			1)
		if err := st.Sync(ctx); err != nil {
			return nil, err
		}
		return server.New(ctx, st, options)
	}()
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	work.Go(func() { srv.Run(running) })
	return &Service{Handler: rest.Limit(srv, s.RequestTime), Lost: db.Lost(), Close: sync.OnceValue(func() error {
		stop()
		work.Wait()
		return closeDatabase(db, log)
	})}, nil
}
