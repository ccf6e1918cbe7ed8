// Package read reads a fleet.Snapshot from the services of a cloud: Placement, compute and network, of OpenStack or of
// Berth.
//
// It sends a bounded number of requests at once. Lists are read in pages. Placement has no list of inventories or
// allocations, so each provider takes two requests. The tree of one host takes two requests with Berth's Placement.
package read

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/resource"
)

// Services are the services of a cloud. Network may be nil; Hosts is that of compute if compute is Berth's.
type Services struct {
	Placement *placement.Client
	Compute   *compute.Client
	Hosts     *host.Client
	Network   *network.Client
}

// Options select what is read.
type Options struct {
	// Host selects the tree of the root provider with this name, the host of compute with this name, and the servers and
	// moves on it or in the tree; empty: all.
	Host     string
	Traits   bool // all traits of the providers; else only those of Named and that of sharing providers
	Named    []resource.Trait
	Shared   bool         // the aggregates of sharing providers, also of their members
	Without  []fleet.Part // what is not read
	Parallel int          // requests at once; 0: 16
	Progress func(done, of int)
	// Copy is what was read before of Berth's services; nil: nothing. Of the tree of one host it is not used. With it the
	// providers have no generations; of Berth's compute it has reports. Other services are read as without it.
	Copy *Copy
	// Rows reads rows of hosts or devices of all of Berth's Placement with one request, in place of its providers. Another
	// Placement is read as without Rows, and so is the tree of one host.
	Rows Rows
}

// Rows is what is read in place of providers.
type Rows int

// The rows of Berth's Placement.
const (
	NoRows     Rows = iota
	HostRows        // fleet.Snapshot.HostRows
	DeviceRows      // fleet.Snapshot.DeviceRows
)

// Stats is what a read has cost.
type Stats struct {
	Requests int64         `json:"requests"`
	Bytes    int64         `json:"bytes"` // of the answers' bodies
	Took     time.Duration `json:"took_ns"`
}

// String returns the costs as a clause.
func (s Stats) String() string {
	return fmt.Sprintf("%d requests, %.1f MB, %s", s.Requests, float64(s.Bytes)/1e6, s.Took.Round(10*time.Millisecond))
}

// reader is one read.
type reader struct {
	Services
	Options
	out *fleet.Snapshot

	mu   sync.Mutex // of out.Gaps and out.Absent
	cost counter
}

// ofCompute are the parts that the compute service has.
var ofCompute = []fleet.Part{fleet.Servers, fleet.Migrations, fleet.Hypervisors, fleet.Services, fleet.Reported}

// Negotiated is Read after Negotiate, whose result it keeps in s: the compute client, and no Hosts where compute is not
// Berth's. A read of nothing that compute has needs no compute service.
func Negotiated(ctx context.Context, s *Services, o Options) (*fleet.Snapshot, Stats, error) {
	kind, err := Negotiate(ctx, s.Compute)
	if err != nil && slices.ContainsFunc(ofCompute, func(p fleet.Part) bool { return !slices.Contains(o.Without, p) }) {
		return nil, Stats{}, err
	}
	if !kind.Berth {
		s.Hosts = nil
	}
	snapshot, cost, err := Read(ctx, *s, o)
	if err == nil {
		snapshot.Berth = kind.Berth
	}
	return snapshot, cost, err
}

// Read reads a snapshot. Placement's list of providers is necessary; what else could not be read is in Gaps, with the
// reason. It returns fault.Invalid if compute is too old.
func Read(ctx context.Context, s Services, o Options) (*fleet.Snapshot, Stats, error) {
	if o.Parallel <= 0 {
		o.Parallel = 16
	}
	began := time.Now()
	r := &reader{Services: s, Options: o, out: &fleet.Snapshot{Taken: began}}
	r.count()
	if err := r.allProviders(ctx); err != nil {
		return nil, Stats{}, err
	}
	parts := map[fleet.Part]func(context.Context) error{fleet.Ports: r.ports, fleet.Agents: r.agents,
		fleet.Reported: r.reported}
	copied := r.Copy != nil && r.Host == "" && r.Hosts != nil
	if r.Host == "" && !copied {
		all := url.Values{}
		parts[fleet.Servers] = func(ctx context.Context) error { return r.servers(ctx, all) }
		parts[fleet.Migrations] = func(ctx context.Context) error { return r.migrations(ctx, all) }
		parts[fleet.Hypervisors], parts[fleet.Services] = r.hypervisors, r.services
	}
	maps.DeleteFunc(parts, func(part fleet.Part, _ func(context.Context) error) bool { return !r.wants(part) })
	r.together(ctx, parts)
	switch {
	case r.Host != "":
		r.oneHost(ctx)
	case copied:
		r.copiedCompute(ctx)
	case r.wants(fleet.Services) && r.wants(fleet.Migrations):
		r.gap(fleet.Services, r.servicesAgain(ctx))
	}
	if err := ctx.Err(); err != nil {
		return nil, Stats{}, context.Cause(ctx)
	}
	return r.out, Stats{r.cost.requests.Load(), r.cost.bytes.Load(), time.Since(began)}, nil
}

// together reads parts at the same time. What could not be read is a gap.
func (r *reader) together(ctx context.Context, parts map[fleet.Part]func(context.Context) error) {
	var wait sync.WaitGroup
	for part, read := range parts {
		wait.Go(func() { r.gap(part, read(ctx)) })
	}
	wait.Wait()
}

// allProviders reads the providers, or rows in their place, with one request if that is requested and possible. A
// Placement that is busy is not asked for each provider instead.
func (r *reader) allProviders(ctx context.Context) error {
	read := r.placement
	switch {
	case !r.wants(fleet.Providers):
		return nil
	case r.Host != "":
	case r.Rows == HostRows:
		read = func(ctx context.Context) (err error) {
			r.out.HostRows, err = r.Placement.Hosts(ctx)
			return err
		}
	case r.Rows == DeviceRows:
		read = func(ctx context.Context) (err error) {
			r.out.DeviceRows, err = r.Placement.Devices(ctx)
			return err
		}
	case r.Copy != nil:
		read = r.copied
	}
	err := read(ctx)
	if r.Host == "" && (r.Copy != nil || r.Rows != NoRows) && fault.Is(err, fault.NotFound) {
		return r.placement(ctx) // it is OpenStack's
	}
	return err
}

// gap records that a part could not be read, or that the cloud does not have its service, unless err is nil.
func (r *reader) gap(part fleet.Part, err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	gap := fleet.Gap{Part: part, Why: err.Error()}
	if fault.CodeOf(err) == identity.CodeNoService {
		r.out.Absent = append(r.out.Absent, gap)
		return
	}
	r.out.Gaps = append(r.out.Gaps, gap)
}

// count makes the clients count their requests and the bytes of the answers.
func (r *reader) count() {
	p, c := *r.Placement, *r.Compute
	p.REST, c.REST = r.cost.in(p.REST), r.cost.in(c.REST)
	r.Placement, r.Compute = &p, &c
	if r.Hosts != nil {
		r.Hosts = &host.Client{REST: r.cost.in(r.Hosts.REST)}
	}
	if r.Network != nil {
		r.Network = &network.Client{REST: r.cost.in(r.Network.REST)}
	}
}

// counter counts requests and bytes.
type counter struct{ requests, bytes atomic.Int64 }

// in returns a copy of a client whose requests are counted.
func (c *counter) in(client *rest.Client) *rest.Client {
	out, web := *client, http.Client{Timeout: time.Minute}
	if client.HTTP != nil {
		web = *client.HTTP
	}
	next := web.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	web.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
		c.requests.Add(1)
		resp, err := next.RoundTrip(req)
		if err == nil {
			resp.Body = &countedBody{resp.Body, c}
		}
		return resp, err
	})
	out.HTTP = &web
	return &out
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type countedBody struct {
	io.ReadCloser
	of *counter
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.of.bytes.Add(int64(n))
	return n, err
}

// tries is how often a request is sent that is answered with an error that can pass.
const tries = 3

// again calls do until it succeeds, fails in a way that a repetition does not change, or has failed tries times.
func again(ctx context.Context, do func() error) (err error) {
	for n := range tries {
		if n > 0 && backoff.Sleep(ctx, time.Duration(n)*200*time.Millisecond) != nil {
			break
		}
		if err = do(); !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.Internal) {
			return err
		}
	}
	return err
}

// each calls do for the numbers below n, at most parallel at once. It returns how many calls failed, and the first
// error.
func (r *reader) each(ctx context.Context, n int, do func(int) error) (failed int, first error) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	next := make(chan int)
	for range min(r.Parallel, n) {
		wait.Go(func() {
			for i := range next {
				if err := again(ctx, func() error { return do(i) }); err != nil {
					mu.Lock()
					if failed++; first == nil {
						first = err
					}
					mu.Unlock()
				}
			}
		})
	}
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		next <- i
		if r.Progress != nil && (i+1)%500 == 0 {
			r.Progress(i+1, n)
		}
	}
	close(next)
	wait.Wait()
	return failed, first
}
