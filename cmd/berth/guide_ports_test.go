package main

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// guideBlocks returns the blocks of the guide with a word after "sh", in order.
func guideBlocks(t *testing.T, word string) (blocks []string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?s)\n```sh "+word+"\n(.*?)```").FindAllStringSubmatch(guide(t), -1) {
		blocks = append(blocks, m[1])
	}
	if len(blocks) == 0 {
		t.Fatalf("the guide has no block for %q", word)
	}
	return blocks
}

// requireInstalled reports whether a command of the guide installs packages. Tests have these already, and fail if one
// is missing.
func requireInstalled(t *testing.T, command []string) bool {
	t.Helper()
	if len(command) < 4 || !slices.Equal(command[:3], []string{"apt-get", "install", "-y"}) {
		return false
	}
	if out, err := exec.Command("dpkg", append([]string{"--status"}, command[3:]...)...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v: %s", command, err, out)
	}
	return true
}

// The guide's commands for ports and quotas run in their order, at separate services with two hosts. What they need
// beside each other, such as flavors, is made before.
func TestPortsOfTheGuide(t *testing.T) {
	testenv.Need(t, "the openstack client")
	testenv.Long(t)
	t.Parallel()
	f := newPortFleet(t, "cmp1", "cmp2")
	services := []*daemon{f.placement, f.compute, f.network}
	account := login{"OS_CLIENT_CONFIG_FILE=" + writeConfig(t, "clouds.yaml", `clouds:
  berth:
    auth_type: admin_token
    auth: {token: admin, endpoint: "`+f.compute.urls["compute"]+`/v2.1"}
    compute_endpoint_override: "`+f.compute.urls["compute"]+`/v2.1"
    network_endpoint_override: "`+f.network.urls["network"]+`"
`), "OS_CLOUD=berth", "OS_COMPUTE_API_VERSION=2.72"}
	run := func(script string) (out string) {
		t.Helper()
		for line := range strings.Lines(script) {
			words := strings.Fields(line)
			switch words[0] {
			case "berth":
				out += login{"OS_TOKEN=admin"}.ok(t, services, words[1:]...)
			case "openstack":
				out += account.openstack(t, words[1:]...)
			default:
				t.Fatalf("%q is a command of neither berth nor openstack; adapt this test", line)
			}
		}
		return out
	}
	blocks := guideBlocks(t, "ports")
	before := []string{"", `berth flavor create small --vcpus 1 --ram 64
berth network create lan --provider-network-type flat --provider-physical-network physnet0
berth subnet create lan4 --network lan --subnet-range 10.0.0.0/24
berth port create fast0 --network lan
berth port create fast1 --network lan`, `berth server delete web --wait
berth port delete fast0
berth flavor create gold --vcpus 1 --ram 64
berth flavor create plain --vcpus 1 --ram 64`, `berth qos policy create gold
berth qos rule add gold --type minimum-bandwidth --rate 1000
berth network create fast --provider-network-type vlan --provider-physical-network physnet1 --provider-segment 9
berth subnet create fast4 --network fast --subnet-range 10.2.0.0/24`}
	shows := []string{"guaranteed", "10.0.0.10", "", "ACTIVE"}
	if len(blocks) != len(before) {
		t.Fatalf("the guide has %d blocks for ports; adapt this test", len(blocks))
	}
	for i, block := range blocks {
		run(before[i])
		if out := run(block); !strings.Contains(out, shows[i]) {
			t.Errorf("no %q in what these commands print:\n%s\n%s", shows[i], block, out)
		}
	}
	if ports := run("berth port list --server web"); !strings.Contains(ports, "fast0") ||
		!strings.Contains(ports, "10.2.0.") {
		t.Errorf("the server does not have the port of the last block only:\n%s", ports)
	}
	if out := run(guideBlocks(t, "quotas")[0]); !strings.Contains(out, "100") || !strings.Contains(out, "40") {
		t.Errorf("no limit of the project and of the class in:\n%s", out)
	}
	run("berth server create gold --flavor gold --wait\nberth server create plain --flavor plain --wait")
	for name, host := range map[string]string{"gold": "cmp1", "plain": "cmp2"} {
		if out := run("berth server show " + name); !strings.Contains(out, " "+host+"\n") {
			t.Errorf("%s is not on %s:\n%s", name, host, out)
		}
	}
}
