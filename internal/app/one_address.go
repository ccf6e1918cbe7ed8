package app

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/join"
	"github.com/openberth/berth/internal/settings"
)

// mounted is an API at the address of all APIs.
type mounted struct {
	kind, prefix, version string // type in Keystone's catalog; path of the API; path of its version below prefix
	service               *Service
}

// apis returns the APIs of the cloud, in the order of the catalog.
func (c *Cloud) apis() []mounted {
	all := []mounted{{compute.CatalogType, "/compute", "/v2.1", c.Compute}, {image.CatalogType, "/image", "", c.Image},
		{network.CatalogType, "/network", "", c.Network}, {placement.CatalogType, "/placement", "", c.Placement}}
	if c.Image == nil {
		return append(all[:1], all[2:]...)
	}
	return all
}

// catalogEntry is a service in the document at / of the address of all APIs.
type catalogEntry struct {
	Type string `json:"type"` // as in Keystone's catalog
	URL  string `json:"url"`  // as an endpoint of that catalog
}

// Handler returns a handler that serves all APIs, each below a path. At / is a catalog of them, at /healthz the health
// of all; both need no account. Metrics are not served: users reach this address. At join.Path hosts exchange tokens
// for their accounts, and at join.CertificatesPath they request certificates.
func (c *Cloud) Handler() http.Handler {
	joining := join.Handler(join.Tokens{Dir: c.Dir}, c.log)
	certifying := join.CertificatesHandler(join.Authorities{Dir: c.Dir}, c.hostAccount, c.log)
	handlers, prefixes := map[string]http.Handler{}, []string{}
	for _, api := range c.apis() {
		handlers[api.prefix] = edge.Mount(api.prefix, api.service.Handler)
		prefixes = append(prefixes, api.prefix)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first, below, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		switch h := handlers["/"+first]; {
		case h != nil && below == "metrics": // they name projects, and need no account
			http.Error(w, "the metrics of a service are at its own address", http.StatusNotFound)
		case h != nil:
			h.ServeHTTP(w, r)
		case r.URL.Path == join.Path:
			joining.ServeHTTP(w, r)
		case r.URL.Path == join.CertificatesPath:
			certifying.ServeHTTP(w, r)
		case r.URL.Path == "/healthz":
			c.health(w, r)
		case r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			rest.WriteJSON(w, http.StatusOK, map[string]any{
				"services": c.catalog(edge.BaseURL(r, c.Settings.ProxyHeaders))})
		default:
			http.Error(w, fmt.Sprintf("there is nothing for %s at %q; the APIs are below %s", r.Method, r.URL.Path,
				strings.Join(prefixes, ", ")), http.StatusNotFound)
		}
	})
}

// hostAccount returns the account of a host that has joined, from which a request comes. It returns fault.Conflict for
// another account.
func (c *Cloud) hostAccount(r *http.Request) (string, error) {
	caller, err := c.auth.caller(r)
	if err != nil {
		return "", err
	}
	if c.auth.strategy != settings.HTTPBasic || !caller.Has("service") ||
		!strings.HasPrefix(caller.User, join.AccountPrefix) {
		return "", fault.New(fault.Conflict, "%q is not the account of a host that has joined with `berth init --join`",
			caller.User)
	}
	return caller.User, nil
}

func (c *Cloud) catalog(base string) []catalogEntry {
	var all []catalogEntry
	for _, api := range c.apis() {
		all = append(all, catalogEntry{api.kind, base + api.prefix + api.version})
	}
	return all
}

// health responds with 200 if each API does, else with the status and the body of the first that does not.
func (c *Cloud) health(w http.ResponseWriter, r *http.Request) {
	for _, api := range c.apis() {
		request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://127.0.0.1/healthz", http.NoBody)
		if err != nil {
			continue // does not occur: the URL is valid
		}
		answer, err := rest.InMemory(api.service.Handler).Do(request)
		if err != nil {
			http.Error(w, fmt.Sprintf("%s: %v", api.kind, err), http.StatusServiceUnavailable)
			return
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			http.Error(w, fmt.Sprintf("%s: %s", api.kind, strings.TrimSpace(string(body))), answer.StatusCode)
			return
		}
	}
	fmt.Fprintln(w, "OK")
}
