package main

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
)

// Separate processes of placement, compute and agent form a cloud. The agent's plan changes nothing.
func TestSeparateServices(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	path, dir := conf(t, machine(t, 1, 2), "[placement_database]",
		"connection = sqlite:////"+strings.TrimPrefix(t.TempDir(), "/")+"/placement.db"), t.TempDir()
	p := start(t, []string{"placement"}, "placement", "--config-file", path, "--listen", "127.0.0.1:0")
	c := start(t, []string{"compute"}, "compute", "--config-file", path, "--data-dir", dir, "--listen", "127.0.0.1:0",
		"--placement-url", p.urls["placement"])
	agent := []string{"--config-file", path, "--data-dir", dir, "--placement-url", p.urls["placement"], "--compute-url",
		c.urls["compute"]}
	stdout, stderr, status := output(t, append([]string{"agent", "plan"}, agent...)...)
	if status != 0 || !strings.Contains(stdout, "cmp1_0000:10:00.0") {
		t.Fatalf("plan: status %d\n%s%s", status, stdout, stderr)
	}
	if stdout, _, _ := output(t, "provider", "list", "--placement-url", p.urls["placement"], "-o",
		"json"); strings.TrimSpace(stdout) != "[]" {
		t.Errorf("a dry run changed providers: %s", stdout)
	}
	a := start(t, nil, append([]string{"agent"}, agent...)...)
	cc := c.compute()
	testenv.Until(t, "the agent has reported", func() (bool, error) {
		list, err := c.hosts().Devices(t.Context())
		return len(list) == 2, err
	})
	f, err := cc.CreateFlavor(t.Context(), compute.CreateFlavor{Name: "f", VCPUs: 1, RAM: 64})
	if err != nil {
		t.Fatal(err)
	}
	if err := cc.SetExtraSpecs(t.Context(), f.ID, map[string]string{"pci_passthrough:alias": "vf:2"}); err != nil {
		t.Fatal(err)
	}
	made, err := cc.CreateServer(t.Context(), compute.CreateServer{Name: "s", Flavor: f.ID})
	if err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the server is ACTIVE", func() (bool, error) {
		s, err := cc.Server(t.Context(), made.ID)
		return s.Status == "ACTIVE", err
	})
	stdout, stderr, status = output(t, append([]string{"agent", "plan"}, agent...)...)
	if status != 0 || !strings.Contains(stdout, "nothing to do") {
		t.Errorf("the plan while an agent runs: status %d\n%s%s", status, stdout, stderr)
	}
	for _, one := range []*daemon{a, c, p} {
		one.stop(t)
	}
}
