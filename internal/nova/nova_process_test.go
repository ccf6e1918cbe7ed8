//go:build nova

package nova

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/clienttest"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/keystone"
)

const (
	image   = "99999999-9999-4999-8999-999999999990" // the only image of the image service
	missing = "66666666-6666-4666-8666-666666666669" // the id of no server
)

// nova is OpenStack's compute service: API, conductor, scheduler and two hosts with Nova's fake driver, on MariaDB
// and RabbitMQ.
type nova struct {
	*clienttest.Cloud
	api       *gophercloud.ServiceClient
	placement *gophercloud.ServiceClient // Berth, with the same user
	dir       string
	conf      string
	maria     *databases.Server // of Nova
	cell      string            // name of the database of its cell
}

// startNova starts a Nova whose Placement is Berth, with an empty network service.
func startNova(t *testing.T) *nova {
	t.Helper()
	return startNovaWith(t, nil)
}

// startNovaWith starts a Nova whose Placement is Berth. network starts its network service and returns the address, if
// it is not nil.
func startNovaWith(t *testing.T, network func(c *clienttest.Cloud) (address string)) *nova {
	t.Helper()
	for _, program := range []string{"nova-api", "nova-conductor", "nova-scheduler", "nova-manage", "nova-status",
		"rabbitmq-server", "epmd"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("Nova is not installed: run `make nova`: %v", err)
		}
	}
	n := &nova{Cloud: clienttest.Start(t), dir: t.TempDir()}
	n.StartBerth(t)
	n.User(t, "nova", "service", "admin", "service")
	services := httptest.NewServer(http.HandlerFunc(serveImagesAndNetworks))
	t.Cleanup(services.Close)
	api := clienttest.Free(t)
	n.Endpoint(t, n.Service(t, "compute"), n.Region, "http://"+api+"/v2.1")
	networks := services.URL
	if network != nil {
		networks = network(n.Cloud)
	} else {
		n.Endpoint(t, n.Service(t, "network"), n.Region, networks)
	}
	n.conf = filepath.Join(n.dir, "nova.conf")
	n.maria = databases.MariaDB(t)
	maria, cell := n.maria, n.maria.Database(t)
	n.cell, _, _ = strings.Cut(cell[strings.LastIndex(cell, "/")+1:], "?")
	clienttest.Write(t, n.conf, n.configuration(api, clienttest.RabbitMQ(t, n.dir), services.URL, networks))
	clienttest.Write(t, filepath.Join(n.dir, "db.conf"),
		"[api_database]\nconnection = "+maria.Database(t)+"\n[database]\nconnection = "+cell+"\n")
	n.manage(t, 0, "api_db", "sync")
	n.manage(t, 0, "cell_v2", "map_cell0", "--database_connection", maria.Database(t))
	n.manage(t, 0, "cell_v2", "create_cell", "--name", "cell1")
	n.manage(t, 0, "db", "sync")
	n.run(t, "", "nova-conductor", "db")
	n.run(t, "", "nova-scheduler", "db")
	n.run(t, api, "nova-api", "db")
	for _, host := range []string{"cmp1", "cmp2"} {
		clienttest.Write(t, filepath.Join(n.dir, host+".conf"),
			"[DEFAULT]\nhost = "+host+"\nstate_path = "+n.dir+"/"+host+"\n")
		if err := os.MkdirAll(filepath.Join(n.dir, host, "instances"), 0o755); err != nil {
			t.Fatal(err)
		}
		// This is the whole program nova-compute; its package would install libvirt.
		program := filepath.Join(n.dir, "nova-compute")
		clienttest.Write(t, program, "from nova.cmd.compute import main\nmain()\n")
		n.run(t, "", program, host)
	}
	provider, err := openstack.AuthenticatedClient(t.Context(), gophercloud.AuthOptions{IdentityEndpoint: n.URL + "/v3",
		AllowReauth: true,
		Username:    n.AdminUser, Password: n.AdminPassword, TenantName: n.AdminProject, DomainID: "default"})
	if err != nil {
		t.Fatal(err)
	}
	n.api, err = openstack.NewComputeV2(provider, gophercloud.EndpointOpts{Region: n.Region})
	if err != nil {
		t.Fatal(err)
	}
	n.api.Microversion = "2.90"
	n.placement, err = openstack.NewPlacementV1(provider, gophercloud.EndpointOpts{Region: n.Region})
	if err != nil {
		t.Fatal(err)
	}
	n.placement.Microversion = "1.39"
	return n
}

// configuration returns a nova.conf.
func (n *nova) configuration(api, rabbit, images, networks string) string {
	address, port, _ := strings.Cut(api, ":")
	return fmt.Sprintf(`[DEFAULT]
state_path = %[1]s
transport_url = %[2]s
compute_driver = fake.FakeDriver
my_ip = 127.0.0.1
osapi_compute_listen = %[3]s
osapi_compute_listen_port = %[4]s
osapi_compute_workers = 1
enabled_apis = osapi_compute
report_interval = 2
update_resources_interval = 5
heal_instance_info_cache_interval = -1
use_stderr = true
graceful_shutdown_timeout = 1
[quota]
instances = -1
cores = -1
ram = -1
[conductor]
workers = 1
[scheduler]
workers = 1
discover_hosts_in_cells_interval = 2
[filter_scheduler]
track_instance_changes = false
[oslo_concurrency]
lock_path = %[1]s
[wsgi]
api_paste_config = /usr/share/nova-common/api-paste.ini
[glance]
endpoint_override = %[5]s
[neutron]
endpoint_override = %[9]s
%[6]s
[placement]
region_name = %[7]s
%[6]s
[service_user]
send_service_user_token = true
%[6]s
[keystone_authtoken]
www_authenticate_uri = %[8]s
service_token_roles_required = true
%[6]s
`, n.dir, rabbit, address, port, images, fmt.Sprintf(`auth_type = password
auth_url = %s
username = nova
password = nova
project_name = service
user_domain_name = Default
project_domain_name = Default`, n.URL), n.Region, n.URL, networks)
}

// serveImagesAndNetworks is an image service with one image and an empty network service, which Nova requires.
func serveImagesAndNetworks(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	one := keystone.Doc{"id": image, "name": "one", "status": "active", "visibility": "public", "container_format": "bare",
		"disk_format": "raw", "size": 1,
		"min_disk": 0, "min_ram": 0, "owner": "none", "checksum": "0", "created_at": "2026-01-01T00:00:00Z",
		"updated_at": "2026-01-01T00:00:00Z"}
	list := strings.TrimSuffix(filepath.Base(r.URL.Path), ".json")
	answer := keystone.Doc{strings.ReplaceAll(list, "-", "_"): []any{}}
	switch {
	case strings.HasPrefix(r.URL.Path, "/v2/images/"):
		answer = one
	case strings.HasPrefix(r.URL.Path, "/v2/schemas/"):
		properties := keystone.Doc{}
		for name := range one {
			properties[name] = keystone.Doc{}
		}
		answer = keystone.Doc{"name": list, "properties": properties}
	}
	json.NewEncoder(w).Encode(answer) // an error means that the client has left
}

// run starts one of Nova's services with the common configuration and its own. Hosts do not get the database.
func (n *nova) run(t *testing.T, addr, program, own string) {
	t.Helper()
	args := []string{program}
	if filepath.IsAbs(program) {
		args = []string{"/usr/bin/python3", program}
	}
	log := filepath.Join(n.dir, filepath.Base(program)+"."+own+".log")
	args = append(args, "--config-file", n.conf, "--config-file", filepath.Join(n.dir, own+".conf"))
	clienttest.Run(t, log, addr, args...)
}

// manage runs nova-manage, which must end with this status, and returns its output.
func (n *nova) manage(t *testing.T, want int, args ...string) string {
	t.Helper()
	return n.tool(t, want, "nova-manage", args...)
}

// tool runs one of Nova's tools, which must end with this status, and returns its output.
func (n *nova) tool(t *testing.T, want int, program string, args ...string) string {
	t.Helper()
	args = append([]string{"--config-file", n.conf, "--config-file", filepath.Join(n.dir, "db.conf")}, args...)
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = n.dir
	out, err := cmd.CombinedOutput()
	status := 0
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		status, err = ended.ExitCode(), nil
	}
	if err != nil || status != want {
		t.Fatalf("%s %s: status %d, want %d: %v\n%s", program, strings.Join(args, " "), status, want, err, out)
	}
	return string(out)
}
