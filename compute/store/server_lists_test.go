package store_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// shownParts returns a server without the fields that no list shows.
func shownParts(s lifecycle.Server) lifecycle.Server {
	s.ImageSnapshot, s.Networks, s.Requests, s.Topology, s.Choices, s.FailedHosts = nil, nil, nil, nil, nil, nil
	s.FilterFailures, s.Devices, s.Cells, s.Leftovers, s.LastReports = nil, nil, nil, nil, nil
	s.PreRebuild, s.Migration, s.History, s.Search = nil, nil, nil, nil
	s.Ask = lifecycle.Server{}.Ask
	return s
}

// listedServers checks that a list has each field that it shows, and that the names are the same without the records.
// The servers are created by another store, because one that has a record in memory lists it whole.
func listedServers(t *testing.T, creator, s *store.Store) {
	ctx := t.Context()
	full := fullServer()
	full.Ended, full.State = time.Time{}, lifecycle.Moving
	createGroup(t, creator, full.Group)
	must(t, creator.Create(ctx, full, serverOn("b", "h1")))
	list, err := s.ListServers(ctx, store.ServerFilter{})
	must(t, err)
	want, err := s.Servers(ctx, store.ServerFilter{})
	must(t, err)
	if len(list) != 2 || len(want) != 2 {
		t.Fatalf("listed %d servers, read %d", len(list), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(list[i], shownParts(want[i])) {
			t.Errorf("listed\n%+v\nwant\n%+v", list[i], shownParts(want[i]))
		}
	}
	refs, err := s.ServerRefs(ctx, store.ServerFilter{})
	must(t, err)
	if refs[0] != (store.ServerRef{ID: want[0].ID, Name: want[0].Name}) || len(refs) != 2 {
		t.Errorf("%+v", refs)
	}
	some, err := s.ListedServers(ctx, []string{"b", "none"})
	if err != nil || len(some) != 1 || some["b"].Name != "web-b" {
		t.Errorf("%+v %v", some, err)
	}
}

// TestKeepIsAppliedOverSeveralPages checks that Keep neither shortens a page nor lists a server twice.
func TestKeepIsAppliedOverSeveralPages(t *testing.T) {
	s := open(t, "sqlite:///"+filepath.Join(t.TempDir(), "compute.db"))
	var all []lifecycle.Server
	for n := range 2*store.MaxPage + 100 {
		all = append(all, server(fmt.Sprintf("%05d", n), n/3))
	}
	must(t, s.Create(t.Context(), all...))
	for _, every := range []int{1, 7, 900} {
		keep := func(ref store.ServerRef) bool {
			var n int
			_, err := fmt.Sscanf(ref.ID, "%d", &n)
			return err == nil && n%every == 0
		}
		var got, want []string
		for f := (store.ServerFilter{Limit: 2, Keep: keep}); len(got) < 40; {
			refs, err := s.ServerRefs(t.Context(), f)
			must(t, err)
			for _, ref := range refs {
				got = append(got, ref.ID)
			}
			if len(refs) < 2 {
				break
			}
			f.Marker = refs[1].ID
		}
		for n := len(all) - 1; n >= 0; n-- {
			if n%every == 0 {
				want = append(want, all[n].ID)
			}
		}
		if want = want[:min(40, len(want))]; !slices.Equal(got, want) {
			t.Errorf("every %d: %v, want %v", every, got, want)
		}
	}
}

// sums checks limits, loads and usages against the records.
func sums(t *testing.T, s *store.Store) {
	ctx := t.Context()
	for n := range 6 {
		one := serverOn(fmt.Sprint("s", n), fmt.Sprint("h", n%2))
		one.Project, one.Flavor.VCPUs, one.Flavor.MemoryMB = fmt.Sprint("p", n/3), n+1, 10*n
		one.Flavor.DiskGB, one.Flavor.Ephemeral = 3, 4
		one.Launched = noon.Add(time.Duration(6-n/2) * time.Hour)
		must(t, s.Create(ctx, one))
	}
	_, err := s.Change(ctx, "s1", func(one lifecycle.Server) lifecycle.Server {
		one.Task, one.Flavor.VCPUs = lifecycle.Rebooting, 100
		return one
	})
	must(t, err)
	_, err = s.Change(ctx, "s2", func(one lifecycle.Server) lifecycle.Server {
		one.State, one.Ended = lifecycle.Deleted, noon.Add(8*time.Hour)
		return one
	})
	must(t, err)
	use, err := s.QuotaUse(ctx, "p0", "")
	if want := (quota.Amounts{"instances": 2, "cores": 101, "ram": 10}); err != nil || !maps.Equal(use, want) {
		t.Errorf("%+v %v, want %+v", use, err, want)
	}
	if use, err = s.QuotaUse(ctx, "none", ""); err != nil || len(use) > 0 {
		t.Errorf("%+v %v", use, err)
	}
	loads, err := s.HostLoads(ctx, "")
	want := map[string]store.HostLoad{"h0": {Servers: 2}, "h1": {Servers: 3, Busy: 1}}
	if err != nil || !reflect.DeepEqual(loads, want) {
		t.Errorf("%+v %v, want %+v", loads, err, want)
	}
	if loads, err = s.HostLoads(ctx, "h1"); err != nil || len(loads) != 1 || loads["h1"] != want["h1"] {
		t.Errorf("%+v %v", loads, err)
	}
	usagePages(t, s)
}

// usagePages reads the servers of sums that ran in a period.
func usagePages(t *testing.T, s *store.Store) {
	for _, x := range []struct {
		filter store.UsageFilter
		want   string
	}{
		{store.UsageFilter{From: noon, To: noon.Add(24 * time.Hour)}, "s2 s0 s1|s4 s5 s3"},
		{store.UsageFilter{From: noon.Add(9 * time.Hour), To: noon.Add(24 * time.Hour)}, "s0 s1|s4 s5 s3"},
		{store.UsageFilter{From: noon, To: noon.Add(4 * time.Hour)}, "|s4 s5"},
		{store.UsageFilter{From: noon, To: noon.Add(24 * time.Hour), Project: "p1"}, "|s4 s5 s3"},
		{store.UsageFilter{From: noon, To: noon.Add(24 * time.Hour), Project: "p2"}, "|"},
	} {
		for _, limit := range []int{0, 1, 2} {
			f := x.filter
			f.Limit = limit
			byProject := map[string][]string{}
			for {
				list, err := s.UsedServers(t.Context(), f)
				must(t, err)
				for _, one := range list {
					byProject[one.Project] = append(byProject[one.Project], one.ID)
				}
				if limit == 0 || len(list) < limit {
					break
				}
				f.Marker = list[len(list)-1].ID
			}
			got := strings.Join(byProject["p0"], " ") + "|" + strings.Join(byProject["p1"], " ")
			if got != x.want {
				t.Errorf("%+v: %q, want %q", f, got, x.want)
			}
		}
	}
	f := store.UsageFilter{From: noon, To: noon.Add(4 * time.Hour), Marker: "s0"} // it started later
	_, err := s.UsedServers(t.Context(), f)
	is(t, err, fault.Invalid)
	list, err := s.UsedServers(t.Context(), store.UsageFilter{From: noon, To: noon.Add(24 * time.Hour), Limit: 2})
	must(t, err)
	want := store.UsedServer{ID: "s2", Project: "p0", Launched: noon.Add(5 * time.Hour), Ended: noon.Add(8 * time.Hour),
		VCPUs: 3, MemoryMB: 20, DiskGB: 7}
	if list[0] != want || !list[1].Ended.IsZero() {
		t.Errorf("%+v, want first %+v", list, want)
	}
}
