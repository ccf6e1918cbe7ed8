//go:build nova

package nova

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/allocations"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/internal/bench"
	"github.com/openberth/berth/internal/clienttest"
	"github.com/openberth/berth/internal/neutron"
	"github.com/openberth/berth/internal/testenv"
)

// guide is a cloud of Nova, Neutron and Keystone with Berth as its Placement, as the guide's page describes it: the
// server db with a guaranteed port on cmp1, which has a device; and the server web in ERROR.
type guide struct {
	*nova
	program, dir string
	db           string // id of the server
	held         map[string]map[string]int
	undo         string // file that --heal has written
}

// commands are the commands of the page in their order, with what each must print. A text that begins with "not " must
// be missing.
func (g *guide) commands() []guideCommand {
	return []guideCommand{
		{text: "host list", shows: []string{"cmp1", "cmp2"}},
		{text: "host show cmp1", shows: []string{"db"}},
		{text: "device list", shows: []string{"0000:81:00.0", "br-ex"}},
		{text: "device list --host cmp1 --long", shows: []string{"PGPU", "not cmp2"}},
		{text: "device show cmp1 0000:81:00.0", shows: []string{"PGPU"}},
		{text: "tree cmp1", shows: []string{"cmp1:Open vSwitch agent:br-ex", "NET_BW_EGR_KILOBIT_PER_SEC 1000/10000",
			"held by db", "cmp1_0000:81:00.0"}},
		{text: "headroom", shows: []string{"small", "gpu"}},
		{text: "headroom gpu --alias-file", shows: []string{"cmp1"}},
		{text: "headroom small --by zone", shows: []string{"nova"}},
		{text: "why web", shows: []string{"No valid host", "DISK_GB"}},
		{text: "why web --alias-file", shows: []string{"No valid host", "DISK_GB"}},
		{text: "audit", shows: []string{"no difference"}},
		{text: "audit --alias-file", shows: []string{"no difference"}},
		{text: "audit --heal", before: g.damage, after: g.healed, shows: []string{"server without allocation", "db"}},
		{text: "audit --undo", after: g.undone},
		{text: "audit run", background: true},
		{text: "curl http://127.0.0.1:8781/metrics", until: true,
			shows: []string{`berth_audit_differences{rule="server without allocation"} 1`}},
	}
}

type guideCommand struct {
	text          string // the beginning
	shows         []string
	before, after func(t *testing.T)
	background    bool // runs until the test ends
	until         bool // is repeated until it shows everything
}

// TestNovaGuide executes the commands of the guide's page for clouds with Nova, in their order.
func TestNovaGuide(t *testing.T) {
	g := startGuide(t)
	text, err := os.ReadFile("../../docs/guide/beside-nova.md")
	if err != nil {
		t.Fatal(err)
	}
	expected := g.commands()
	for _, block := range regexp.MustCompile("(?s)\n```sh nova\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			line, _, _ = strings.Cut(line, "#")
			line = strings.TrimPrefix(strings.TrimSpace(line), "berth ")
			if len(expected) == 0 || !strings.HasPrefix(line, expected[0].text) {
				t.Fatalf("the page has %q, but the test expects %+v", line, expected)
			}
			g.perform(t, line, expected[0])
			expected = expected[1:]
		}
	}
	if len(expected) > 0 {
		t.Errorf("the page has no %s", expected[0].text)
	}
}

// startGuide starts the cloud of the page.
func startGuide(t *testing.T) *guide {
	t.Helper()
	var nets *neutron.Neutron
	g := &guide{dir: t.TempDir(), nova: startNovaWith(t, func(c *clienttest.Cloud) string {
		nets = neutron.Start(t, c)
		return nets.URL
	})}
	var err error
	if g.program, err = bench.Build(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	roots := map[string]string{}
	for id, name := range g.hosts(t) {
		roots[name] = id
		rate := bandwidth.Rate{Set: true, Amount: 10000}
		agent := bandwidth.Agent{Type: bandwidth.OpenVSwitch, DefaultHypervisor: name,
			Mappings:   []bandwidth.Mapping{{Physnet: "physnet0", Device: "br-ex"}},
			Bandwidths: map[string]bandwidth.Rates{"br-ex": {Egress: rate, Ingress: rate}},
			Defaults:   bandwidth.BuiltInDefaults(), PacketDefaults: bandwidth.BuiltInDefaults()}
		nets.Report(t, name, agent)
	}
	g.createDevice(t, roots["cmp1"])
	g.createServers(t, network.NewClient(nets.URL, http.DefaultClient, g.Admin(t)))
	clienttest.Write(t, filepath.Join(g.dir, "nova.conf"),
		"[pci]\nalias = {\"name\": \"gpu\", \"resource_class\": \"PGPU\"}\n")
	return g
}

// createDevice creates the provider of a device of cmp1, as Nova names it.
func (g *guide) createDevice(t *testing.T, root string) {
	t.Helper()
	gpu, err := resourceproviders.Create(t.Context(), g.placement, resourceproviders.CreateOpts{
		Name: "cmp1_0000:81:00.0", ParentProviderUUID: root}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resourceproviders.UpdateInventories(t.Context(), g.placement, gpu.UUID,
		resourceproviders.UpdateInventoriesOpts{ResourceProviderGeneration: gpu.Generation,
			Inventories: map[string]resourceproviders.Inventory{"PGPU": {Total: 1, MaxUnit: 1, MinUnit: 1, StepSize: 1,
				AllocationRatio: 1}}}).Extract(); err != nil {
		t.Fatal(err)
	}
}

// createServers creates the flavors and the servers db and web.
func (g *guide) createServers(t *testing.T, nets *network.Client) {
	t.Helper()
	ctx := t.Context()
	small := g.flavor(t, "small", 1, 256, 1)
	if _, err := flavors.CreateExtraSpecs(ctx, g.api, g.flavor(t, "gpu", 1, 256, 1),
		flavors.ExtraSpecsOpts{"pci_passthrough:alias": "gpu:1"}).Extract(); err != nil {
		t.Fatal(err)
	}
	port := guaranteedPort(t, nets)
	made, err := servers.Create(ctx, g.api, servers.CreateOpts{Name: "db", ImageRef: image, FlavorRef: small,
		AvailabilityZone: "nova:cmp1", Networks: []servers.Network{{Port: port}}}, nil).Extract()
	if err != nil {
		t.Fatal(err)
	}
	g.db = made.ID
	g.await(t, g.db, "ACTIVE")
	g.held = g.allocation(t)
	if len(g.held) != 2 {
		t.Fatalf("db holds %v, and not the host and a guarantee", g.held)
	}
	web, err := servers.Create(ctx, g.api, servers.CreateOpts{Name: "web", ImageRef: image,
		FlavorRef: g.flavor(t, "huge", 1, 256, 999999), Networks: "none"}, nil).Extract()
	if err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "web is in ERROR", func() error {
		s, err := servers.Get(ctx, g.api, web.ID).Extract()
		if err == nil && s.Status != "ERROR" {
			err = fmt.Errorf("it is %s", s.Status)
		}
		return err
	})
}

// guaranteedPort creates a port with 1000 kbit/s of egress on physnet0.
func guaranteedPort(t *testing.T, nets *network.Client) (id string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	policy, err := nets.CreatePolicy(t.Context(), map[string]any{"name": "gold"})
	must(err)
	_, err = nets.CreateRule(t.Context(), policy.ID, "minimum_bandwidth", map[string]any{"min_kbps": 1000,
		"direction": "egress"})
	must(err)
	lan, err := nets.CreateNetwork(t.Context(), map[string]any{"name": "lan", "provider:network_type": "vlan",
		"provider:physical_network": "physnet0"})
	must(err)
	_, err = nets.CreateSubnet(t.Context(), map[string]any{"network_id": lan.ID, "ip_version": 4,
		"cidr": "10.1.0.0/24"})
	must(err)
	port, err := nets.CreatePort(t.Context(), map[string]any{"network_id": lan.ID, "name": "fast",
		"qos_policy_id": policy.ID})
	must(err)
	return port.ID
}

// perform executes a command of the page. It looks again after five seconds, has files of its own, and consents.
func (g *guide) perform(t *testing.T, line string, want guideCommand) {
	t.Helper()
	if want.before != nil {
		want.before(t)
	}
	line = strings.ReplaceAll(line, "/etc/nova/nova.conf", filepath.Join(g.dir, "nova.conf"))
	args := strings.Fields(regexp.MustCompile(`berth-undo-\S+`).ReplaceAllString(line, g.undo))
	program := g.program
	switch {
	case args[0] == "curl":
		program, args = args[0], args[1:]
	case want.text == "audit run":
		line = strings.Replace(line, "--between-looks 1m", "--between-looks 5s", 1)
		args = strings.Fields(line)
	case args[0] == "audit" && !strings.Contains(line, "--undo"):
		args = append(args, "--between-looks", "5s")
	}
	if want.background {
		g.start(t, program, args)
		return
	}
	check := func() error { return g.output(t, program, args, want.shows) }
	if want.until {
		testenv.Until(t, line, check)
	} else if err := check(); err != nil {
		t.Error(err)
	}
	if want.after != nil {
		want.after(t)
	}
}

// command returns a command with the account of the administrator in the directory of the page's files.
func (g *guide) command(t *testing.T, program string, args []string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Stdin = g.dir, strings.NewReader("yes\n")
	cmd.Env = append(os.Environ(), g.Credentials(g.Region)...)
	return cmd
}

// start starts a command that runs until the test ends.
func (g *guide) start(t *testing.T, program string, args []string) {
	t.Helper()
	cmd := g.command(t, program, args)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Wait() // killed with the context
		t.Logf("%v: %s", args, &out)
	})
}

// output executes a command, which must succeed and print these texts.
func (g *guide) output(t *testing.T, program string, args, shows []string) error {
	t.Helper()
	out, err := g.command(t, program, args).CombinedOutput()
	t.Logf("%v\n%s", args, out)
	if err != nil {
		return fmt.Errorf("%v: %w\n%s", args, err, out)
	}
	for _, text := range shows {
		missing, without := strings.CutPrefix(text, "not ")
		if strings.Contains(string(out), missing) == without {
			return fmt.Errorf("%v prints\n%s\nand must show: %s", args, out, text)
		}
	}
	return nil
}

// allocation returns what db holds, by provider.
func (g *guide) allocation(t *testing.T) map[string]map[string]int {
	t.Helper()
	all, err := allocations.Get(t.Context(), g.placement, g.db).Extract()
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]map[string]int{}
	for provider, has := range all.Allocations {
		held[provider] = has.Resources
	}
	return held
}

// damage removes what db holds.
func (g *guide) damage(t *testing.T) {
	t.Helper()
	if err := allocations.Delete(t.Context(), g.placement, g.db).ExtractErr(); err != nil {
		t.Fatal(err)
	}
}

// healed checks that db holds again what it held, and finds the undo file.
func (g *guide) healed(t *testing.T) {
	t.Helper()
	if held := g.allocation(t); fmt.Sprint(held) != fmt.Sprint(g.held) {
		t.Errorf("db holds %v, before it held %v", held, g.held)
	}
	found, err := filepath.Glob(filepath.Join(g.dir, "berth-undo-*.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the undo files are %v: %v", found, err)
	}
	g.undo = found[0]
}

// undone checks that db holds nothing again.
func (g *guide) undone(t *testing.T) {
	t.Helper()
	if held := g.allocation(t); len(held) > 0 {
		t.Errorf("after the undo db holds %v", held)
	}
}
