package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/compute/conductor"
	computeserver "github.com/openberth/berth/compute/server"
	computestore "github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/internal/settings"
)

// OpenCompute starts compute on its database and resumes unfinished operations. transport leads to Placement. It
// returns fault.Conflict if another process uses the database.
func OpenCompute(ctx context.Context, url, placementURL string, transport *http.Client, s settings.Settings,
	log *slog.Logger) (*Service, error) {
	images, err := imageClient(s.Images, log)
	if err != nil {
		return nil, err
	}
	log = log.With("service", "compute")
	db, err := openDatabase(ctx, url, log)
	if err != nil {
		return nil, err
	}
	st, err := computestore.Open(ctx, db)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	held, err := acquireLease(ctx, st, stop, log)
	if err != nil {
		stop()
		return nil, errors.Join(err, db.Close())
	}
	if err := st.BeginEpoch(ctx); err != nil {
		stop()
		return nil, errors.Join(err, held.release(), db.Close())
	}
	client := api.NewClient(placementURL, rest.Guard(transport, held.lease.Check), serviceToken)
	client.REST.Headers[api.CandidatesHeader] = api.ForScheduling
	conductor := conductor.New(st, client)
	conductor.Aliases, conductor.PCIInPlacement = s.Aliases, s.PCIInPlacement
	conductor.Log, conductor.Pack, conductor.Providers, conductor.Lease = log, s.HostSettings.CPUs.Pack, client, held.lease
	h := computeserver.New(computeserver.Options{Store: st, Conductor: conductor, Images: images, Providers: client,
		Aliases: s.Aliases, PCIInPlacement: s.PCIInPlacement,
		ResizeHere: s.ResizeToSameHost, Log: log, Stop: running.Done(), Lease: held.lease.Check})
	if err := conductor.Resume(ctx); err != nil {
		stop()
		return nil, errors.Join(err, held.release(), db.Close())
	}
	var work sync.WaitGroup
	var failed error
	work.Go(func() { failed = conductor.Run(running) })
	ended, end := context.WithCancel(context.WithoutCancel(ctx))
	return &Service{Handler: rest.Limit(h, s.RequestTime), Lost: firstClosed(held.lost, db.Lost(), ended.Done()),
		Close: sync.OnceValue(func() error {
			end()
			stop()
			work.Wait()
			return errors.Join(failed, held.release(), closeDatabase(db, log))
		})}, nil
}

// firstClosed returns a channel that is closed when a or b is closed. It stops waiting when done is closed.
func firstClosed(a, b, done <-chan struct{}) <-chan struct{} {
	first := make(chan struct{})
	go func() {
		select {
		case <-a:
			close(first)
		case <-b:
			close(first)
		case <-done:
		}
	}()
	return first
}
