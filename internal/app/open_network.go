package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/openberth/berth/api/compute"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/api/trace"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/network/operations"
	networkserver "github.com/openberth/berth/network/server"
	networkstore "github.com/openberth/berth/network/store"
)

// NetworkURL returns the URL of the network service's database: the configured one, or an SQLite file under dir, which
// is created.
func NetworkURL(s settings.Settings, dir string) (string, error) {
	return databaseURL(s.NetworkDB, dir, networkFile)
}

// OpenNetwork starts the network service on its database, completes recorded changes of allocations, and reports events
// to the compute of [compute], if the section names one. Without an auth_strategy it is noauth2.
func OpenNetwork(ctx context.Context, url string, placement *api.Client, s settings.Settings,
	log *slog.Logger) (*Service, error) {
	auth, err := newAuthentication(s, settings.NoAuth2, log.With("service", "network"))
	if err != nil {
		return nil, err
	}
	compute, err := computeClient(s)
	if err != nil {
		return nil, err
	}
	return openNetwork(ctx, url, networkCalls{placement, compute}, s, auth, log)
}

// networkCalls are the services that the network service calls.
type networkCalls struct {
	placement *api.Client
	compute   *compute.Client // nil: no events are reported
}

// openNetwork is OpenNetwork with the services that it calls and the authentication of its callers.
func openNetwork(ctx context.Context, url string, calls networkCalls, s settings.Settings, auth authentication,
	log *slog.Logger) (*Service, error) {
	log = trace.Log(log.With("service", "network"))
	if err := s.Network.Policy.Check(); err != nil {
		return nil, err
	}
	db, err := openDatabase(ctx, url, log)
	if err != nil {
		return nil, err
	}
	st, err := networkstore.Open(ctx, db)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	service := operations.New(st, calls.placement)
	if calls.compute != nil {
		service.Compute = calls.compute
	}
	service.Log, service.Segments, service.Times = log, segmentRanges(s.Network), networkTimes(s.Times.Network)
	service.DNSDomain = s.Network.DNSDomain
	for resource, limit := range s.Network.Quotas {
		service.Quotas[resource] = limit
	}
	options := networkserver.Options{Operations: service, Feed: networkserver.NewFeed(st, log),
		Options: auth.edge("network", s.Compute.CORS, s.ProxyHeaders, s.Network.Policy, log)}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	work.Go(func() { service.Run(running) })
	work.Go(func() { options.Feed.Run(running) })
	work.Go(func() { operations.Reports{Service: service}.Run(running) })
	exporter := trace.NewExporter(s.OTLPEndpoint, "berth-network", log)
	handler := trace.Handler(rest.Limit(networkserver.New(options), s.RequestTime), exporter)
	return &Service{Handler: handler, Lost: db.Lost(), Close: sync.OnceValue(func() error {
		stop()
		work.Wait()
		exporter.Close()
		return errors.Join(auth.closeAudit(), closeDatabase(db, log))
	})}, nil
}

// segmentRanges returns the ranges of segments of the settings.
func segmentRanges(n settings.NetworkSettings) operations.SegmentRanges {
	r := operations.SegmentRanges{TenantTypes: n.TenantTypes, Flat: n.Flat, Tunnels: n.Tunnels, MTU: n.MTU}
	for _, v := range n.VLANs {
		r.VLANs = append(r.VLANs, operations.VLANRange(v))
	}
	return r
}
