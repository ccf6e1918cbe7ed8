// Package clienttest lets the programs that people already use judge Berth's Placement: the `openstack` client,
// gophercloud and (with the build tag nova, `make nova`) Nova itself. Each signs in at a real Keystone, finds Placement
// in its catalog, and talks to a real `berth placement`; where answers are compared, the other one comes from
// OpenStack's own Placement, beside it in the same catalog.
package clienttest

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/openberth/berth/internal/bench"
	"github.com/openberth/berth/internal/keystone"
)

// The regions of the catalog. A client chooses by them who answers.
const (
	Berth    = "RegionOne" // Keystone's own region
	Original = "RegionTwo" // OpenStack's own Placement
)

const patience = 90 * time.Second // for a server to answer

// Cloud is an identity service, and the Placements in its catalog.
type Cloud struct {
	*keystone.Keystone
	Placement map[string]string // region → http://127.0.0.1:port

	service string // the ID of the service placement
}

// Start starts a Keystone with a service user for Placement, and a catalog that has the service but no endpoints yet.
func Start(t testing.TB) *Cloud {
	t.Helper()
	c := &Cloud{Keystone: keystone.Start(t), Placement: map[string]string{}}
	c.User(t, "placement", "service", "service")
	c.service = c.Service(t, "placement")
	return c
}

// Service puts a service into the catalog and gives its ID. Its type is its name.
func (c *Cloud) Service(t testing.TB, name string) string {
	t.Helper()
	var made struct{ Service struct{ ID string } }
	c.Call(t, c.Admin(t), "POST", "/services", keystone.Doc{"service": keystone.Doc{"name": name, "type": name}},
		http.StatusCreated, &made)
	return made.Service.ID
}

// Endpoint puts a service's public and internal endpoint into the catalog. The region is made when it is missing.
func (c *Cloud) Endpoint(t testing.TB, service, region, url string) {
	t.Helper()
	token := c.Admin(t)
	if region != c.Region {
		c.Call(t, token, "PUT", "/regions/"+region, keystone.Doc{"region": keystone.Doc{}}, http.StatusCreated, nil)
	}
	for _, face := range []string{"public", "internal"} {
		endpoint := keystone.Doc{"service_id": service, "interface": face, "region_id": region, "url": url}
		c.Call(t, token, "POST", "/endpoints", keystone.Doc{"endpoint": endpoint}, http.StatusCreated, nil)
	}
}

// keystoned are the lines of a placement.conf that let Keystone's people in.
func (c *Cloud) keystoned() string {
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

// StartBerth starts `berth placement` and puts it into the catalog.
func (c *Cloud) StartBerth(t testing.TB) {
	t.Helper()
	program, err := bench.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p, err := bench.StartBerth(program, dir, bench.SQLite(dir), c.keystoned())
	c.announce(t, Berth, p, err)
}

// StartOriginal starts OpenStack's own Placement, as Debian runs it, and puts it into the catalog.
func (c *Cloud) StartOriginal(t testing.TB) {
	t.Helper()
	// uwsgi hangs up after each answer; a client who is not told stumbles over it
	t.Setenv("UWSGI_ADD_HEADER", "Connection: close")
	dir := t.TempDir()
	p, err := bench.StartOriginal(dir, bench.SQLite(dir), c.keystoned())
	c.announce(t, Original, p, err)
}

func (c *Cloud) announce(t testing.TB, region string, p *bench.Process, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	c.Placement[region] = "http://" + p.Addr
	c.Endpoint(t, c.service, region, c.Placement[region])
}

// Credentials are the environment in which OpenStack's own programs are the administrator, in a region.
func (c *Cloud) Credentials(region string) []string {
	return []string{"OS_AUTH_TYPE=password", "OS_AUTH_URL=" + c.URL + "/v3", "OS_IDENTITY_API_VERSION=3",
		"OS_REGION_NAME=" + region,
		"OS_USERNAME=" + c.AdminUser, "OS_PASSWORD=" + c.AdminPassword, "OS_PROJECT_NAME=" + c.AdminProject,
		"OS_USER_DOMAIN_ID=default", "OS_PROJECT_DOMAIN_ID=default"}
}

// Run starts a server that ends with the test, and waits until it answers HTTP on addr; an empty addr is not waited
// for.
func Run(t testing.TB, log, addr string, args ...string) *bench.Process {
	t.Helper()
	p, err := bench.Start(log, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%s:\n%s", log, Tail(log))
		}
	})
	if addr == "" {
		return p
	}
	Eventually(t, args[0]+" answers", func() error {
		answer, err := http.Get("http://" + addr + "/")
		if err != nil {
			return fmt.Errorf("%w\n%s", err, Tail(log))
		}
		return answer.Body.Close()
	})
	return p
}

// Eventually waits until a condition holds; what it still lacks is the error.
func Eventually(t testing.TB, what string, missing func() error) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		err := missing()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s: %v", what, patience, err)
		}
	}
}

// Free finds an address on loopback that nobody listens on now.
func Free(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Write writes a file that is nobody else's business.
func Write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Tail is the end of a log.
func Tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}
