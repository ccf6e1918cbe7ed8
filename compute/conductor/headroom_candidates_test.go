package conductor

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// limitedPlacement is a Placement that returns at most this many candidates. OpenStack's does not report the limit.
type limitedPlacement struct {
	Placement
	limit   atomic.Int64 // 0: none
	reports atomic.Bool
	queries atomic.Int64
}

func (p *limitedPlacement) Candidates(ctx context.Context, ask resource.Ask) (placement.Candidates, error) {
	p.queries.Add(1)
	got, err := p.Placement.Candidates(ctx, ask)
	if n := int(p.limit.Load()); n > 0 {
		got.List = slices.Clone(got.List[:min(n, len(got.List))])
	}
	if p.reports.Load() {
		got.Limit = int(p.limit.Load())
		got.Complete = got.Limit == 0 || len(got.List) < got.Limit
	}
	return got, err
}

// addSecond adds a provider of one device to a host, which its agent reports.
func (c *cloud) addSecond(host string) {
	c.addProvider("qf-", host, 1)
	c.agents.mu.Lock()
	c.agents.devices[host] = append(c.agents.devices[host], "0000:3c:00.1")
	c.agents.mu.Unlock()
	c.report(host)
}

// The headroom is the same with each limit above the candidates of one host. Otherwise it is a lower bound, which is
// not exact.
func TestHeadroomWithLimitedCandidates(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 3, "b": 2, "c": 4})
	for _, host := range []string{"a", "b", "c"} {
		c.addSecond(host)
	}
	limited := &limitedPlacement{Placement: c.client(nil)}
	c.start(t.Context(), c.store, limited)
	f := flavor.Flavor{Name: "f", VCPUs: 1, ExtraSpecs: map[string]string{"resources1:CUSTOM_NIC": "1"}}
	count := func() (fits int, exact bool) {
		hosts, _, err := c.conductor().Scheduler.Headroom(t.Context(), f, nil)
		if err != nil {
			t.Fatal(err)
		}
		exact = true
		for _, h := range hosts {
			fits, exact = fits+h.Fits, exact && h.Exact
		}
		return fits, exact
	}
	const all = 3 + 2 + 4 + 3 // devices
	if fits, exact := count(); fits != all || !exact {
		t.Fatalf("without a limit: %d %v", fits, exact)
	}
	for limit, want := range map[int]bool{6: true, 5: true, 4: true, 3: true, 2: false, 1: false} {
		limited.limit.Store(int64(limit))
		fits, exact := count()
		if want && (fits != all || !exact) || !want && exact || limit == 1 && fits >= all || fits > all {
			t.Errorf("with limit %d: %d %v", limit, fits, exact)
		}
	}
}

// Berth's Placement reports its limit. A complete answer needs one query; the only host of a cloud with as many
// candidates as the limit has a lower bound, which no number of candidates shows.
func TestHeadroomWithAReportedLimit(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 2})
	c.addSecond("a")
	limited := &limitedPlacement{Placement: c.client(nil)}
	limited.reports.Store(true)
	c.start(t.Context(), c.store, limited)
	f := flavor.Flavor{Name: "f", VCPUs: 1, ExtraSpecs: map[string]string{"resources1:CUSTOM_NIC": "1"}}
	for limit, want := range map[int64]struct {
		queries int64
		exact   bool
	}{0: {1, true}, 3: {1, true}, 2: {2, false}, 1: {2, false}} {
		limited.limit.Store(limit)
		before := limited.queries.Load()
		hosts, _, err := c.conductor().Scheduler.Headroom(t.Context(), f, nil)
		if err != nil || len(hosts) != 1 {
			t.Fatal(hosts, err)
		}
		if n := limited.queries.Load() - before; n != want.queries || hosts[0].Exact != want.exact ||
			want.exact && hosts[0].Fits != 3 {
			t.Errorf("with limit %d: %d queries, %+v", limit, n, hosts[0])
		}
	}
}

// undecidedPlacement is a Placement that does not decide in time which candidates the host with one of the providers
// has: it returns those of the other hosts, as Berth's does for a scheduler, and an error if these are none.
type undecidedPlacement struct {
	Placement
	hosts   map[provider.ID]bool
	queries int
}

func (p *undecidedPlacement) Candidates(ctx context.Context, ask resource.Ask) (placement.Candidates, error) {
	p.queries++
	got, err := p.Placement.Candidates(ctx, ask)
	if err != nil {
		return got, err
	}
	all := len(got.List)
	got.List = slices.DeleteFunc(got.List, func(c placement.Candidate) bool {
		for id := range c.Allocation {
			if p.hosts[got.Summaries[id].Root] {
				return true
			}
		}
		return false
	})
	switch {
	case len(got.List) == all:
		got.Complete = true
	case len(got.List) == 0:
		return got, fault.New(fault.Unavailable, "stopped").WithCode(placement.CodeUndecided)
	default:
		got.Undecided = "stopped"
	}
	return got, nil
}

// Hosts that Placement has not decided have lower bounds; the others are counted, also if they are none.
func TestHeadroomWithUndecidedHosts(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 3, "b": 2})
	p := &undecidedPlacement{Placement: c.client(nil), hosts: map[provider.ID]bool{}}
	c.start(t.Context(), c.store, p)
	f := flavor.Flavor{Name: "f", VCPUs: 1, ExtraSpecs: map[string]string{"resources1:CUSTOM_NIC": "1"}}
	hosts, err := c.store.Hosts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []map[string]int{{"a": 3, "b": 2}, {"b": 2}, {}} {
		for _, h := range hosts {
			p.hosts[h.Provider] = want[h.Name] == 0
		}
		p.queries = 0
		got, reason, err := c.conductor().Scheduler.Headroom(t.Context(), f, nil)
		if err != nil || len(got) != 2 || (n == 2) != (reason == "stopped") || p.queries > 3 {
			t.Errorf("%v: %v %q %+v, %d queries", want, err, reason, got, p.queries)
		}
		for _, h := range got {
			if decided := want[h.Name] > 0; h.Fits != want[h.Name] || h.Exact != decided || decided == (h.Refused != "") {
				t.Errorf("%v: %+v", want, h)
			}
		}
	}
}
