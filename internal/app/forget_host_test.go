package app

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

// A host is not removed while its agent may be running or a server is on it; then it is removed from compute and
// Placement. If it returns, it is a new host.
func TestForgetHost(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newLab(t)
	vf, _ := sampleProducts(t)
	vendor, product, _ := strings.Cut(vf, ":")
	l.up(`
[pci]
report_in_placement = true
device_spec = {"vendor_id":"` + vendor + `","product_id":"` + product +
		`","address":{"function":"[1-7]"},"resource_class":"vf"}
alias = {"name":"vf","resource_class":"vf"}
[filter_scheduler]
pci_in_placement = true
`)
	defer l.down()
	s := l.boot("web", "ACTIVE", map[string]string{"pci_passthrough:alias": "vf:1"})
	if err := l.cloud.StopAgent(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	globals := &cli.Globals{ComputeURL: "http://compute", HTTP: rest.InMemory(l.cloud.Compute.Handler), Token: "admin",
		Stdout: &out}
	forget := func() error { return (&cli.HostForgetCmd{Host: "cmp1"}).Run(globals) }
	if err := forget(); err == nil || !strings.Contains(err.Error(), "host cmp1 may still be alive") {
		t.Errorf("while its agent may be running: %v", err)
	}
	if err := (&cli.HostDownCmd{Host: "cmp1"}).Run(globals); !fault.Is(err, fault.Conflict) {
		t.Errorf("its agent reported recently: %v", err)
	}
	if err := (&cli.HostDownCmd{Host: "cmp1", Force: true}).Run(globals); err != nil {
		t.Fatal(err)
	}
	if err := forget(); err == nil || !strings.Contains(err.Error(), "host cmp1") ||
		!strings.Contains(err.Error(), "web ("+s.ID+")") {
		t.Errorf("while a server is on it: %v", err)
	}
	l.delete(s.ID)
	if err := forget(); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^cmp1_0000:[^ ]+ +removed$`).MatchString(out.String()) ||
		!regexp.MustCompile(`(?m)^cmp1 +removed$`).MatchString(out.String()) {
		t.Errorf("it says\n%s", &out)
	}
	hosts, err := l.cloud.HostClient().Hosts(t.Context())
	if err != nil || len(hosts) != 0 {
		t.Errorf("compute knows %v: %v", hosts, err)
	}
	if p, err := l.cloud.PlacementClient().ProviderByName(t.Context(), "cmp1"); !fault.Is(err, fault.NotFound) {
		t.Errorf("Placement has %+v: %v", p, err)
	}
	if err := l.cloud.StartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.boot("again", "ACTIVE", map[string]string{"pci_passthrough:alias": "vf:1"})
}
