package compute

import (
	"context"
	"net/http"
	"strings"

	"github.com/openberth/berth/api/rest"
)

// Link is one hyperlink of a resource: `self`, `bookmark` or `next`.
type Link struct {
	Rel  string `json:"rel"`
	HRef string `json:"href"`
}

// Ref is a resource by name alone, as in the lists without detail.
type Ref struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Links []Link `json:"links"`
}

// Client uses the newest microversion that Berth implements. An older service answers with fault.Invalid.
type Client struct{ REST *rest.Client }

// NewClient returns a client of the service at base (such as "http://127.0.0.1:8774"); client nil means a default one.
func NewClient(base string, client *http.Client, token string) *Client {
	return &Client{REST: &rest.Client{Base: strings.TrimRight(base, "/"), HTTP: client, Headers: map[string]string{
		"X-Auth-Token":      token,
		VersionHeader:       Service + " " + Max.String(),
		LegacyVersionHeader: Max.String(),
	}}}
}

// CatalogType is the type of the service in Keystone's catalog.
const CatalogType = "compute"

// BerthLink is the relation of a link in the version document that only Berth's compute has: to its own paths.
const BerthLink = "berth"

// RootURL returns the address of a service without the version and the project that its URL has in a catalog:
// http://controller:8774 for http://controller:8774/v2.1/PROJECT.
func RootURL(address string) string {
	before, _, _ := strings.Cut(address+"/", "/v2.1/")
	return strings.TrimRight(before, "/")
}

// LocateRoot returns a function that returns the RootURL of what locate returns; nil if locate is nil.
func LocateRoot(locate func(context.Context) (string, error)) func(context.Context) (string, error) {
	if locate == nil {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		address, err := locate(ctx)
		return RootURL(address), err
	}
}
