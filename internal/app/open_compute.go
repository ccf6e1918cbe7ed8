package app

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"

	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/server/catalog"
	"github.com/openberth/berth/compute/server/consoles"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/api/trace"
	"github.com/openberth/berth/compute/conductor"
	"github.com/openberth/berth/compute/metrics"

	computeserver "github.com/openberth/berth/compute/server"

	computestore "github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/compute/store/lease"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/sqldb"
)

// OpenCompute starts compute on its database and resumes unfinished operations. Without an auth_strategy it is noauth2.
// It returns fault.Conflict if another process uses the database.
func OpenCompute(ctx context.Context, url string, placement *api.Client, s settings.Settings,
	log *slog.Logger) (*Service, error) {
	auth, err := newAuthentication(s, settings.NoAuth2, log.With("service", "compute"))
	if err != nil {
		return nil, err
	}
	images, err := newImageClient(s.Images, log)
	if err != nil {
		return nil, err
	}
	network, err := networkClient(s, rest.TLSFiles{})
	if err != nil {
		return nil, err
	}
	return openCompute(ctx, url, computeCalls{placement, images, network}, s, auth, log)
}

// computeCalls are the services that compute calls.
type computeCalls struct {
	placement *api.Client
	images    *image.Client   // nil: images are not looked up
	network   *network.Client // nil: servers have no ports
}

// conductorConfig returns the configuration of the conductor, without the network and the image service.
func conductorConfig(s settings.Settings, log *slog.Logger, client *api.Client, held *lease.Lease) conductor.Config {
	return conductor.Config{Options: conductor.Options{Log: log, Pack: s.HostSettings.CPUs.Pack,
		DefaultZone: s.DefaultZone, Aliases: s.Aliases,
		PCIInPlacement: s.PCIInPlacement, Silence: s.Silence,
		ReclaimInterval: s.ReclaimInterval, OffloadTime: s.OffloadTime,
		Times: conductorTimes(s.Times.Compute)}, Providers: client, Aggregates: client,
		Lease: held}
}

// openComputeStore opens the database of compute and its store.
func openComputeStore(ctx context.Context, url string, s settings.Settings, log *slog.Logger) (*sqldb.DB,
	*computestore.Store, error) {
	limits, err := quotaSource(s.Quota)
	if err != nil {
		return nil, nil, err
	}
	db, err := openDatabase(ctx, url, log)
	if err != nil {
		return nil, nil, err
	}
	st, err := computestore.Open(ctx, db)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	st.SetQuotas(s.Quota.Limits, limits)
	st.SetDefaultZone(s.DefaultZone)
	return db, st, nil
}

// openCompute is OpenCompute with the services that it calls and the authentication of its callers.
func openCompute(ctx context.Context, url string, calls computeCalls, s settings.Settings, auth authentication,
	log *slog.Logger) (*Service, error) {
	log = trace.Log(log.With("service", "compute"))
	if err := s.Compute.Policy.Check(); err != nil {
		return nil, err
	}
	db, st, err := openComputeStore(ctx, url, s, log)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	terms := lease.Options{TTL: s.Times.Compute.LeaseTTL, Renew: s.Times.Compute.LeaseRenew}
	held, err := acquireLease(ctx, st, terms, stop, log)
	if err != nil {
		stop()
		return nil, errors.Join(err, db.Close())
	}
	if err := st.BeginEpoch(ctx); err != nil {
		stop()
		return nil, errors.Join(err, held.release(), db.Close())
	}
	client := schedulingClient(calls.placement, held.lease.Check)
	config := conductorConfig(s, log, client, held.lease)
	measured := metrics.New()
	config.Metrics = measured
	options := computeserver.Options{Store: st, Images: imagesOf(calls.images), Providers: client,
		FlavorOptions: catalog.FlavorOptions{Aliases: s.Aliases, PCIInPlacement: s.PCIInPlacement,
			Ignored: s.IgnoredProperties},
		Options:    auth.edge("compute", s.Compute.CORS, s.ProxyHeaders, s.Compute.Policy, log),
		ResizeHere: s.ResizeToSameHost, HidePasswords: !s.InstancePassword, PortsAtAnyVersion: !s.PortsNeedVersion,
		Zones:    computeserver.Zones{DefaultZone: s.DefaultZone, ScheduleZone: s.ScheduleZone},
		Consoles: consoles.Pages(s.Consoles), Stop: running.Done(), Lease: held.lease.Check}
	options.Metrics = measured.Metrics
	if calls.images != nil {
		config.Images = imageAccount(calls.images)
	}
	if calls.network != nil {
		ports := guardedNetwork(calls.network, held.lease.Check)
		config.Network, options.Networks = ports, ports
	}
	conductor := conductor.New(st, client, config)
	options.Conductor, options.Agents, options.Audits = conductor, conductor.Agents, conductor.Audits
	options.Scheduler, options.Ports = conductor.Scheduler, conductor.Ports
	options.Feed = computeserver.NewFeed(st, conductor.Agents, conductor.Audits.Conditions, log)
	measured.Watch(metrics.Source{Store: st, Agents: conductor.Agents, Backlog: conductor.Backlog})
	h := computeserver.New(options)
	if err := conductor.Resume(ctx); err != nil {
		stop()
		return nil, errors.Join(err, held.release(), db.Close())
	}
	var work sync.WaitGroup
	var failed error
	work.Go(func() { options.Feed.Run(running) })
	work.Go(func() { failed = conductor.Run(running) })
	ended, end := context.WithCancel(context.WithoutCancel(ctx))
	exporter := trace.NewExporter(s.OTLPEndpoint, "berth-compute", log)
	return &Service{Handler: trace.Handler(rest.Limit(h, s.RequestTime), exporter),
		Lost: firstClosed(held.lost, db.Lost(), ended.Done()),
		Close: sync.OnceValue(func() error {
			end()
			stop()
			work.Wait()
			exporter.Close()
			return errors.Join(failed, auth.closeAudit(), held.release(), closeDatabase(db, log))
		})}, nil
}

// schedulingClient returns a client of Placement for compute. It sends nothing while check returns an error.
func schedulingClient(placement *api.Client, check func() error) *api.Client {
	c := *placement.REST
	c.HTTP, c.Headers = rest.Guard(c.HTTP, check), maps.Clone(c.Headers)
	c.Headers[api.CandidatesHeader] = api.ForScheduling
	return &api.Client{REST: &c}
}

// guardedNetwork returns a client of the network service for compute. It sends nothing while check returns an error.
func guardedNetwork(client *network.Client, check func() error) *network.Client {
	c := *client.REST
	c.HTTP = rest.Guard(c.HTTP, check)
	return &network.Client{REST: &c}
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
