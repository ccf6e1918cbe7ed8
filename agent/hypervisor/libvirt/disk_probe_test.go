package libvirt

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
)

// TestProbeOfDisks reports why other hosts cannot copy disks from a host: nothing listens at its address, or what
// listens does not answer. The report does not wait for that.
func TestProbeOfDisks(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "home")
	o := Options{Host: hypervisortest.Home, Migration: Migration{URI: "qemu+unix:///system?socket=" + socket}}
	var p diskProbe
	eventually(t, "the refused connection is reported", func() bool {
		return strings.Contains(p.noDiskMoves(t.Context(), o), "does not accept connections of other hosts")
	})
	listener, err := net.Listen("unix", socket)
	must(t, err)
	defer listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if got := new(diskProbe).noDiskMoves(ctx, o); !strings.Contains(got, "not known yet") {
		t.Errorf("with a libvirt that does not answer: %q", got)
	}
	if got := p.noDiskMoves(t.Context(), o); !strings.Contains(got, "does not accept connections of other hosts") {
		t.Errorf("the last result is lost: %q", got)
	}
	o.Migration.URI = ""
	if got := new(diskProbe).noDiskMoves(t.Context(), o); !strings.Contains(got, "live_migration_uri") {
		t.Errorf("without an address: %q", got)
	}
}
