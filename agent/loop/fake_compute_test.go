package loop

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/pci"
)

// fakeCompute assigns servers to one host and records the reports that it receives.
type fakeCompute struct {
	t           *testing.T
	mu          sync.Mutex
	assignments host.Assignments
	remove      map[string]host.Removal // named for removal, until reported gone
	// servers that are not assigned any more are not named for removal, as by a restored database
	omitRemovals bool
	changed      chan struct{} // closed at each change
	muted        bool          // streams send nothing
	unavailable  bool          // no request is answered
	refusing     bool          // guest reports are refused
	onlyClaims   bool          // guest reports other than claims are refused
	streamsEnded chan struct{} // closed to end all streams
	streams      int
	instance     string // of the agent that sent the last report
	reportedAt   time.Time
	report       host.Report
	reports      int
	alive        host.Alive            // the last sign of life
	signs        int                   // number of signs of life
	guests       map[string]host.Guest // the last of each server
	// the last report number of each instance, over all servers, so that agents have to repeat reports
	latest map[string]int64
	log    []string // "<server> <phase>", and "report free=<n>"
}

func newFakeCompute(t *testing.T) *fakeCompute {
	return &fakeCompute{t: t, changed: make(chan struct{}), streamsEnded: make(chan struct{}),
		guests: map[string]host.Guest{},
		remove: map[string]host.Removal{}, latest: map[string]int64{}}
}

// assign replaces the servers of the host.
func (o *fakeCompute) assign(servers ...host.Server) {
	o.mu.Lock()
	defer o.mu.Unlock()
	clean := o.assignments.Clean
	o.replaceServers(servers)
	o.assignments.Clean = clean
	o.wake()
}

// wake makes the streams send the assignments. o.mu is held.
func (o *fakeCompute) wake() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// replaceServers replaces the servers of the host. Those that were assigned before are named for removal until they are
// reported gone. o.mu is held.
func (o *fakeCompute) replaceServers(servers []host.Server) {
	kept := map[string]bool{}
	for _, s := range servers {
		kept[s.ID] = true
		if !slices.ContainsFunc(o.assignments.Servers, func(old host.Server) bool {
			return old.ID == s.ID &&
				old.PreviousID == s.PreviousID
		}) {
			kept[s.PreviousID] = true // the guest takes its new id
		}
		delete(o.remove, s.ID)
	}
	for _, s := range o.assignments.Servers {
		if !kept[s.ID] && !o.omitRemovals {
			o.remove[s.ID] = host.Removal{ID: s.ID, PreviousID: s.PreviousID}
		}
	}
	o.setAssignments(servers)
}

// setAssignments replaces the assignments by those of these servers, at the next revision. o.mu is held.
func (o *fakeCompute) setAssignments(servers []host.Server) {
	o.assignments = host.Assignments{Cloud: o.assignments.Cloud, Position: o.assignments.Position, Servers: servers,
		Remove: slices.Collect(maps.Values(o.remove)), Clean: o.assignments.Clean,
		DisabledDevices: o.assignments.DisabledDevices, EnableDevices: o.assignments.EnableDevices}
	o.assignments.Revision++
}

func (o *fakeCompute) endStreams() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.streamsEnded)
	o.streamsEnded = make(chan struct{})
}

func (o *fakeCompute) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /berth/v1/hosts/{host}", func(w http.ResponseWriter, r *http.Request) {
		var report host.Report
		if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
			o.t.Error(err)
		}
		if !o.admit(w, report.Instance) {
			return
		}
		o.recordReport(report)
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("PUT /berth/v1/hosts/{host}/alive", func(w http.ResponseWriter, r *http.Request) {
		var h host.Alive
		if err := json.NewDecoder(r.Body).Decode(&h); err != nil {
			o.t.Error(err)
		}
		if !o.admit(w, h.Instance) {
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.alive, o.signs = h, o.signs+1
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("PUT /berth/v1/hosts/{host}/guests/{server}", func(w http.ResponseWriter, r *http.Request) {
		var g host.Guest
		if err := json.NewDecoder(r.Body).Decode(&g); err != nil {
			o.t.Error(err)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.refusing || o.onlyClaims && g.Phase != host.Claimed {
			http.Error(w, "compute does not answer", http.StatusServiceUnavailable)
			return
		}
		assigned := slices.ContainsFunc(o.assignments.Servers,
			func(s host.Server) bool { return s.ID == r.PathValue("server") })
		if g.Phase == host.Claimed && !assigned {
			o.log = append(o.log, r.PathValue("server")+" refused")
			http.Error(w, "the server is not assigned to this host", http.StatusConflict)
			return
		}
		if latest := o.latest[g.Instance]; g.Number < latest {
			o.log = append(o.log, r.PathValue("server")+" late")
			w.Header().Set(host.Latest, fmt.Sprint(latest))
			http.Error(w, "a report with a higher number has arrived", http.StatusConflict)
			return
		}
		o.latest[g.Instance] = g.Number
		o.guests[r.PathValue("server")] = g
		if _, named := o.remove[r.PathValue("server")]; named && (g.Phase == host.Gone || g.Phase == host.Failed) {
			delete(o.remove, r.PathValue("server"))
			o.setAssignments(o.assignments.Servers)
			o.wake()
		}
		o.log = append(o.log, r.PathValue("server")+" "+string(g.Phase))
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /berth/v1/hosts/{host}/assignments", o.stream)
	return mux
}

func (o *fakeCompute) recordReport(r host.Report) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.instance, o.reportedAt = r.Instance, time.Now()
	o.report, o.reports = r, o.reports+1
	free := 0
	for _, d := range r.Devices {
		if d.Type == "" || d.State == "" || (d.State == string(pci.Claimed) ||
			d.State == string(pci.Allocated)) != (d.Holder != "") {
			o.t.Errorf("a device that compute does not accept: %+v", d)
		}
		if d.Holder == "" {
			free++
		}
	}
	o.log = append(o.log, fmt.Sprintf("report free=%d", free))
}

// admit refuses a second agent, as compute does.
func (o *fakeCompute) admit(w http.ResponseWriter, instance string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unavailable {
		http.Error(w, "compute does not answer", http.StatusServiceUnavailable)
		return false
	}
	if o.instance == "" || instance == "" || o.instance == instance || time.Since(o.reportedAt) >= 3*time.Minute {
		return true
	}
	http.Error(w, "another agent serves host cmp1: stop it", http.StatusConflict)
	return false
}

func (o *fakeCompute) stream(w http.ResponseWriter, r *http.Request) {
	if !o.admit(w, r.URL.Query().Get("instance")) {
		return
	}
	w.WriteHeader(http.StatusOK)
	if err := http.NewResponseController(w).Flush(); err != nil {
		return
	}
	o.mu.Lock()
	o.streams++
	o.mu.Unlock()
	since, epoch := r.URL.Query().Get("since"), r.URL.Query().Get("epoch_id")
	for first := true; ; first = false {
		o.mu.Lock()
		next, changed, ended, mute := o.assignments, o.changed, o.streamsEnded, o.muted
		o.mu.Unlock()
		if !mute && !(first && since != "0" && since == fmt.Sprint(next.Revision) && epoch == next.EpochID) {
			data, err := json.Marshal(next)
			if err != nil {
				o.t.Error(err)
			}
			if _, err := w.Write(append(data, '\n')); err != nil {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-ended:
			return
		case <-changed:
		case <-time.After(host.Heartbeat / 2):
		}
	}
}

func (o *fakeCompute) phase(server string) host.Phase {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.guests[server].Phase
}

func (o *fakeCompute) guest(server string) host.Guest {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.guests[server]
}

// logText returns the log of reports, joined by commas.
func (o *fakeCompute) logText() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.log, ",")
}

// forget deletes the guest reports.
func (o *fakeCompute) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.guests = map[string]host.Guest{}
}

// muteStreams stops or resumes sending assignments.
func (o *fakeCompute) muteStreams(mute bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.muted = mute
}

// refuseReports starts or stops refusing guest reports.
func (o *fakeCompute) refuseReports(refuse bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refusing = refuse
}

// setUnavailable stops or resumes answering requests.
func (o *fakeCompute) setUnavailable(unavailable bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unavailable = unavailable
}

// removeWithoutSending removes all servers without sending assignments, as when a stream is cut at a change.
func (o *fakeCompute) removeWithoutSending() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.replaceServers(nil)
}

// count returns one of the counters.
func (o *fakeCompute) count(of *int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return *of
}

// lastReport returns the last report that arrived.
func (o *fakeCompute) lastReport() host.Report {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.report
}

func (o *fakeCompute) conditions() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(condition.Texts(o.report.Conditions), "\n")
}
