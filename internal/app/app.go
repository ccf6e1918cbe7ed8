// Package app starts and connects the services: it opens their databases, builds them from their packages and connects
// them over their APIs, in memory or over TCP. `berth up`, `berth demo`, the commands for single services and the tests
// use it.
package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/openberth/berth/api/host"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/compute/conductor"
	computeserver "github.com/openberth/berth/compute/server"
	computestore "github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
)

// Names of the databases in a data directory.
const (
	placementFile = "placement.db"
	computeFile   = "compute.db"
)

// serviceToken is the token that services send to each other with noauth2.
const serviceToken = "admin:service"

// Service is a running service: its API and a function that stops it.
type Service struct {
	Handler http.Handler
	Close   func() error
	Lost    <-chan struct{} // closed when the service cannot continue; Close then returns the reason. nil: never
}

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

// Cloud is all services in one process, connected in memory.
type Cloud struct {
	Settings  settings.Settings
	Dir       string
	Placement *Service
	Compute   *Service
	log       *slog.Logger

	mu    sync.Mutex
	agent *runningAgent // nil while stopped
}

// Up starts Placement, compute and the agent with their state under dir.
func Up(ctx context.Context, s settings.Settings, dir string, log *slog.Logger) (*Cloud, error) {
	if err := s.NoAuth2("noauth2"); err != nil {
		return nil, err
	}
	placementURL, err := PlacementURL(s, dir)
	if err != nil {
		return nil, err
	}
	computeURL, err := ComputeURL(s, dir)
	if err != nil {
		return nil, err
	}
	c := &Cloud{Settings: s, Dir: dir, log: log}
	if c.Placement, err = OpenPlacement(ctx, placementURL, s, "noauth2", log); err != nil {
		return nil, err
	}
	if c.Compute, err = OpenCompute(ctx, computeURL, "http://placement", rest.InMemory(c.Placement.Handler), s,
		log); err != nil {
		return nil, errors.Join(err, c.Placement.Close())
	}
	if err := c.StartAgent(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// PlacementURL returns the URL of Placement's database: the configured one, or an SQLite file under dir, which is
// created.
func PlacementURL(s settings.Settings, dir string) (string, error) {
	return databaseURL(s.PlacementDB, dir, placementFile)
}

// ComputeURL returns the URL of compute's database: the configured one, or an SQLite file under dir, which is created.
func ComputeURL(s settings.Settings, dir string) (string, error) {
	return databaseURL(s.ComputeDB, dir, computeFile)
}

func databaseURL(configured, dir, name string) (string, error) {
	if configured != "" {
		return configured, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fault.New(fault.Unavailable, "app.database", "cannot create the data directory: %w", err)
	}
	return "sqlite:///" + filepath.Join(dir, name), nil // as in SQLAlchemy: three slashes and the path
}

// PlacementClient returns a client of the Placement API in memory.
func (c *Cloud) PlacementClient() *api.Client {
	return api.NewClient("http://placement", rest.InMemory(c.Placement.Handler), serviceToken)
}

// HostClient returns a client of the host API in memory.
func (c *Cloud) HostClient() host.Client {
	return hostClient("http://compute", rest.InMemory(c.Compute.Handler))
}

func hostClient(base string, transport *http.Client) host.Client {
	return host.Client{REST: &rest.Client{Base: base, HTTP: transport,
		Headers: map[string]string{"X-Auth-Token": serviceToken}}}
}

// Close stops the agent, compute and Placement, in this order.
func (c *Cloud) Close() error {
	return errors.Join(c.StopAgent(), c.Compute.Close(), c.Placement.Close())
}
