// Package glance starts OpenStack's own image service for tests: Debian's package glance-api on 127.0.0.1, with SQLite and a file store in a
// temporary directory, behind a Keystone; gone when the test ends. A start takes some five seconds.
package glance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/openberth/berth/internal/keystone"
)

// patience is how long one program may take to do its work.
const patience = 90 * time.Second

// Glance is a running service. Keystone's catalog has it as the service of type image.
type Glance struct {
	URL string // http://127.0.0.1:port

	keystone *keystone.Keystone
	server   *exec.Cmd
	log      string
}

// Start starts an image service behind a Keystone.
func Start(t testing.TB, k *keystone.Keystone) *Glance {
	t.Helper()
	for _, program := range []string{"glance-manage", "glance-api"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is missing: apt-get install glance-api", program)
		}
	}
	dir, port := t.TempDir(), free(t)
	g := &Glance{URL: "http://127.0.0.1:" + port, keystone: k, log: filepath.Join(dir, "glance.log")}
	conf := filepath.Join(dir, "glance-api.conf")
	if err := os.WriteFile(conf, []byte(configuration(dir, port, k)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "images"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "glance-manage", "--config-file", conf, "db_sync").CombinedOutput(); err != nil {
		t.Fatalf("glance-manage db_sync: %v\n%s", err, out)
	}
	g.serve(t, dir, conf)
	var service struct{ Service struct{ ID string } }
	token := k.Admin(t)
	k.Call(t, token, "POST", "/services", keystone.Doc{"service": keystone.Doc{"type": "image", "name": "glance"}}, http.StatusCreated, &service)
	k.Call(t, token, "POST", "/endpoints", keystone.Doc{"endpoint": keystone.Doc{"service_id": service.Service.ID, "interface": "internal", "region": k.Region,
		"url": g.URL}}, http.StatusCreated, nil)
	return g
}

// configuration has Keystone's administrator for the service's account: another would cost a second to make.
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

// free finds a port that nobody uses now.
func free(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// serve starts the server, waits until it answers, and stops it at the end of the test.
func (g *Glance) serve(t testing.TB, dir, conf string) {
	t.Helper()
	log, err := os.Create(g.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() // the process has its own
	g.server = exec.Command("glance-api", "--config-file", conf)
	g.server.Dir, g.server.Stdout, g.server.Stderr = dir, log, log
	if err := g.server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		response, err := http.Get(g.URL + "/versions")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("Glance does not answer: %v\n%s", err, g.tail())
		}
	}
}

// tail is the end of the service's log.
func (g *Glance) tail() string {
	text, err := os.ReadFile(g.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// Stop ends the service, as if it had crashed. A second Stop does nothing.
func (g *Glance) Stop() {
	if g.server.ProcessState == nil {
		g.server.Process.Kill()
		g.server.Wait()
	}
}

// Image makes an image of a few bytes with these attributes and properties, and gives its id. Without data it stays queued.
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

// Call makes a call, gives the answer, and fails the test when the status says that it was refused.
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
		t.Fatalf("%s %s: status %d\n%s\n%s", method, path, response.StatusCode, answer, g.tail())
	}
	return answer
}
