package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/openstackclient"
	"github.com/openberth/berth/internal/testenv"
)

// Debian's openstack client works with a running placement.
func TestOpenStackClient(t *testing.T) {
	testenv.Need(t, "the openstack client")
	t.Parallel()
	d := up(t, conf(t, machine(t, 1, 4)), t.TempDir())
	openstack := func(args ...string) string {
		t.Helper()
		base := []string{"--os-auth-type", "admin_token", "--os-token", "admin", "--os-endpoint", d.urls["placement"]}
		out, err := openstackclient.Command(t, append(base, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("openstack %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	var list []struct{ UUID, Name string }
	if err := json.Unmarshal([]byte(openstack("resource", "provider", "list", "-f", "json")), &list); err != nil {
		t.Fatal(err)
	}
	pf := ""
	for _, p := range list {
		if p.Name == "cmp1_0000:10:00.0" {
			pf = p.UUID
		}
	}
	if pf == "" {
		t.Fatalf("the PF's provider is not listed: %v", list)
	}
	for want, args := range map[string][]string{
		"CUSTOM_VF":                  {"resource", "provider", "inventory", "list", pf},
		"usage":                      {"resource", "provider", "usage", "show", pf},
		"COMPUTE_MANAGED_PCI_DEVICE": {"--os-placement-api-version", "1.6", "resource", "provider", "trait", "list", pf},
		pf: {"--os-placement-api-version", "1.29", "allocation", "candidate", "list", "--resource",
			"CUSTOM_VF=2"},
	} {
		if out := openstack(args...); !strings.Contains(out, want) {
			t.Errorf("openstack %v does not show %q:\n%s", args, want, out)
		}
	}
	d.stop(t)
}

// Debian's openstack client signs in with http_basic, by variables and by clouds.yaml, at a cloud of one process.
func TestOpenStackClientWithHTTPBasic(t *testing.T) {
	testenv.Need(t, "the openstack client")
	t.Parallel()
	users := writeUsers(t, "root", "ann", "bob")
	d := up(t, conf(t, machine(t, 1, 2), "admin_users = root", "user_projects = ann:red, bob:blue", "[DEFAULT]",
		"http_basic_auth_user_file = "+users, "[api]", "auth_strategy = http_basic"), t.TempDir())
	services := []*daemon{d}
	root, ann := basicLogin("root"), basicLogin("ann")
	root.ok(t, services, "flavor", "create", "small", "--vcpus", "1", "--ram", "64")
	ann.ok(t, services, "server", "create", "anns", "--flavor", "small", "--wait")
	at := func(l login, service string) login { return append(slices.Clone(l), "OS_ENDPOINT="+d.urls[service]) }
	if out := at(root, "placement").openstack(t, "resource", "provider", "list"); !strings.Contains(out, "cmp1") {
		t.Errorf("the host's provider is not listed: %s", out)
	}
	testOpenStackServerList(t, append(slices.Clone(ann), "OS_ENDPOINT="+d.urls["compute"]+"/v2.1"), []string{"anns"})
	testOpenStackServerList(t, append(basicLogin("bob"), "OS_ENDPOINT="+d.urls["compute"]+"/v2.1"), nil)

	clouds := writeConfig(t, "clouds.yaml", `clouds:
  red:
    auth_type: http_basic
    auth: {username: ann, password: ann-secret, endpoint: "`+d.urls["compute"]+`/v2.1"}
  root:
    auth_type: http_basic
    auth: {username: root, password: root-secret, endpoint: "`+d.urls["placement"]+`"}
    placement_endpoint_override: "`+d.urls["placement"]+`"
    compute_endpoint_override: "`+d.urls["compute"]+`/v2.1"
`)
	cloud := func(name string) login { return login{"OS_CLIENT_CONFIG_FILE=" + clouds, "OS_CLOUD=" + name} }
	testOpenStackServerList(t, cloud("red"), []string{"anns"})
	if out := cloud("root").openstack(t, "resource", "provider", "list"); !strings.Contains(out, "cmp1") {
		t.Errorf("the host's provider is not listed with clouds.yaml: %s", out)
	}
	cloud("red").ok(t, nil, "server", "show", "anns")
	cloud("root").ok(t, nil, "provider", "list")
	cloud("root").ok(t, nil, "host", "list")
	d.stop(t)
}

// Debian's openstack client creates a server with an image, a network and a key pair at a cloud of one process, without
// any other OpenStack service: clouds.yaml has the addresses that a catalog would have.
func TestOpenStackClientWithoutCatalog(t *testing.T) {
	testenv.Need(t, "the openstack client")
	t.Parallel()
	dir := t.TempDir()
	d := start(t, []string{"placement", "compute", "network", "image"}, "up", "--config-file", conf(t, machine(t, 1, 2),
		"[ovs]", "bridge_mappings = physnet0:br-ex"), "--data-dir", filepath.Join(dir, "data"), "--listen-placement",
		"127.0.0.1:0", "--listen-compute", "127.0.0.1:0", "--listen-network", "127.0.0.1:0", "--listen-image",
		"127.0.0.1:0")
	cloud := withoutCatalog(t, d)
	disk := filepath.Join(dir, "disk.img")
	must(t, os.WriteFile(disk, make([]byte, 1<<20), 0o600))
	for _, command := range []string{
		"network create lan --provider-network-type flat --provider-physical-network physnet0",
		"subnet create lan4 --network lan --subnet-range 10.0.0.0/24",
		"image create linux --disk-format raw --container-format bare --file " + disk,
		"flavor create small --vcpus 1 --ram 64 --disk 1",
		"keypair create me --private-key " + filepath.Join(dir, "key"),
		"server create web --image linux --flavor small --network lan --key-name me --wait",
	} {
		cloud.openstack(t, strings.Fields(command)...)
	}
	var shown struct {
		Status, Image, Key string
		Addresses          map[string][]string
	}
	text := cloud.openstack(t, "server", "show", "web", "-f", "json")
	text = strings.Replace(text, `"key_name"`, `"key"`, 1)
	must(t, json.Unmarshal([]byte(text), &shown))
	if shown.Status != "ACTIVE" || !strings.HasPrefix(shown.Image, "linux (") || shown.Key != "me" ||
		len(shown.Addresses["lan"]) != 1 || !strings.HasPrefix(shown.Addresses["lan"][0], "10.0.0.") {
		t.Errorf("%+v in %s", shown, text)
	}
	cloud.openstack(t, "server", "delete", "web", "--wait")
	cloud.openstack(t, "image", "delete", "linux")
	cloud.openstack(t, "network", "delete", "lan")
	d.stop(t)
}

// withoutCatalog returns the environment in which the openstack client uses a cloud of one process, with clouds.yaml of
// the guide's chapter on networks of guests.
func withoutCatalog(t *testing.T, d *daemon) login {
	t.Helper()
	_, text, _ := strings.Cut(guideChapter(t, networkChapter), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	for service, port := range map[string]string{"compute": "8774", "network": "9696", "image": "9292"} {
		address := "http://127.0.0.1:" + port
		if !strings.Contains(text, address) {
			t.Fatalf("clouds.yaml of the guide has no %s", address)
		}
		text = strings.ReplaceAll(text, address, d.urls[service])
	}
	return login{"OS_CLIENT_CONFIG_FILE=" + writeConfig(t, "clouds.yaml", text), "OS_CLOUD=berth"}
}
