package app

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/identity"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/internal/settings"
)

// serviceToken is the token that services send to each other with noauth2.
const serviceToken = "admin:service"

// The addresses of the services without an option.
const (
	defaultPlacementURL = "http://127.0.0.1:8778"
	defaultComputeURL   = "http://127.0.0.1:8774"
)

// placementTime is the time limit of a call of Placement.
const placementTime = time.Minute

// PlacementClient returns the client with which compute and the agent call Placement over the network. address is that
// of the command line; empty: that of [placement] endpoint_override or of Keystone's catalog.
func PlacementClient(s settings.Settings, address string) (*api.Client, error) {
	client := api.NewClient("", nil, serviceToken)
	if err := connect(client.REST, s.Accounts.Placement, api.CatalogType, cmp.Or(address, s.Accounts.Placement.Address),
		defaultPlacementURL); err != nil {
		return nil, err
	}
	client.REST.HTTP.Timeout = placementTime
	return client, nil
}

// computeClient returns the client with which the agent calls compute over the network.
func computeClient(s settings.Settings, address string) (host.Client, error) {
	// The client has no timeout, because assignments are an endless stream. Other requests have a context with a timeout.
	client := hostClient("", nil)
	address = compute.RootURL(cmp.Or(address, s.Accounts.Compute.Address))
	if err := connect(client.REST, s.Accounts.Compute, compute.CatalogType, address, defaultComputeURL); err != nil {
		return client, err
	}
	client.REST.Locate = compute.LocateRoot(client.REST.Locate)
	return client, nil
}

// connect sets the account, the address and the certificates of a client. kind is the type of the service in Keystone's
// catalog; missing is the address without a catalog.
func connect(client *rest.Client, calls identity.ServiceCalls, kind, address, missing string) error {
	account, err := calls.Account()
	if err != nil {
		return err
	}
	if account != nil {
		client.Account = account
	}
	switch {
	case address != "":
		client.Base = strings.TrimRight(address, "/")
	case account.Locate(kind) != nil:
		client.Locate = account.Locate(kind)
	default:
		client.Base = missing
	}
	k := calls.Keystone
	k.Timeout = 0
	client.HTTP, err = k.Client()
	return err
}

func hostClient(base string, transport *http.Client) host.Client {
	return host.Client{REST: &rest.Client{Base: base, HTTP: transport,
		Headers: map[string]string{"X-Auth-Token": serviceToken}}}
}
