package app

import (
	"context"
	"io"
	"log/slog"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/compute/server"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
)

// imageClient returns compute's client of the image service, or nil if [glance] is not configured.
func imageClient(i settings.ImageSettings, log *slog.Logger) (server.Images, error) {
	client, err := newImageClient(i, log)
	return imagesOf(client), err
}

// imagesOf returns the images of a client; nil for none.
func imagesOf(client *image.Client) server.Images {
	if client == nil {
		return nil
	}
	return client
}

// agentImages reads images for guests of a host. Compute has checked that the owner of the server may see its image.
type agentImages struct{ client *image.Client }

// agentCaller is the caller of an image service without an account in [glance]. Such a service trusts its callers.
var agentCaller = identity.Identity{User: "berth", Roles: []string{"admin"}}

// Image implements imagecache.Source.
func (a agentImages) Image(ctx context.Context, id string) (image.Image, error) {
	return a.client.Image(ctx, agentCaller, serviceToken, id)
}

// Download implements imagecache.Source.
func (a agentImages) Download(ctx context.Context, id string, offset int64) (io.ReadCloser, int64, error) {
	return a.client.Download(ctx, agentCaller, serviceToken, id, offset)
}

// newImageClient returns a client of the configured image service, or nil if [glance] is not configured.
func newImageClient(i settings.ImageSettings, log *slog.Logger) (*image.Client, error) {
	if i.At == "" {
		return nil, nil
	}
	service, calls := i.Service, i.Calls
	calls.Keystone.Log = log
	var err error
	if service.HTTP, err = calls.Keystone.Client(); err != nil {
		return nil, err
	}
	if service.Account, err = calls.Account(); err != nil {
		return nil, err
	}
	client, err := image.New(service)
	if err != nil {
		return nil, fault.New(fault.Invalid, "app.imageClient", "%s: %s", i.At, fault.TextOf(err))
	}
	return client, nil
}
