package app

import (
	"context"
	"strings"

	"github.com/openberth/berth/api/limits"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/compute/quota"
	computestore "github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/internal/settings"
)

// quotaSource returns the source of limits: Keystone, or nil for compute's database and the configuration.
func quotaSource(q settings.QuotaSettings) (computestore.QuotaSource, error) {
	if q.Driver != settings.UnifiedLimits {
		return nil, nil
	}
	address := strings.TrimRight(q.Keystone.Address, "/")
	if address == "" {
		address = strings.TrimRight(q.Keystone.Keystone.AuthURL, "/")
	}
	if !strings.HasSuffix(address, "/v3") {
		address += "/v3"
	}
	client := &rest.Client{}
	if err := connect(client, q.Keystone, keystoneFiles(q.Keystone.Keystone, "oslo_limit"), "identity", address,
		""); err != nil {
		return nil, err
	}
	client.HTTP.Timeout = q.Keystone.Keystone.Timeout
	reader := limits.NewClient(client, q.Service)
	return func(ctx context.Context, project string) (quota.Amounts, error) {
		found, err := reader.Of(ctx, project)
		if err != nil {
			return nil, err
		}
		return quota.FromUnified(found, q.Required), nil
	}, nil
}
