package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/resource"
)

// TestDeletedPortIsReportedDespiteKills deletes the port of a running server while compute is down, and kills the
// network service before compute is started again: the report is not lost, so the VF and the guarantee are free.
func TestDeletedPortIsReportedDespiteKills(t *testing.T) {
	testenv.Long(t)
	f := newPortFleet(t, "cmp1")
	conf := f.file("network", "[compute]\nendpoint_override = "+f.compute.urls["compute"]+"/v2.1\n")
	restart := func() {
		f.network = start(t, []string{"network"}, "network", "--config-file", conf, "--data-dir", f.path("network"),
			"--listen", strings.TrimPrefix(f.network.urls["network"], "http://"), "--placement-url",
			f.placement.urls["placement"])
	}
	f.network.stop(t)
	restart()
	port := f.port(6000)
	server := f.begin(port)
	f.await(server, "ACTIVE")
	f.bound(server, port.ID)

	f.compute.kill()
	must(t, f.network.network().DeletePort(t.Context(), port.ID))
	f.network.logs(t, "events not accepted by compute, will retry")
	f.network.kill()
	restart()
	f.startCompute("[neutron]\nendpoint_override = " + f.network.urls["network"] + "\n")
	eventually(t, "the VF and the guarantee are free", func() (bool, error) {
		if held := f.held("cmp1", server); held != "" {
			return false, fmt.Errorf("the server has %s", held)
		}
		left, err := f.placement.placement().Allocation(t.Context(), resource.ConsumerID(server))
		return len(left.Allocation) == 1, err
	})
	f.await(server, "ACTIVE")
}
