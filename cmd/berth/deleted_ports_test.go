package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/resource"
)

// TestDeletedPortIsReportedDespiteKills deletes the port of a running server while compute is down, and kills the
// network service before compute is started again: the report is not lost, so the VF and the guarantee are free.
func TestDeletedPortIsReportedDespiteKills(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
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
	testenv.Until(t, "the VF and the guarantee are free", func() (bool, error) {
		if held := f.held("cmp1", server); held != "" {
			return false, fmt.Errorf("the server has %s", held)
		}
		left, err := f.placement.placement().Allocation(t.Context(), resource.ConsumerID(server))
		return len(left.Allocation) == 1, err
	})
	f.await(server, "ACTIVE")
}

// TestPortDeletedDuringAMoveDespiteKills deletes the port of a server whose move is not confirmed. The deletion is
// reported once, as Neutron does it. Compute is killed then, and again while the network service is down and the port
// cannot be detached yet. At the end the VFs and the guarantees of both hosts are free, and the server has no port.
func TestPortDeletedDuringAMoveDespiteKills(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	for action, host := range map[string]string{"confirmResize": "cmp2", "revertResize": "cmp1"} {
		t.Run(action, func(t *testing.T) { portDeletedDuringAMove(t, action, host) })
	}
}

// portDeletedDuringAMove migrates a server from cmp1 to cmp2 and deletes its port before the action that ends the move
// on a host.
func portDeletedDuringAMove(t *testing.T, action, host string) {
	f := newPortFleet(t, "cmp1", "cmp2")
	neutron := "[neutron]\nendpoint_override = " + f.network.urls["network"] + "\n"
	port := f.port(6000)
	server := f.begin(port)
	f.await(server, "ACTIVE")
	if at := f.bound(server, port.ID); at != "cmp1" {
		must(t, f.compute.compute().Act(t.Context(), server, "migrate", nil))
		f.await(server, "VERIFY_RESIZE")
		must(t, f.compute.compute().Act(t.Context(), server, "confirmResize", nil))
		f.await(server, "ACTIVE")
		f.waitUntilUnused("cmp2")
	}
	must(t, f.compute.compute().Act(t.Context(), server, "migrate", nil))
	f.await(server, "VERIFY_RESIZE")
	must(t, f.network.network().DeletePort(t.Context(), port.ID))
	events, err := f.compute.compute().ReportEvents(t.Context(), compute.ExternalEvent{Name: compute.PortDeleted,
		Server: server, Tag: port.ID})
	if err != nil || events[0].Code != http.StatusOK {
		t.Fatalf("%+v %v", events, err)
	}
	f.compute.kill()
	f.startCompute(neutron)
	f.network.kill()
	testenv.Until(t, "the action is accepted", func() (bool, error) { // the agents may not be connected yet
		err := f.compute.compute().Act(t.Context(), server, action, nil)
		return err == nil, err
	})
	testenv.Until(t, "the network service is missing", func() (bool, error) {
		out, stderr, status := output(t, f.args("server", "why", server)...)
		return strings.Contains(out, "will try again"), fmt.Errorf("%d %s%s", status, stderr, out)
	})
	f.compute.kill()
	f.startCompute(neutron)
	f.network = start(t, []string{"network"}, "network", "--config-file", f.file("network", ""), "--data-dir",
		f.path("network"), "--listen", strings.TrimPrefix(f.network.urls["network"], "http://"), "--placement-url",
		f.placement.urls["placement"])
	testenv.Until(t, "the VFs and the guarantees are free", func() (bool, error) {
		for _, name := range []string{"cmp1", "cmp2"} {
			if held := f.held(name, server); held != "" {
				return false, fmt.Errorf("the server has %s on %s", held, name)
			}
		}
		left, err := f.placement.placement().Allocation(t.Context(), resource.ConsumerID(server))
		return len(left.Allocation) == 1, err
	})
	if s := f.await(server, "ACTIVE"); s.Host == nil || *s.Host != host || len(s.Addresses) > 0 {
		t.Errorf("%+v", s)
	}
	testenv.Until(t, "the server can move: nothing of the port is left", func() (bool, error) {
		err := f.compute.compute().Act(t.Context(), server, "migrate", nil)
		return err == nil, err
	})
	f.await(server, "VERIFY_RESIZE")
}
