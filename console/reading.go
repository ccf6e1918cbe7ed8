package console

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/console/view"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/fleet/read"
)

// The times of reading a cloud.
const (
	freshTime = 3 * time.Second  // for which what was read is shown without reading again, at least
	maxPause  = 30 * time.Second // between a read that failed and the next one, at most
	patience  = 8 * time.Second  // for which a page waits for the first read
	readTime  = 30 * time.Minute // of one read
)

// reading is what was last read of the cloud for a session. At most one read runs at a time.
type reading struct {
	read  readFunc
	group *sync.WaitGroup // has the read that runs
	kept  *read.Copy      // what the reads keep for the next one

	mu       sync.Mutex
	cloud    *view.Cloud // nil: nothing was read yet
	err      error       // of the last read
	at       time.Time   // when that ended
	took     time.Duration
	running  chan struct{} // closed when the read that runs ends; nil: none runs
	done, of int           // trees of that read
}

// readFunc reads a cloud, as readCloud does.
type readFunc func(ctx context.Context, c Clients, progress func(done, of int)) (view.Source, error)

// errReading is the error of a page that has waited for the first read.
var errReading = errors.New("the cloud is being read")

// get returns what was read of the cloud. It begins a read if that is old, and waits for the first one: errReading if
// it takes long. session is the context of the read. An error of the last read is returned with what an earlier one
// has read, if any has.
func (r *reading) get(ctx, session context.Context, clients Clients) (*view.Cloud, error) {
	wait, known := r.begin(session, clients)
	if wait != nil && !known {
		late := time.NewTimer(patience)
		defer late.Stop()
		select {
		case <-wait:
		case <-late.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cloud == nil && r.err == nil {
		return nil, errReading
	}
	return r.cloud, r.err
}

// last returns what was read last, without waiting; nil: nothing. It begins a read if that is old.
func (r *reading) last(session context.Context, clients Clients) *view.Cloud {
	r.begin(session, clients)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cloud
}

// known returns what was read last; nil: nothing. It begins no read.
func (r *reading) known() *view.Cloud {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cloud
}

// begin begins a read if what was read is old. wait is closed when the read that runs ends; nil: none runs. known
// reports whether what was read is new enough to be shown meanwhile.
func (r *reading) begin(session context.Context, clients Clients) (wait chan struct{}, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	age := time.Since(r.at)
	pause := max(freshTime, 3*r.took)
	if r.err != nil {
		pause = min(pause, maxPause)
	}
	if r.running == nil && age > pause {
		r.running = make(chan struct{})
		r.group.Go(func() { r.run(session, clients) })
	}
	return r.running, r.cloud != nil && (age < time.Minute || r.took > patience)
}

// run reads the cloud.
func (r *reading) run(ctx context.Context, clients Clients) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	began := time.Now()
	source, err := r.read(ctx, clients, r.progress)
	var cloud *view.Cloud
	if err == nil {
		cloud = view.New(source)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err = err; err == nil {
		r.cloud = cloud
	} else if fault.Is(err, fault.Forbidden) {
		r.cloud = nil
	}
	r.at, r.took = time.Now(), time.Since(began)
	close(r.running)
	r.running = nil
}

// progress records how much of a read is done.
func (r *reading) progress(done, of int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done, r.of = done, of
}

// forget forgets what was read.
func (r *reading) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running == nil {
		r.cloud, r.err, r.at, *r.kept = nil, nil, time.Time{}, read.Copy{}
	}
}

// readCloud reads a cloud: what has changed since the last read of the session, where the services are Berth's.
// Placement's list of providers is necessary; what else is missing is a gap.
func readCloud(ctx context.Context, c Clients, progress func(done, of int)) (view.Source, error) {
	aggregates, noAggregates := readAggregates(ctx, c.Compute)
	s, _, err := read.Read(ctx, c.Services, read.Options{Traits: true, Copy: c.kept, Progress: progress,
		Without: []fleet.Part{fleet.Ports, fleet.Agents, fleet.Reported}})
	if err != nil {
		return view.Source{}, err
	}
	s.Berth = c.Hosts != nil
	if noAggregates != nil {
		s.Gaps = append(s.Gaps, fleet.Gap{Part: "aggregates", Why: fault.TextOf(noAggregates)})
	}
	return view.Source{Fleet: fleet.NewView(s), Reports: c.kept.Reports(), Aggregates: aggregates}, nil
}

// readAggregates reads the host aggregates of compute.
func readAggregates(ctx context.Context, client *compute.Client) ([]compute.Aggregate, error) {
	var out struct {
		Aggregates []compute.Aggregate `json:"aggregates"`
	}
	_, err := client.REST.Do(ctx, http.MethodGet, "/v2.1/os-aggregates", nil, &out)
	return out.Aggregates, err
}
