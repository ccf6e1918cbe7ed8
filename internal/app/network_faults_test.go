package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/internal/testenv"
)

// faultyNetwork is a network service for compute that fails one of its calls: it does not perform it, or its answer is
// lost.
type faultyNetwork struct {
	lab *portsLab

	mu    sync.Mutex
	calls int
	fail  int  // the number of the call that fails, from 1; 0: none
	lost  bool // the call is performed, and its answer is lost

	oneBinding bool // it has no extension binding-extended

	before func(call int) // called before each call is performed; nil: nothing
}

func (f *faultyNetwork) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.calls++
	fails, lost, call, before := f.calls == f.fail, f.lost, f.calls, f.before
	f.mu.Unlock()
	if before != nil {
		before(call)
	}
	switch {
	case f.oneBinding && strings.Contains(r.URL.Path, "/bindings"):
		http.NotFound(w, r)
	case fails && lost:
		f.lab.cloud.Network.Handler.ServeHTTP(httptest.NewRecorder(), r)
		fallthrough
	case fails:
		http.Error(w, "out of order", http.StatusServiceUnavailable)
	default:
		f.lab.cloud.Network.Handler.ServeHTTP(w, r)
	}
}

// begin sets the call that fails and counts from there.
func (f *faultyNetwork) begin(n int, lost bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.fail, f.lost = 0, n, lost
}

// failed reports whether the call was made.
func (f *faultyNetwork) failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls >= f.fail
}

// TestFaultAtEachCallOfTheNetworkService creates, changes, resizes, reverts and deletes a server with a created port
// and a port with a guarantee, and lets each call of the network service fail once, every second one before it is
// performed, the others after. Ports and allocation agree after each operation, and nothing is left at the end.
func TestFaultAtEachCallOfTheNetworkService(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	faulty := &faultyNetwork{}
	service := httptest.NewServer(faulty)
	defer service.Close()
	l := newPortsLabWith(t, "\n[neutron]\nendpoint_override = "+service.URL+"\n", faulty)
	defer l.down()
	big, err := l.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "big", VCPUs: 2, RAM: 64, Disk: 1})
	if err != nil {
		t.Fatal(err)
	}
	own := l.port(l.policy(4000))
	for offset, lost := range []bool{false, true} {
		const validation = 2 // calls of the API's check, whose failure is an answer to the user
		for n := validation + 1 + offset; ; n += 2 {
			faulty.begin(n, lost)
			s := l.create("ACTIVE", []map[string]string{{"uuid": l.net.ID}, {"port": own.ID}})
			l.check(s.ID, 2, 4000)
			more := l.port(l.policy(3000))
			_, err := l.attach(s.ID, map[string]any{"port_id": more.ID})
			attached := slices.ContainsFunc(l.ports(s.ID), func(p network.Port) bool { return p.ID == more.ID })
			if err == nil && !attached {
				t.Error("the port is not attached")
			}
			if attached { // else the check of the request has failed
				l.check(s.ID, 3, 7000)
				l.detach(s.ID, more.ID)
			}
			l.check(s.ID, 2, 4000)
			if err := l.cloud.NetworkClient().DeletePort(t.Context(), more.ID); err != nil {
				t.Fatal(err)
			}
			l.until("the change of the port has ended", func() bool {
				err := l.compute().Act(t.Context(), s.ID, "resize", map[string]any{"flavorRef": big.ID})
				return err == nil
			})
			l.reach(s.ID, "VERIFY_RESIZE")
			l.check(s.ID, 2, 4000)
			l.act(s.ID, "revertResize", "ACTIVE", nil)
			l.check(s.ID, 2, 4000)
			l.delete(s.ID)
			l.until(fmt.Sprintf("no port is left after a fault of call %d", n), func() bool {
				p, err := l.cloud.NetworkClient().Port(t.Context(), own.ID)
				return err == nil && p.Device == "" && p.Host == "" && len(l.ports(s.ID)) == 0
			})
			if !faulty.failed() {
				t.Logf("%d calls", n-1)
				break
			}
		}
	}
}

// TestFaultAtEachCallWithDirectPort is the same for a server with a port on a VF: whichever call fails, the VF of the
// port is that of the guest after each operation, and no VF is held at the end.
func TestFaultAtEachCallWithDirectPort(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	faulty := &faultyNetwork{}
	service := httptest.NewServer(faulty)
	defer service.Close()
	l := newNICsLab(t, "\n[neutron]\nendpoint_override = "+service.URL+"\n", faulty)
	defer l.down()
	big, err := l.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "big", VCPUs: 2, RAM: 64, Disk: 1})
	if err != nil {
		t.Fatal(err)
	}
	own := l.directPort(4000)
	for offset, lost := range []bool{false, true} {
		const validation = 1 // call of the API's check, whose failure is an answer to the user
		for n := validation + 1 + offset; ; n += 2 {
			faulty.begin(n, lost)
			s := l.create("ACTIVE", []map[string]string{{"port": own.ID}})
			l.vfOf(s.ID, own.ID, 4000)
			l.act(s.ID, "resize", "VERIFY_RESIZE", map[string]any{"flavorRef": big.ID})
			l.vfOf(s.ID, own.ID, 4000)
			l.act(s.ID, "revertResize", "ACTIVE", nil)
			l.vfOf(s.ID, own.ID, 4000)
			l.delete(s.ID)
			l.until(fmt.Sprintf("nothing is left after a fault of call %d", n), func() bool {
				p, err := l.cloud.NetworkClient().Port(t.Context(), own.ID)
				return err == nil && p.Device == "" && len(p.Profile) == 0 && len(l.held("")) == 0
			})
			if !faulty.failed() {
				t.Logf("%d calls", n-1)
				break
			}
		}
	}
}
