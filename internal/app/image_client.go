package app

import (
	"log/slog"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/image"
	computeserver "github.com/openberth/berth/compute/server"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
)

// imagesOf returns the images of a client; nil for none.
func imagesOf(client *image.Client) computeserver.Images {
	if client == nil {
		return nil
	}
	return client
}

// agentCaller is the caller of an image service without an account in [glance]. Such a service trusts its callers.
var agentCaller = identity.Identity{User: "berth", Roles: []string{"admin"}}

// imageAccount returns what an agent or compute calls the image service with on its own behalf. Compute has checked
// that the owner of a server may see its image.
func imageAccount(client *image.Client) image.Account {
	return image.Account{Client: client, Who: agentCaller, Token: serviceToken}
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
		return nil, fault.New(fault.Invalid, "%s: %s", i.At, fault.TextOf(err))
	}
	return client, nil
}
