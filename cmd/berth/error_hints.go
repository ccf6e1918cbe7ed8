package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/cli"
)

// hint returns advice for an error of a command: a service is not reachable at its URL, or refuses the account of an
// agent.
func hint(g *cli.Globals, command string, err error) string {
	text, answer := sentence(err), rest.StatusOf(err)
	if strings.HasPrefix(command, "agent") && answer != nil &&
		(answer.Code == http.StatusUnauthorized || answer.Code == http.StatusForbidden) {
		return fmt.Sprintf("; this is the answer to %s %s: correct the account of [%s], which needs the role service",
			answer.Method, answer.Path, sectionOf(answer.Path))
	}
	if one := strings.TrimSuffix(g.URL, "/"); one != "" && strings.HasPrefix(text, one) &&
		strings.Contains(text, " does not answer") {
		return "; start the services there, or correct the URL with --url (or BERTH_URL)"
	}
	for _, at := range addresses(g) {
		if at.url == "" || !strings.HasPrefix(text, strings.TrimSuffix(at.url, "/")+" does not answer") {
			continue
		}
		if at.usual {
			return fmt.Sprintf("; this is the default address of the %s: start the service, or set its URL with %s (or %s)",
				at.api, at.flag, at.env)
		}
		return fmt.Sprintf("; start the %s there, or correct its URL with %s (or %s)", at.api, at.flag, at.env)
	}
	if strings.Contains(text, "Client sent an HTTP request to an HTTPS server") {
		return "; the service at this URL uses TLS: write https:// in the URL, or in endpoint_override"
	}
	// A missing route; for a missing object the text differs.
	if answer != nil && answer.Code == http.StatusNotFound && (text == "The resource could not be found." ||
		strings.HasPrefix(text, "there is nothing at")) {
		return wrongService(g, answer.Path)
	}
	return ""
}

// apiAddress is an address of a service.
type apiAddress struct {
	api, url, flag, env string
	kind                string // of the service in catalogs
	path                string // with which the paths of its API begin
	usual               bool   // no URL is set
}

// addresses returns the addresses of the command line, or the usual ones.
func addresses(g *cli.Globals) []apiAddress {
	list := []apiAddress{
		{api: "Compute API", kind: compute.CatalogType,
			url: g.ComputeURL, flag: "--compute-url", env: "BERTH_COMPUTE_URL", path: "/v2.1"},
		{api: "Networking API", kind: network.CatalogType,
			url: g.NetworkURL, flag: "--network-url", env: "BERTH_NETWORK_URL", path: "/v2.0"},
		{api: "Image API", kind: image.CatalogType,
			url: g.ImageURL, flag: "--image-url", env: "BERTH_IMAGE_URL", path: "/v2/"},
		{api: "Placement API", kind: placement.CatalogType,
			url: g.PlacementURL, flag: "--placement-url", env: "BERTH_PLACEMENT_URL", path: "/"}}
	usual := []string{cli.DefaultComputeURL, cli.DefaultNetworkURL, cli.DefaultImageURL, cli.DefaultPlacementURL}
	for i := range list {
		if list[i].url == "" {
			list[i].url, list[i].usual = usual[i], true
		}
	}
	return list
}

// wrongService returns advice for a service that does not have a path.
func wrongService(g *cli.Globals, path string) string {
	for _, at := range addresses(g) {
		if !strings.HasPrefix(path, at.path) || strings.HasPrefix(path, "/berth/") {
			continue
		}
		if option := g.AddressOption(at.kind); at.usual && option != "" {
			return fmt.Sprintf("; the address of the cloud is not that of the %s: set %s, or the URL with %s (or %s)", at.api,
				option, at.flag, at.env)
		}
		return fmt.Sprintf("; the service at %s has no %s, so it is not the %s: correct the URL with %s (or %s)", at.url,
			path, at.api, at.flag, at.env)
	}
	return fmt.Sprintf("; the service at this URL has no %s: are --placement-url and --compute-url swapped?", path)
}

// sectionOf returns the section of the options with which an agent calls the service that has a path.
func sectionOf(path string) string {
	for _, at := range []struct{ prefix, section string }{{"/v2.0/", "neutron"}, {"/berth/v1/network-agents/", "neutron"},
		{"/v2/", "glance"}, {"/berth/v1/explain", "placement"}, {"/v2.1/", "compute"}} {
		if strings.HasPrefix(path, at.prefix) {
			return at.section
		}
	}
	path, _, _ = strings.Cut(path, "?")
	switch {
	case strings.HasPrefix(path, "/berth/v1/hosts/") && strings.HasSuffix(path, "/ports"):
		return "neutron"
	case strings.HasPrefix(path, "/berth/v1/"):
		return "compute"
	}
	return "placement"
}
