package app

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

// deletePort deletes a port as a user does.
func (l *nicsLab) deletePort(id string) {
	l.t.Helper()
	if err := l.cloud.NetworkClient().DeletePort(l.t.Context(), id); err != nil {
		l.t.Fatal(err)
	}
}

// released waits until a server has neither a device nor the guarantee of a port, and its guest only these interfaces.
func (l *nicsLab) released(server compute.Server, interfaces int) {
	l.t.Helper()
	l.until("the device and the guarantee are free", func() bool {
		amounts := l.allocation(server.ID)
		return len(l.held(server.ID)) == 0 && len(amounts) == 1 && amounts[l.root] != nil &&
			len(l.guestPorts(server.ID)) == interfaces && !l.changesPort(server.ID)
	})
	if s := l.reach(server.ID, "ACTIVE"); s.Addresses["fast"] != nil {
		l.t.Errorf("addresses %v", s.Addresses)
	}
}

// unreliable answers the first requests with 503, every second one after they are handled, and the others as next.
type unreliable struct {
	next  http.Handler
	calls chan struct{} // has one element for each request that fails
}

// ServeHTTP implements http.Handler.
func (u *unreliable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-u.calls:
		if len(u.calls)%2 == 0 {
			u.next.ServeHTTP(httptest.NewRecorder(), r)
		}
		http.Error(w, "out of order", http.StatusServiceUnavailable)
	default:
		u.next.ServeHTTP(w, r)
	}
}

// TestDeletedPortOfAServer deletes a port with a VF and a guarantee while its server runs: the VF and the guarantee are
// free, and the server keeps its other port. The same holds if compute does not answer, if its answers are lost, if it
// cannot detach the port at first, and if all services are restarted in between.
func TestDeletedPortOfAServer(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newNICsLab(t, "", &faultyNetwork{})
	defer func() { l.down() }()
	plain := l.port("")
	s := l.create("ACTIVE", []map[string]string{{"port": plain.ID}})
	attach := func() network.Port {
		own := l.directPort(6000)
		l.attachDirect(s.ID, own.ID, 6000)
		return own
	}

	l.deletePort(attach().ID)
	l.released(s, 1)

	own := attach() // two answers with 503, one of them of a handled request
	broken := &unreliable{next: l.cloud.Compute.Handler, calls: make(chan struct{}, 2)}
	broken.calls <- struct{}{}
	broken.calls <- struct{}{}
	l.cloud.events.set(broken)
	l.deletePort(own.ID)
	l.released(s, 1)
	l.until("both requests have failed", func() bool { return len(broken.calls) == 0 })
	l.cloud.events.set(l.cloud.Compute.Handler)

	own = attach() // compute does not answer before the restart
	l.cloud.events.set(nil)
	l.deletePort(own.ID)
	if _, err := l.cloud.NetworkClient().Port(t.Context(), own.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("the port exists: %v", err)
	}
	if len(l.held(s.ID)) != 1 {
		t.Errorf("devices %v", l.held(s.ID))
	}
	l.down()
	l.up(portsConf + nicsConf)
	l.released(s, 1)

	own = attach() // a resized server cannot lose a port before the resize is confirmed
	big, err := l.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "big", VCPUs: 2, RAM: 64, Disk: 1})
	if err != nil {
		t.Fatal(err)
	}
	l.act(s.ID, "resize", "VERIFY_RESIZE", map[string]any{"flavorRef": big.ID})
	l.deletePort(own.ID)
	l.act(s.ID, "confirmResize", "ACTIVE", nil)
	l.released(s, 1)

	l.act(s.ID, "resize", "VERIFY_RESIZE", map[string]any{"flavorRef": l.flavor}) // the record has no deleted port
	l.act(s.ID, "confirmResize", "ACTIVE", nil)
	l.delete(s.ID)
	l.until("the other port is free", func() bool {
		p, err := l.cloud.NetworkClient().Port(t.Context(), plain.ID)
		return err == nil && p.Device == "" && len(l.held("")) == 0
	})
}

// reports passes requests on and counts the answers by their status.
type reports struct {
	next http.Handler

	mu     sync.Mutex
	counts map[int]int
}

// ServeHTTP implements http.Handler.
func (r *reports) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	answer := httptest.NewRecorder()
	r.next.ServeHTTP(answer, request)
	r.mu.Lock()
	r.counts[answer.Code]++
	r.mu.Unlock()
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // the client of a closed connection gets no answer
}

// count returns how many answers have a status.
func (r *reports) count(status int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[status]
}

// TestPortsThatComputeDeletesAreReported detaches a port that compute has created, and deletes its server with another
// one. Both are reported, and the first event changes nothing: the port is detached already. The second
// one may come after the server is deleted: then it is refused, with 207.
func TestPortsThatComputeDeletesAreReported(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newPortsLab(t)
	defer l.down()
	counted := &reports{next: l.cloud.Compute.Handler, counts: map[int]int{}}
	l.cloud.events.set(counted)
	s := l.create("ACTIVE", []map[string]string{{"uuid": l.net.ID}, {"uuid": l.net.ID}})
	l.detach(s.ID, l.ports(s.ID)[0].ID)
	l.until("the event is accepted", func() bool { return counted.count(http.StatusOK) == 1 })
	l.check(s.ID, 1, 0)
	why, err := l.compute().Why(t.Context(), s.ID)
	if err != nil || slices.ContainsFunc(why.History, func(e compute.WhyHistoryEntry) bool {
		return strings.Contains(e.Text, "the network service has deleted")
	}) {
		t.Errorf("%+v %v", why.History, err)
	}
	l.delete(s.ID)
	l.until("the port is deleted and reported", func() bool {
		return len(l.ports(s.ID)) == 0 && counted.count(http.StatusOK)+counted.count(http.StatusMultiStatus) == 2
	})
}
