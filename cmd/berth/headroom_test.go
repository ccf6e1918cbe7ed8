package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/internal/testenv"
)

// TestHeadroomCommand counts servers with ports on a host with four VFs and 10 Mbit/s: the command of the guide, with
// the network and a bandwidth of this host, several ports, programs' output, wrong arguments, and a disabled host.
func TestHeadroomCommand(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	f := newPortFleet(t, "cmp1")
	_, err := f.compute.compute().CreateFlavor(t.Context(), compute.CreateFlavor{ID: "small", Name: "small", VCPUs: 1,
		RAM: 64})
	must(t, err)
	headroom := func(args ...string) (status int, out, problems string) {
		var stdout, stderr bytes.Buffer
		args = append(args, "--compute-url", f.compute.urls["compute"], "--placement-url", f.placement.urls["placement"])
		status = run(append([]string{"headroom"}, args...), &stdout, &stderr)
		return status, stdout.String(), stderr.String()
	}
	const vf, bandwidth = "SRIOV_NET_VF", "NET_BW_EGR_KILOBIT_PER_SEC"
	one := []string{"small", "--port", "vnic_type=direct,physical_network=physnet1,egress=1000"}
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{guideHeadroom(t), []string{"cmp1", "3 more servers fit; " + bandwidth + " runs out first, on 1 hosts"}},
		{one, []string{"4 more servers fit; " + vf + " runs out first, on 1 hosts"}},
		{append(one, one[1:]...), []string{"2 more servers fit; " + vf + " runs out first"}},
		{[]string{"small", "--port", "egress=1000"}, []string{"0 more servers fit", "CUSTOM_NETWORK_TUNNEL_PROVIDER"}},
	} {
		status, out, problems := headroom(c.args...)
		for _, word := range c.words {
			if status != 0 || !strings.Contains(out, word) {
				t.Errorf("%q: status %d, no %q in\n%s%s", c.args, status, word, out, problems)
			}
		}
	}
	var got []host.Headroom
	_, out, _ := headroom(append(one, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != 1 || got[0].Fits != 4 || !got[0].Exact ||
		len(got[0].ByHost) != 1 {
		t.Errorf("%v\n%s", err, out)
	}
	for _, by := range []string{"zone", "aggregate"} {
		group := map[string]string{"zone": "nova", "aggregate": "(none)"}[by]
		if _, out, _ := headroom(append(one, "--by", by)...); !strings.Contains(out, group) ||
			!strings.Contains(out, vf+", on 1 hosts") {
			t.Errorf("by %s:\n%s", by, out)
		}
	}
	for _, wrong := range [][2]string{{"speed=1", "unknown key"}, {"egress=fast", "guaranteed rate"},
		{"vnic_type=baremetal,egress=1", "baremetal"}} {
		status, out, problems := headroom("small", "--port", wrong[0])
		if status == 0 || out != "" || !strings.Contains(problems, wrong[1]) {
			t.Errorf("%s: status %d\n%s%s", wrong[0], status, out, problems)
		}
	}
	if status, _, problems := headroom("large"); status == 0 || !strings.Contains(problems, "large") {
		t.Errorf("an unknown flavor: status %d, %s", status, problems)
	}
	f.disableHost("cmp1")
	if _, out, _ := headroom(one...); !strings.Contains(out, "0 more servers fit") || !strings.Contains(out, "disabled") {
		t.Errorf("a disabled host:\n%s", out)
	}
}

// guideHeadroom returns the arguments of the guide's command, with the physical network of the test's host, and 3 of
// its 10 Mbit/s.
func guideHeadroom(t *testing.T) []string {
	t.Helper()
	_, chapter, _ := strings.Cut(guide(t), "\n### How many more servers fit\n")
	chapter, _, _ = strings.Cut(chapter, "\n### ")
	blocks := regexp.MustCompile("(?s)\n```sh [a-z]+\n(.*?)```").FindAllStringSubmatch(chapter, -1)
	if len(blocks) != 1 || strings.Count(blocks[0][1], "\n") != 1 {
		t.Fatalf("%q: one block with one command is expected", blocks)
	}
	const network, rate = "physical_network=physnet0", "egress=1000000"
	command := blocks[0][1]
	if !strings.Contains(command, network) || !strings.Contains(command, rate) {
		t.Fatalf("the command has no %s and %s: %s", network, rate, command)
	}
	command = strings.NewReplacer(network, "physical_network=physnet1", rate, "egress=3000").Replace(command)
	return strings.Fields(command)[2:]
}

// disableHost keeps new servers away from a host.
func (f *portFleet) disableHost(name string) {
	f.t.Helper()
	services, err := f.compute.compute().Services(f.t.Context())
	must(f.t, err)
	for _, service := range services {
		if service.Host == name {
			must(f.t, f.compute.compute().SetServiceStatus(f.t.Context(), service, false, "a test"))
		}
	}
}
