package app

import (
	"context"
	"errors"
	"sync"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/placement/shadow"
	"github.com/openberth/berth/placement/store"
)

// OpenShadow starts a shadow of the Placement that options name. It compares reads with a Placement on the database of
// the settings, which is opened in the background: an error of the database delays comparisons, not requests. The
// database is only read.
func OpenShadow(ctx context.Context, s settings.Settings, options shadow.Options) (*Service, error) {
	if s.PlacementDB == "" {
		return nil, fault.New(fault.Invalid, "cannot compare answers: [placement_database] connection is not set; give "+
			"the placement.conf of the original with --config-file")
	}
	auth, err := newAuthentication(s, settings.Keystone, options.Log.With("service", "placement"))
	if err != nil {
		return nil, err
	}
	if auth.strategy != settings.NoAuth2 {
		if err := s.Placement.Policy.Check(); err != nil {
			return nil, err
		}
	}
	sh, err := shadow.New(options)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	var berth *Service
	work.Go(func() {
		sh.Run(running, func(ctx context.Context) (*shadow.Berth, error) {
			service, srv, err := startPlacement(ctx, s.PlacementDB, s, auth, options.Log, requireTables)
			if err != nil {
				return nil, err
			}
			berth = service
			return &shadow.Berth{Handler: service.Handler, Synchronize: srv.Synchronize,
				Limit: s.Placement.CandidateLimit()}, nil
		})
	})
	return &Service{Handler: sh, Close: sync.OnceValue(func() error {
		stop()
		work.Wait()
		if berth == nil {
			return nil
		}
		return berth.Close()
	})}, nil
}

// requireTables returns an error if the database has no tables. It writes nothing.
func requireTables(ctx context.Context, st *store.Store) (keepHistory bool, err error) {
	version, err := st.Version(ctx)
	if err == nil && version == "" {
		err = errors.New("it is empty")
	}
	return false, fault.Wrap(fault.Unavailable, err)
}
