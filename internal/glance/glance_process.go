// Package glance starts OpenStack's own image service for tests: Debian's package glance-api on 127.0.0.1, with SQLite
// and a file store in a temporary directory, behind a Keystone; gone when the test ends. A start takes some five
// seconds.
package glance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/openberth/berth/internal/keystone"
	"github.com/openberth/berth/internal/testenv"
)

// Glance is a running service. Keystone's catalog lists it with type image.
type Glance struct {
	URL string // http://127.0.0.1:port

	server *keystone.Server
}

// Start starts an image service behind a Keystone.
func Start(t testing.TB, k *keystone.Keystone) *Glance {
	t.Helper()
	testenv.Need(t, "Glance")
	for _, program := range []string{"glance-manage", "glance-api"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is missing: apt-get install glance-api", program)
		}
	}
	dir, port := t.TempDir(), keystone.Free(t)
	g := &Glance{URL: "http://127.0.0.1:" + port}
	conf := filepath.Join(dir, "glance-api.conf")
	if err := os.WriteFile(conf, []byte(configuration(dir, port, k)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "images"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "glance-manage", "--config-file", conf,
		"db_sync").CombinedOutput(); err != nil {
		t.Fatalf("glance-manage db_sync: %v\n%s", err, out)
	}
	g.server = keystone.Serve(t, exec.Command("glance-api", "--config-file", conf), dir, g.URL+"/versions")
	var service struct{ Service struct{ ID string } }
	token := k.Admin(t)
	k.Call(t, token, "POST", "/services", keystone.Doc{"service": keystone.Doc{"type": "image", "name": "glance"}},
		http.StatusCreated, &service)
	for _, kind := range []string{"internal", "public"} {
		k.Call(t, token, "POST", "/endpoints", keystone.Doc{"endpoint": keystone.Doc{"service_id": service.Service.ID,
			"interface": kind, "region": k.Region, "url": g.URL}}, http.StatusCreated, nil)
	}
	return g
}

// configuration returns the configuration. The service uses Keystone's administrator, because creating another account
// takes a second.
func configuration(dir, port string, k *keystone.Keystone) string {
	return fmt.Sprintf(`[DEFAULT]
bind_host = 127.0.0.1
bind_port = %[2]s
workers = 0
use_stderr = true
[database]
connection = sqlite:///%[1]s/glance.db
[glance_store]
stores = file
default_store = file
filesystem_store_datadir = %[1]s/images
[paste_deploy]
flavor = keystone
config_file = /usr/share/glance-common/glance-api-paste.ini
[keystone_authtoken]
auth_type = password
auth_url = %[3]s
www_authenticate_uri = %[3]s
username = %[4]s
password = %[5]s
project_name = %[6]s
user_domain_name = Default
project_domain_name = Default
[oslo_messaging_notifications]
driver = noop
`, dir, port, k.URL, k.AdminUser, k.AdminPassword, k.AdminProject)
}

// Stop kills the service. A second Stop does nothing.
func (g *Glance) Stop() { g.server.Stop() }

// Image creates an image of a few bytes with these attributes and properties, and returns its id. Without data it
// remains queued.
func (g *Glance) Image(t testing.TB, token string, image keystone.Doc, data string) string {
	t.Helper()
	image["disk_format"], image["container_format"] = "raw", "bare"
	text, err := json.Marshal(image)
	if err != nil {
		t.Fatal(err)
	}
	var made struct{ ID string }
	if err := json.Unmarshal(g.Call(t, token, "POST", "/v2/images", "application/json", string(text)), &made); err != nil {
		t.Fatal(err)
	}
	if data != "" {
		g.Call(t, token, "PUT", "/v2/images/"+made.ID+"/file", "application/octet-stream", data)
	}
	return made.ID
}

// Call sends a request and returns the response. It fails the test if the status is an error.
func (g *Glance) Call(t testing.TB, token, method, path, kind, body string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, g.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", kind)
	request.Header.Set("X-Auth-Token", token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: status %d\n%s\n%s", method, path, response.StatusCode, answer, g.server.Tail())
	}
	return answer
}
