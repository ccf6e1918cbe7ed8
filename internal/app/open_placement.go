package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/api/trace"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/placement/server"
	"github.com/openberth/berth/placement/store"
)

// OpenPlacement starts Placement on a database, after it has updated the schema. missing is the auth_strategy that
// applies if the option is not set.
func OpenPlacement(ctx context.Context, url string, s settings.Settings, missing string,
	log *slog.Logger) (*Service, error) {
	auth, err := newAuthentication(s, missing, log.With("service", "placement"))
	if err != nil {
		return nil, err
	}
	return openPlacement(ctx, url, s, auth, log)
}

// openPlacement is OpenPlacement with the authentication of its callers.
func openPlacement(ctx context.Context, url string, s settings.Settings, auth authentication,
	log *slog.Logger) (*Service, error) {
	service, _, err := startPlacement(ctx, url, s, auth, log,
		func(ctx context.Context, st *store.Store) (keepHistory bool, err error) {
			if err := st.Sync(ctx); err != nil || !s.Placement.UsageHistory {
				return false, err
			}
			if err := st.CreateHistory(ctx); err != nil {
				log.Warn("usage history not kept: its tables cannot be created; permit CREATE TABLE in Placement's database, or "+
					"write [berth] usage_history = false, and restart", "service", "placement", "error", err)
				return false, ctx.Err()
			}
			return true, nil
		})
	return service, err
}

// startPlacement starts Placement on a database that prepare has prepared. prepare reports whether the database has the
// tables of the usage history.
func startPlacement(ctx context.Context, url string, s settings.Settings, auth authentication, log *slog.Logger,
	prepare func(context.Context, *store.Store) (keepHistory bool, err error)) (*Service, *server.Server, error) {
	log = trace.Log(log.With("service", "placement"))
	if auth.strategy != settings.NoAuth2 {
		if err := s.Placement.Policy.Check(); err != nil {
			return nil, nil, err
		}
	}
	db, err := openDatabase(ctx, url, log)
	if err != nil {
		return nil, nil, err
	}
	p := s.Placement
	options := server.Options{Options: auth.edge("placement", p.CORS, s.ProxyHeaders, p.Policy, log),
		RandomizeCandidates: p.Randomize, BreadthFirst: p.BreadthFirst, MaxCandidates: p.CandidateLimit(),
		RefreshInterval: p.IndexRefresh, MaxIndexAge: p.IndexMaxAge}
	srv, err := func() (*server.Server, error) {
		st, err := store.Open(ctx, db)
		if err != nil {
			return nil, err
		}
		st.IncompleteProject, st.IncompleteUser, st.ClaimAttempts = p.IncompleteProject, p.IncompleteUser, max(p.ClaimRetries,
			1)
		if options.KeepHistory, err = prepare(ctx, st); err != nil {
			return nil, err
		}
		return server.New(ctx, st, options)
	}()
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	work.Go(func() { srv.Run(running) })
	exporter := trace.NewExporter(s.OTLPEndpoint, "berth-placement", log)
	h := trace.Handler(rest.Limit(srv, s.RequestTime), exporter)
	return &Service{Handler: h, Lost: db.Lost(), Close: sync.OnceValue(func() error {
		stop()
		work.Wait()
		exporter.Close()
		return errors.Join(auth.closeAudit(), closeDatabase(db, log))
	})}, srv, nil
}
