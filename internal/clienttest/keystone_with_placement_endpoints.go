// Package clienttest tests Berth with existing clients: Placement with the `openstack` client and gophercloud, and
// compute with the `openstack` client. Each authenticates with a real Keystone, finds Placement in its catalog, and
// uses a real `berth placement`. Where responses are compared, OpenStack's own Placement is in the same catalog.
// Packages nova and neutron start these services beside it.
package clienttest

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/openberth/berth/internal/bench"
	"github.com/openberth/berth/internal/keystone"
)

// The regions of the catalog. A client selects the Placement by the region.
const (
	Berth    = "RegionOne" // Keystone's own region
	Original = "RegionTwo" // OpenStack's own Placement
)

// Cloud is an identity service with the Placements in its catalog.
type Cloud struct {
	*keystone.Keystone
	Placements map[string]string // region → http://127.0.0.1:port

	service string // the ID of the service placement
}

// Start starts a Keystone with a service user for Placement, and a catalog that has the service, but no endpoints.
func Start(t testing.TB) *Cloud {
	t.Helper()
	c := &Cloud{Keystone: keystone.Start(t), Placements: map[string]string{}}
	c.User(t, "placement", "service", "service")
	c.service = c.Service(t, "placement")
	return c
}

// Service adds a service to the catalog and returns its ID. Its type is its name.
func (c *Cloud) Service(t testing.TB, name string) string {
	t.Helper()
	var made struct{ Service struct{ ID string } }
	c.Call(t, c.Admin(t), "POST", "/services", keystone.Doc{"service": keystone.Doc{"name": name, "type": name}},
		http.StatusCreated, &made)
	return made.Service.ID
}

// Endpoint adds the public and the internal endpoint of a service to the catalog. It creates the region if it does
// not exist.
func (c *Cloud) Endpoint(t testing.TB, service, region, url string) {
	t.Helper()
	token := c.Admin(t)
	if region != c.Region {
		c.Call(t, token, "PUT", "/regions/"+region, keystone.Doc{"region": keystone.Doc{}}, http.StatusCreated, nil)
	}
	for _, kind := range []string{"public", "internal"} {
		endpoint := keystone.Doc{"service_id": service, "interface": kind, "region_id": region, "url": url}
		c.Call(t, token, "POST", "/endpoints", keystone.Doc{"endpoint": endpoint}, http.StatusCreated, nil)
	}
}

// keystoneOptions returns the lines of a placement.conf for authentication with this Keystone.
func (c *Cloud) keystoneOptions() string {
	return fmt.Sprintf(`[api]
auth_strategy = keystone
[keystone_authtoken]
auth_type = password
auth_url = %[1]s
www_authenticate_uri = %[1]s
username = placement
password = placement
project_name = service
user_domain_name = Default
project_domain_name = Default`, c.URL)
}

// StartBerth starts `berth placement` and adds it to the catalog.
func (c *Cloud) StartBerth(t testing.TB) {
	t.Helper()
	program, err := bench.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p, err := bench.StartBerth(program, dir, bench.SQLite(dir), c.keystoneOptions())
	c.register(t, Berth, p, err)
}

// StartOriginal starts OpenStack's own Placement, as Debian runs it, and adds it to the catalog.
func (c *Cloud) StartOriginal(t testing.TB) {
	t.Helper()
	// uwsgi closes the connection after each response; without the header clients fail at the next request
	t.Setenv("UWSGI_ADD_HEADER", "Connection: close")
	dir := t.TempDir()
	p, err := bench.StartOriginal(dir, bench.SQLite(dir), c.keystoneOptions())
	c.register(t, Original, p, err)
}

// register adds a started Placement to the catalog and stops it when the test ends.
func (c *Cloud) register(t testing.TB, region string, p *bench.Process, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	c.Placements[region] = "http://" + p.Addr
	c.Endpoint(t, c.service, region, c.Placements[region])
}

// Credentials returns the environment of OpenStack's programs for the administrator in a region.
func (c *Cloud) Credentials(region string) []string {
	return []string{"OS_AUTH_TYPE=password", "OS_AUTH_URL=" + c.URL + "/v3", "OS_IDENTITY_API_VERSION=3",
		"OS_REGION_NAME=" + region,
		"OS_USERNAME=" + c.AdminUser, "OS_PASSWORD=" + c.AdminPassword, "OS_PROJECT_NAME=" + c.AdminProject,
		"OS_USER_DOMAIN_ID=default", "OS_PROJECT_DOMAIN_ID=default"}
}
