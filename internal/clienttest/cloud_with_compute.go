package clienttest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/internal/bench"
	"github.com/openberth/berth/internal/glance"
	"github.com/openberth/berth/internal/keystone"
)

// StartCompute starts `berth up` and adds its compute to the catalog, and starts OpenStack's image service with one
// public image, whose id it returns. networks is the address of its network service, which trusts its callers and is
// not in the catalog.
func (c *Cloud) StartCompute(t testing.TB) (image, networks string) {
	t.Helper()
	program, err := bench.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	images := glance.Start(t, c.Keystone)
	image = images.Image(t, c.Admin(t), keystone.Doc{"name": "cirros", "visibility": "public"}, "data")
	dir := t.TempDir()
	sysfs, config := filepath.Join(dir, "machine.txtar"), filepath.Join(dir, "berth.conf")
	Write(t, sysfs, "A machine without devices.\n-- bus/pci/devices/.keep --\n")
	Write(t, config, strings.Join([]string{"[DEFAULT]", "host = cmp1", "compute_driver = fake.FakeDriver",
		"allow_resize_to_same_host = true",
		"[ml2]", "tenant_network_types = vlan", "[ml2_type_vlan]", "network_vlan_ranges = physnet0:100:199", "[api]",
		"auth_strategy = noauth2",
		"[oslo_concurrency]", "lock_path = " + dir, "[berth]", "sysfs = " + sysfs,
		"[glance]", "endpoint_override = " + images.URL, "auth_type = password", "auth_url = " + c.Keystone.URL,
		"username = " + c.Keystone.AdminUser, "password = " + c.Keystone.AdminPassword,
		"project_name = " + c.Keystone.AdminProject, "user_domain_name = Default", "project_domain_name = Default", ""},
		"\n"))
	addr, networks := Free(t), Free(t)
	Run(t, filepath.Join(dir, "berth.log"), addr, program, "up", "--config-file", config,
		"--data-dir", filepath.Join(dir, "data"), "--listen-placement", "127.0.0.1:0", "--listen-compute", addr,
		"--listen-network", networks)
	front := c.Authenticate(t, "http://"+addr)
	c.Endpoint(t, c.Service(t, "compute"), c.Region, front+"/v2.1")
	return image, "http://" + networks
}

// Authenticate starts a proxy before a service that trusts its callers (noauth2). The proxy validates the tokens of
// requests in Keystone and passes user, project and roles on. It returns the URL of the proxy.
func (c *Cloud) Authenticate(t testing.TB, service string) string {
	t.Helper()
	target, err := url.Parse(service)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	var valid sync.Map // token → user:project and roles
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := r.Header.Get("X-Auth-Token"); token != "" {
			known, ok := valid.Load(token)
			if !ok {
				who, roles, status := c.validate(r, token)
				if status != http.StatusOK {
					http.Error(w, `{"unauthorized": {"code": 401, "message": "the token is not valid"}}`,
						http.StatusUnauthorized)
					return
				}
				known = [2]string{who, roles}
				valid.Store(token, known)
			}
			caller := known.([2]string)
			r.Header.Set("X-Auth-Token", caller[0])
			r.Header.Set("X-Roles", caller[1])
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front.URL
}

// validate returns user:project and the roles of a token.
func (c *Cloud) validate(r *http.Request, token string) (who, roles string, status int) {
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, c.URL+"/v3/auth/tokens", nil)
	if err != nil {
		return "", "", http.StatusInternalServerError
	}
	request.Header.Set("X-Auth-Token", token) // a token may validate itself
	request.Header.Set("X-Subject-Token", token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", "", http.StatusInternalServerError
	}
	defer response.Body.Close()
	var doc struct {
		Token struct {
			User, Project struct{ ID string }
			Roles         []struct{ Name string }
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&doc); err != nil {
		return "", "", http.StatusInternalServerError
	}
	names := make([]string, 0, len(doc.Token.Roles))
	for _, role := range doc.Token.Roles {
		names = append(names, role.Name)
	}
	return doc.Token.User.ID + ":" + doc.Token.Project.ID, strings.Join(names, ","), response.StatusCode
}
