package machines

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/keystone"
)

// TestFromOneMachineToThreeWithKeystone follows the chapter with Keystone. It cuts a cable until the host is silent,
// which takes a minute.
func TestFromOneMachineToThreeWithKeystone(t *testing.T) {
	t.Parallel()
	c := newGuideCloud(t, "keystone")
	k := keystone.Start(t, "[DEFAULT]", "public_endpoint = https://controller:5000")
	c.follow("")
	c.follow("Certificates")
	c.publish(k)
	c.build()
	guests := c.startCut()
	c.failingCommands()
	c.failingServices()
	c.failingAgents()
	c.waitForSilence()
	c.endCut(2, guests)
	c.renewCertificate()
	c.slowLink()
	c.stop()
}

// publish makes Keystone, and an image service without images, available on the controller: at https://controller:5000
// and https://controller:9292, with the certificate of the chapter. It writes the administrator's variables.
func (c *guideCloud) publish(k *keystone.Keystone) {
	t := c.t
	t.Helper()
	var list struct{ Endpoints []struct{ ID string } }
	k.Call(t, k.Admin(t), "GET", "/endpoints", nil, http.StatusOK, &list)
	for _, e := range list.Endpoints {
		k.Call(t, k.Admin(t), "PATCH", "/endpoints/"+e.ID, keystone.Doc{"endpoint": keystone.Doc{
			"url": "https://controller:5000/v3"}}, http.StatusOK, nil)
	}
	var image struct{ Service struct{ ID string } }
	k.Call(t, k.Admin(t), "POST", "/services", keystone.Doc{"service": keystone.Doc{"type": "image", "name": "image"}},
		http.StatusCreated, &image)
	k.Call(t, k.Admin(t), "POST", "/endpoints", keystone.Doc{"endpoint": keystone.Doc{"service_id": image.Service.ID,
		"interface": "public", "region_id": k.Region, "url": "https://controller:9292"}}, http.StatusCreated, nil)

	// Unix sockets connect the namespaces.
	dir := t.TempDir()
	listen := func(name, port string) net.Listener {
		path := filepath.Join(dir, name)
		l, err := net.Listen("unix", path)
		must(t, err)
		t.Cleanup(func() { l.Close() })
		c.machines["controller"].StartRelay(Relay{Listen: "10.20.0.10:" + port, Target: path,
			CertFile: "/etc/berth/cert.pem", KeyFile: "/etc/berth/key.pem"})
		return l
	}
	go Relay{Target: strings.TrimPrefix(k.URL, "http://")}.serve(listen("keystone", "5000"))
	// The openstack client requires the version document of an image service for a list of servers.
	go http.Serve(listen("image", "9292"), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"versions": [{"id": "v2.9", "status": "CURRENT",
			"links": [{"rel": "self", "href": "https://controller:9292/v2/"}]}]}`)
	}))
	must(t, os.WriteFile(c.machines["controller"].Path("root/admin-openrc"), fmt.Appendf(nil,
		"export OS_AUTH_URL=https://controller:5000 OS_USERNAME=%s OS_PASSWORD=%s OS_PROJECT_NAME=%s\n"+
			"export OS_USER_DOMAIN_NAME=Default OS_PROJECT_DOMAIN_NAME=Default OS_CACERT=/etc/berth/ca.pem\n"+
			"export OS_REGION_NAME=%s OS_IDENTITY_API_VERSION=3\n", k.AdminUser, k.AdminPassword, k.AdminProject, k.Region),
		0o600))
}
