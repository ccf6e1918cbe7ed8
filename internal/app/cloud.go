package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/openberth/berth/api/host"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/internal/settings"
)

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
	if c.Compute, err = OpenCompute(ctx, computeURL, c.PlacementClient(), s, log); err != nil {
		return nil, errors.Join(err, c.Placement.Close())
	}
	if err := c.StartAgent(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// PlacementClient returns a client of the Placement API in memory.
func (c *Cloud) PlacementClient() *api.Client {
	return api.NewClient("http://placement", rest.InMemory(c.Placement.Handler), serviceToken)
}

// HostClient returns a client of the host API in memory.
func (c *Cloud) HostClient() host.Client {
	return hostClient("http://compute", rest.InMemory(c.Compute.Handler))
}

// Close stops the agent, compute and Placement, in this order.
func (c *Cloud) Close() error {
	return errors.Join(c.StopAgent(), c.Compute.Close(), c.Placement.Close())
}
