package app

import (
	"log/slog"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/compute/server"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
)

// imageClient returns a client of the image service, or nil if [glance] is not configured.
func imageClient(i settings.ImageSettings, log *slog.Logger) (server.Images, error) {
	if i.At == "" {
		return nil, nil
	}
	service, account := i.Service, i.Account
	account.Log = log
	var err error
	if service.HTTP, err = account.Client(); err != nil {
		return nil, err
	}
	if i.HasAccount {
		if service.Account, err = identity.NewKeystone(account); err != nil {
			return nil, err
		}
	}
	client, err := image.New(service)
	if err != nil {
		return nil, fault.New(fault.Invalid, "app.imageClient", "%s: %s", i.At, fault.TextOf(err))
	}
	return client, nil
}
