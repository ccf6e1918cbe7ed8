package libvirt

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/internal/testenv"
)

// TestProbeOfDisks reports why other hosts cannot copy disks from a host: nothing listens at its address, or what
// listens does not answer. The report does not wait for that.
func TestProbeOfDisks(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "home")
	o := Options{Host: hypervisortest.Home, Migration: Migration{URI: "qemu+unix:///system?socket=" + socket}}
	var p diskProbe
	testenv.Until(t, "the refused connection is reported", func() bool {
		return strings.Contains(p.look(t.Context(), o).refused, "does not accept connections of other hosts")
	})
	listener, err := net.Listen("unix", socket)
	must(t, err)
	defer listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if got := new(diskProbe).look(ctx, o).refused; !strings.Contains(got, "not known yet") {
		t.Errorf("with a libvirt that does not answer: %q", got)
	}
	if got := p.look(t.Context(), o).refused; !strings.Contains(got, "does not accept connections of other hosts") {
		t.Errorf("the last result is lost: %q", got)
	}
	o.Migration.URI = ""
	if got := new(diskProbe).look(t.Context(), o).refused; !strings.Contains(got, "live_migration_uri") {
		t.Errorf("without an address: %q", got)
	}
}

// Certificates that end soon are reported, and that disks still move.
func TestCertificatesThatEnd(t *testing.T) {
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	if got := (probed{expires: now.Add(expiryTime + time.Hour)}).remark(now); got != nil {
		t.Errorf("%q", got)
	}
	got := probed{expires: now.Add(expiryTime - time.Hour)}.remark(now).String()
	if !strings.Contains(got, "end on 2027-03-01") && !strings.Contains(got, "end on 2027-03-02") {
		t.Errorf("%q", got)
	}
	if got := (probed{}).remark(now); got != nil {
		t.Errorf("without certificates: %q", got)
	}
}

// Other hosts are reached at the addresses that they report, by their names if they report none.
func TestAddressesOfHosts(t *testing.T) {
	d := &Driver{o: Options{Host: "one", Migration: Migration{URI: "qemu+tls://%s/system", Address: "10.0.0.1"},
		Locate: func(_ context.Context, host string) (string, error) {
			return map[string]string{"two": "fd00::2", "three": ""}[host], nil
		}}}
	for host, want := range map[string]string{"one": "10.0.0.1", "two": "[fd00::2]", "three": "three"} {
		if got, err := d.o.uriOf(t.Context(), host); err != nil || got != "qemu+tls://"+want+"/system" {
			t.Errorf("%s: %s %v", host, got, err)
		}
	}
	d.o.Locate = nil
	if got, err := d.o.uriOf(t.Context(), "two"); err != nil || got != "qemu+tls://two/system" {
		t.Errorf("%s %v", got, err)
	}
}
