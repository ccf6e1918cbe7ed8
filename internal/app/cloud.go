package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/api/network"
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
	Network   *Service
	Image     *Service // nil with [glance]: compute uses that image service
	log       *slog.Logger
	auth      authentication
	account   internalAccount
	images    *image.Client
	events    *lateHandler // of compute, for the network service

	mu    sync.Mutex
	agent *runningAgent // nil while stopped
}

// Up starts Placement, compute, the network service, the image service and the agent with their state under dir. With
// [glance] it starts no image service.
func Up(ctx context.Context, s settings.Settings, dir string, log *slog.Logger) (*Cloud, error) {
	c, err := OpenCloud(ctx, s, dir, log)
	if err != nil {
		return nil, err
	}
	if !s.RunsAgent() {
		return c, nil
	}
	if err := c.StartAgent(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// OpenCloud is Up without the agent.
func OpenCloud(ctx context.Context, s settings.Settings, dir string, log *slog.Logger) (*Cloud, error) {
	auth, err := newAuthentication(s, settings.NoAuth2, log)
	if err != nil {
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
	networkURL, err := NetworkURL(s, dir)
	if err != nil {
		return nil, err
	}
	c := &Cloud{Settings: s, Dir: dir, log: log, auth: auth, account: newInternalAccount(),
		events: &lateHandler{}}
	if auth.strategy != settings.NoAuth2 {
		auth = c.account.accepted(auth)
	}
	if c.Placement, err = openPlacement(ctx, placementURL, s, auth, log); err != nil {
		return nil, err
	}
	if err := c.openImages(auth); err != nil {
		return nil, errors.Join(err, c.Placement.Close())
	}
	reports := networkCalls{c.PlacementClient(), c.eventsClient()}
	if c.Network, err = openNetwork(ctx, networkURL, reports, s, auth, log); err != nil {
		return nil, errors.Join(err, c.closeImages(), c.Placement.Close())
	}
	network, err := c.computeNetwork()
	if err == nil {
		calls := computeCalls{c.PlacementClient(), c.images, network}
		c.Compute, err = openCompute(ctx, computeURL, calls, s, auth, log)
	}
	if err != nil {
		return nil, errors.Join(err, c.Network.Close(), c.closeImages(), c.Placement.Close())
	}
	c.events.set(c.Compute.Handler)
	return c, nil
}

// computeNetwork returns compute's client of the network service: the one that [neutron] names, or that of the cloud.
func (c *Cloud) computeNetwork() (*network.Client, error) {
	if named, err := networkClient(c.Settings, rest.TLSFiles{}); named != nil || err != nil {
		return named, err
	}
	return c.NetworkClient(), nil
}

// openImages starts the image service, unless [glance] names another one, and sets its client.
func (c *Cloud) openImages(auth authentication) (err error) {
	if c.Settings.Images.At != "" {
		c.images, err = newImageClient(c.Settings.Images, c.log)
		return err
	}
	if c.Image, err = openImage(c.Dir, c.Settings, auth, c.log); err != nil {
		return err
	}
	token := ""
	if c.auth.strategy != settings.NoAuth2 {
		token = c.account.token
	}
	c.images, err = imagesInMemory(c.Image, token)
	return err
}

// PlacementClient returns a client of the Placement API in memory.
func (c *Cloud) PlacementClient() *api.Client {
	client := api.NewClient("http://placement", rest.InMemory(c.Placement.Handler), serviceToken)
	c.sign(client.REST)
	return client
}

// NetworkClient returns a client of the Networking API in memory.
func (c *Cloud) NetworkClient() *network.Client {
	client := network.NewClient("http://network", rest.InMemory(c.Network.Handler), serviceToken)
	c.sign(client.REST)
	return client
}

// HostClient returns a client of the host API in memory.
func (c *Cloud) HostClient() host.Client {
	client := hostClient("http://compute", rest.InMemory(c.Compute.Handler))
	c.sign(client.REST)
	return client
}

// eventsClient returns the client with which the network service reports events to compute in memory.
func (c *Cloud) eventsClient() *compute.Client {
	client := compute.NewClient("http://compute", rest.InMemory(c.events), serviceToken)
	c.sign(client.REST)
	return client
}

// sign makes a client use the internal account, if callers are authenticated.
func (c *Cloud) sign(client *rest.Client) {
	if c.auth.strategy != settings.NoAuth2 {
		client.Account = c.account
	}
}

// Close stops the agent, compute, the network service, the image service and Placement, in this order.
func (c *Cloud) Close() error {
	c.events.set(nil)
	return errors.Join(c.StopAgent(), c.Compute.Close(), c.Network.Close(), c.closeImages(), c.Placement.Close())
}

func (c *Cloud) closeImages() error {
	if c.Image == nil {
		return nil
	}
	return c.Image.Close()
}
