package app

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/network"
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

// PlacementOverTCP returns the client with which compute and the agent call Placement over the network. address is that
// of the command line; empty: that of [placement] endpoint_override or of Keystone's catalog; flags as in TCPEndpoints.
func PlacementOverTCP(s settings.Settings, address string, flags rest.TLSFiles) (*api.Client, error) {
	client := api.NewClient("", nil, serviceToken)
	if err := connect(client.REST, s.Accounts.Placement, s.TLS.Placement.Or(flags), api.CatalogType,
		cmp.Or(address, s.Accounts.Placement.Address), defaultPlacementURL); err != nil {
		return nil, err
	}
	client.REST.HTTP.Timeout = placementTime
	return client, nil
}

// computeOverTCP returns the client with which the agent calls compute over the network.
func computeOverTCP(s settings.Settings, address string, flags rest.TLSFiles) (host.Client, error) {
	// The client has no timeout, because assignments are an endless stream. Other requests have a context with a timeout.
	client := hostClient("", nil)
	address = compute.RootURL(cmp.Or(address, s.Accounts.Compute.Address))
	if err := connect(client.REST, s.Accounts.Compute, computeFiles(s).Or(flags), compute.CatalogType, address,
		defaultComputeURL); err != nil {
		return client, err
	}
	client.REST.Locate = compute.LocateRoot(client.REST.Locate)
	return client, nil
}

// networkClient returns the client with which compute and the agent call the network service; nil if [neutron] has
// neither an address nor an account of Keystone, whose catalog has it.
func networkClient(s settings.Settings, flags rest.TLSFiles) (*network.Client, error) {
	calls := s.Accounts.Network
	if !calls.Named() {
		return nil, nil
	}
	files := keystoneFiles(calls.Keystone, "neutron")
	client := network.NewClient("", nil, serviceToken)
	if err := connect(client.REST, calls, files.Or(flags), network.CatalogType, network.RootURL(calls.Address),
		""); err != nil {
		return nil, err
	}
	client.REST.Locate = network.LocateRoot(client.REST.Locate)
	client.REST.HTTP.Timeout = placementTime
	return client, nil
}

// computeClient returns the client with which the network service calls compute; nil if [compute] has neither an
// address nor an account of Keystone, whose catalog has it.
func computeClient(s settings.Settings) (*compute.Client, error) {
	calls := s.Accounts.Compute
	if !calls.Named() {
		return nil, nil
	}
	client := compute.NewClient("", nil, serviceToken)
	if err := connect(client.REST, calls, computeFiles(s), compute.CatalogType, compute.RootURL(calls.Address),
		""); err != nil {
		return nil, err
	}
	client.REST.Locate = compute.LocateRoot(client.REST.Locate)
	client.REST.HTTP.Timeout = placementTime
	return client, nil
}

// keystoneFiles returns the certificates of an account at Keystone for calls of its service.
func keystoneFiles(k identity.KeystoneOptions, group string) rest.TLSFiles {
	return rest.TLSFiles{CAFile: k.CAFile, CertFile: k.CertFile, KeyFile: k.KeyFile, Insecure: k.Insecure,
		Names: rest.TLSOptionNames{CA: "[" + group + "] cafile", Cert: "[" + group + "] certfile",
			Key: "[" + group + "] keyfile"}}
}

// computeFiles returns the certificates for calls of compute: those of [berth] compute_cafile and its neighbours, else
// those of [compute], which are also for calls of Keystone.
func computeFiles(s settings.Settings) rest.TLSFiles {
	files, k := s.TLS.Compute, s.Accounts.Compute.Keystone
	if files.CAFile == "" && files.CertFile == "" && (k.CAFile != "" || k.CertFile != "" || k.Insecure) {
		files = keystoneFiles(k, "compute")
	}
	return files
}

// connect sets the account, the address and the certificates of a client. kind is the type of the service in Keystone's
// catalog; missing is the address without a catalog. The client follows no redirection, so that credentials are sent to
// no other server.
func connect(client *rest.Client, calls identity.ServiceCalls, files rest.TLSFiles, kind, address,
	missing string) error {
	transport, err := files.Transport()
	if err != nil {
		return err
	}
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
	client.TLSNames = files.Names
	client.HTTP = &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return nil
}

func hostClient(base string, transport *http.Client) host.Client {
	return host.Client{REST: &rest.Client{Base: base, HTTP: transport,
		Headers: map[string]string{"X-Auth-Token": serviceToken}}}
}
