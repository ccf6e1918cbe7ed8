package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// TestStoreOnEveryDatabase runs the suite on every database.
func TestStoreOnEveryDatabase(t *testing.T) {
	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
		for _, c := range []struct {
			name string
			run  func(t *testing.T, s *store.Store)
		}{
			{"flavors", flavors}, {"extra specs", extraSpecs}, {"all fields of a server", roundTrip}, {"changes", changes},
			{"concurrent changes", concurrentChanges}, {"lists", lists}, {"pages", pages}, {"unfinished", unfinished},
			{"purge", purge},
			{"hosts", hosts}, {"assignments", assignments}, {"residences during a move", residencesDuringMove},
			{"subscriptions", subscriptions}, {"reports", reports},
			{"clean requests", cleanRequests}, {"forget a host", forgetHost},
			{"epochs", epochs}, {"removals", removals},
		} {
			t.Run(c.name, func(t *testing.T) { c.run(t, open(t, fresh(t))) })
		}
	})
}

// open returns a store on the database with this URL.
func open(t *testing.T, url string) *store.Store {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	_, err = store.Open(t.Context(), db)
	must(t, err)
	s, err := store.Open(t.Context(), db) // the tables exist on the second start
	must(t, err)
	return s
}

// admitted lets every agent report.
func admitted(schedule.Host) error { return nil }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// is checks the kind of an error.
func is(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("got %v, want a fault: %s", err, kind)
	}
}

func flavors(t *testing.T, s *store.Store) {
	ctx := t.Context()
	small := flavor.Flavor{ID: "1", Name: "small", Description: "ü", VCPUs: 1, MemoryMB: 512, DiskGB: 1, Ephemeral: 2,
		Swap: 3, RXTXFactor: 1.5,
		Public: true, ExtraSpecs: map[string]string{"pci_passthrough:alias": "nic:1", "group_policy": "none"}}
	large := flavor.Flavor{ID: "2", Name: "large", VCPUs: 64, MemoryMB: 65536, Disabled: true,
		ExtraSpecs: map[string]string{}}
	must(t, s.CreateFlavor(ctx, small))
	must(t, s.CreateFlavor(ctx, large))
	is(t, s.CreateFlavor(ctx, flavor.Flavor{ID: "1", Name: "other"}), fault.Conflict)
	is(t, s.CreateFlavor(ctx, flavor.Flavor{ID: "3", Name: "small"}), fault.Conflict)
	got, err := s.Flavor(ctx, "1")
	must(t, err)
	if !reflect.DeepEqual(got, small) {
		t.Errorf("got %+v", got)
	}
	must(t, s.DescribeFlavor(ctx, "1", "new"))
	small.Description = "new"
	for _, c := range []struct {
		filter store.FlavorFilter
		want   []flavor.Flavor
	}{
		{store.FlavorFilter{}, []flavor.Flavor{small}},
		{store.FlavorFilter{All: true}, []flavor.Flavor{small, large}},
		{store.FlavorFilter{All: true, Limit: 1}, []flavor.Flavor{small}},
		{store.FlavorFilter{All: true, Marker: "1"}, []flavor.Flavor{large}},
		{store.FlavorFilter{All: true, MinRAM: 1024}, []flavor.Flavor{large}},
		{store.FlavorFilter{All: true, MinDisk: 1}, []flavor.Flavor{small}},
		{store.FlavorFilter{All: true, Marker: "2"}, nil},
	} {
		got, err := s.Flavors(ctx, c.filter)
		must(t, err)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: got %+v", c.filter, got)
		}
	}
	_, err = s.Flavors(ctx, store.FlavorFilter{Marker: "none"})
	is(t, err, fault.Invalid)
	must(t, s.DeleteFlavor(ctx, "1"))
	_, err = s.Flavor(ctx, "1")
	is(t, err, fault.NotFound)
	is(t, s.DeleteFlavor(ctx, "1"), fault.NotFound)
	is(t, s.DescribeFlavor(ctx, "1", "x"), fault.NotFound)
	is(t, s.SetExtraSpecs(ctx, "1", map[string]string{"a": "b"}), fault.NotFound)
	small.ExtraSpecs = map[string]string{}
	must(t, s.CreateFlavor(ctx, small))
	if got, err := s.Flavor(ctx, "1"); err != nil || len(got.ExtraSpecs) != 0 {
		t.Errorf("extra specs remain after their flavor was deleted: %v %v", got.ExtraSpecs, err)
	}
}

func extraSpecs(t *testing.T, s *store.Store) {
	ctx := t.Context()
	must(t, s.CreateFlavor(ctx, flavor.Flavor{ID: "1", Name: "small", ExtraSpecs: map[string]string{"a": "1", "b": "2"}}))
	must(t, s.SetExtraSpecs(ctx, "1", map[string]string{"b": "two", "c": "3"}))
	must(t, s.DeleteExtraSpec(ctx, "1", "a"))
	is(t, s.DeleteExtraSpec(ctx, "1", "a"), fault.NotFound)
	is(t, s.DeleteExtraSpec(ctx, "2", "b"), fault.NotFound)
	got, err := s.Flavor(ctx, "1")
	must(t, err)
	if want := map[string]string{"b": "two", "c": "3"}; !reflect.DeepEqual(got.ExtraSpecs, want) {
		t.Errorf("got %v", got.ExtraSpecs)
	}
}

// server returns a server in BUILD that was created n seconds after noon.
func server(id string, n int) lifecycle.Server {
	at := noon.Add(time.Duration(n) * time.Second)
	s, _ := lifecycle.Next(lifecycle.Server{ID: id, Name: "web-" + id, Project: "p", User: "u"}, lifecycle.Created{}, at)
	s, _ = lifecycle.Next(s, lifecycle.Prepared{}, at)
	return s
}

// serverOn returns a server with one device that the agent of the host has reported.
func serverOn(id, host string) lifecycle.Server {
	s := server(id, 0)
	s.State, s.Host, s.Reported = lifecycle.Active, host, true
	s.Requests = []pci.Request{{ID: "R-" + id, Alias: "nic", Count: 1, Providers: []provider.ID{"pf"}}}
	s.Devices = []schedule.Picked{{RequestID: "R-" + id, Address: "0000:3b:00.1", Provider: "pf"}}
	return s
}

// fullServer returns a server with every field set.
func fullServer() lifecycle.Server {
	s := serverOn("full", "h")
	s.Description, s.Image, s.KeyName, s.Zone, s.Metadata, s.Tags = "d", "i", "k", "z", map[string]string{
		"a": "b"}, []string{"t"}
	s.ImageSnapshot = &flavor.Image{ID: "i", Name: "debian", MinRAM: 1, MinDisk: 2, Size: 3,
		Properties: map[string]string{"hw_numa_nodes": "1"}}
	s.Flavor = flavor.Flavor{ID: "1", Name: "small", Description: "d", VCPUs: 1, MemoryMB: 2, DiskGB: 3, Ephemeral: 4,
		Swap: 5, RXTXFactor: 1, Public: true,
		Disabled: true, ExtraSpecs: map[string]string{"x": "y"}}
	s.Ask = resource.Ask{Groups: []resource.Group{{Suffix: "1", Resources: resource.Amounts{"VCPU": 1},
		Required:  [][]resource.Trait{{"A", "B"}},
		Forbidden: []resource.Trait{"C"}, MemberOf: [][]resource.AggregateID{{"g"}}, NotMemberOf: []resource.AggregateID{"n"},
		InTree: "t"}},
		GroupPolicy: resource.PolicyNone, SameSubtree: [][]string{{"1"}}, RootRequired: []resource.Trait{"D"},
		RootForbidden: []resource.Trait{"E"}, Limit: 7}
	s.Requests[0].Policy = pci.Legacy
	s.Requests[0].Requirement = pci.Requirement{Vendor: "8086", Product: "1515", Type: pci.Virtual, Class: "CUSTOM_X",
		Required: []resource.Trait{"A"}, Forbidden: []resource.Trait{"B"}}
	s.Round, s.Try, s.FailedHosts = 1, 2, map[string]string{"g": "why"}
	s.Choices = []schedule.Choice{{Host: "h", Root: "root", Allocation: resource.Allocation{"root": {"VCPU": 1}},
		Mappings: map[string][]provider.ID{"": {"root"}}}}
	s.Fault = &lifecycle.Fault{Code: 500, Message: "m", Details: "d", Created: noon}
	s.Launched, s.Ended, s.Requested, s.Revision = noon, noon, noon, 1
	s.Topology = []numa.GuestCell{{VCPUs: []int{0}, Dedicated: []int{0}, Threads: numa.Isolate, MemoryMB: 1024,
		PageKB:   2048,
		Emulator: 1}}
	s.Cells = []numa.Placed{{Node: 1, CPUs: map[int]int{0: 4}, Emulator: []int{5}, PageKB: 2048}}
	s.FilterFailures = []schedule.FilterFailure{{Filter: schedule.FilterDevices, Reason: "r", Count: 1,
		Hosts: []string{"g"}, Nearest: "n"}}
	s.MinCount, s.PreviousConsumer, s.Power, s.Stopped = 2, "w", lifecycle.Off, true
	s.Task, s.Builds, s.Shelved, s.MinCountReached, s.LastAction = lifecycle.Rebooting, 3, true, true, "wish"
	from := lifecycle.Residence{Consumer: "m", PreviousConsumer: "full", Host: "g", Flavor: s.Flavor, Ask: s.Ask,
		Requests: s.Requests, Choice: &s.Choices[0],
		Devices: s.Devices, Topology: s.Topology, Cells: s.Cells, Reported: true, Gone: true}
	s.State = lifecycle.Moving
	s.Move = &lifecycle.Move{Kind: lifecycle.Resizing, Phase: lifecycle.Resized, To: "h", SameHostAllowed: true,
		Consumer: "m", From: from,
		StopSource: true, SourceStopped: true, RevertRequested: true, Failed: "f", SourceLost: "l",
		Refusals: 3}
	from.Consumer = "m0"
	s.Leftovers = []lifecycle.Residence{from}
	s.PreRebuild = &lifecycle.PreRebuild{Name: "before", Image: "i0", ImageSnapshot: &flavor.Image{ID: "i0"}, Ask: s.Ask}
	s.Refusal = &lifecycle.Fault{Code: 500, Message: "r", Details: "d", Created: noon}
	s.LastReports = []lifecycle.LastReport{{Host: "h", Instance: "i", Number: 1<<32 + 7}}
	s.Migration = &lifecycle.Migration{ID: "m", Kind: lifecycle.Resizing, Status: "finished", From: "g", To: "h",
		OldFlavor: "0", NewFlavor: "1", Begun: noon, Updated: noon}
	return s
}

func roundTrip(t *testing.T, s *store.Store) {
	want := fullServer()
	for i := range reflect.TypeFor[lifecycle.Server]().NumField() {
		if reflect.ValueOf(want).Field(i).IsZero() {
			t.Errorf("the field %s of fullServer is not set", reflect.TypeFor[lifecycle.Server]().Field(i).Name)
		}
	}
	must(t, s.Create(t.Context(), want))
	is(t, s.Create(t.Context(), want), fault.Conflict)
	other := want
	other.ID, other.State, other.Move, other.Leftovers, other.Migration = "other", lifecycle.Active, nil, nil, nil
	is(t, s.Create(t.Context(), other, want), fault.Conflict) // all or none
	if _, err := s.Read(t.Context(), "other"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a server of a failed request exists: %v", err)
	}
	got, err := s.Read(t.Context(), "full")
	must(t, err)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	_, err = s.Read(t.Context(), "none")
	is(t, err, fault.NotFound)
}

func changes(t *testing.T, s *store.Store) {
	ctx := t.Context()
	must(t, s.Create(ctx, server("a", 0)))
	got, err := s.Change(ctx, "a",
		func(s lifecycle.Server) lifecycle.Server { s.Name, s.ID = "new", "cannot change"; return s })
	must(t, err)
	read, err := s.Read(ctx, "a")
	must(t, err)
	if !reflect.DeepEqual(got, read) || got.Name != "new" || got.ID != "a" || got.Revision != 2 {
		t.Errorf("stored %+v, read %+v", got, read)
	}
	got, err = s.Change(ctx, "a", func(s lifecycle.Server) lifecycle.Server { return s })
	if err != nil || got.Revision != 2 {
		t.Errorf("an unchanged record was written: revision %d, %v", got.Revision, err)
	}
	_, err = s.Change(ctx, "none", func(s lifecycle.Server) lifecycle.Server { return s })
	is(t, err, fault.NotFound)
}

// concurrentChanges checks that no change is lost when many are made at once.
func concurrentChanges(t *testing.T, s *store.Store) {
	must(t, s.Create(t.Context(), server("a", 0)))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := s.Change(t.Context(), "a", func(s lifecycle.Server) lifecycle.Server { s.Try++; return s }); err !=
				nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got, err := s.Read(t.Context(), "a"); err != nil || got.Try != 20 || got.Revision != 21 {
		t.Errorf("%d of 20 changes, revision %d, %v", got.Try, got.Revision, err)
	}
}

// serverIDs returns the ids of servers.
func serverIDs(list []lifecycle.Server) string {
	var ids []string
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	return strings.Join(ids, " ")
}

// guestsOf returns the consumers of assignments; removals have a "-".
func guestsOf(a store.Assignments) string {
	var ids []string
	for _, e := range a.Entries {
		ids = append(ids, e.Consumer)
	}
	for _, r := range a.Removals {
		ids = append(ids, "-"+r.Consumer)
	}
	return strings.Join(ids, " ")
}

func lists(t *testing.T, s *store.Store) {
	ctx := t.Context()
	a, b, c, d := server("a", 1), serverOn("b", "h1"), server("c", 3), server("d", 4)
	b.Created, b.Project, b.Flavor.ID, b.User = noon.Add(2*time.Second), "q", "2", "v"
	c.Name, c.State, c.Fault = "100%_sure", lifecycle.Error, &lifecycle.Fault{Message: "x"}
	d, _ = lifecycle.Next(d, lifecycle.DeleteRequested{}, noon.Add(time.Minute))
	for _, server := range []lifecycle.Server{a, b, c, d} {
		must(t, s.Create(ctx, server))
	}
	for _, x := range []struct {
		filter store.ServerFilter
		want   string
	}{
		{store.ServerFilter{}, "c b a"},
		{store.ServerFilter{Limit: 2}, "c b"},
		{store.ServerFilter{Limit: 2, Marker: "b"}, "a"},
		{store.ServerFilter{Project: "q"}, "b"},
		{store.ServerFilter{User: "v"}, "b"},
		{store.ServerFilter{Host: "h1"}, "b"},
		{store.ServerFilter{Flavor: "2"}, "b"},
		{store.ServerFilter{Status: "BUILD"}, "a"},
		{store.ServerFilter{Status: "ACTIVE"}, "b"},
		{store.ServerFilter{Status: "ERROR"}, "c"},
		{store.ServerFilter{Status: "DELETED"}, "d"},
		{store.ServerFilter{Deleted: true}, "d"},
		{store.ServerFilter{Name: "web"}, "b a"},
		{store.ServerFilter{Name: "0%_s"}, "c"},
		{store.ServerFilter{Name: "%"}, "c"},
		{store.ServerFilter{Since: noon.Add(3 * time.Second)}, "d c"},
	} {
		got, err := s.Servers(ctx, x.filter)
		must(t, err)
		if serverIDs(got) != x.want {
			t.Errorf("%+v: %q, want %q", x.filter, serverIDs(got), x.want)
		}
	}
	_, err := s.Servers(ctx, store.ServerFilter{Marker: "none"})
	is(t, err, fault.Invalid)
}

// pages checks that servers with the same creation time are listed once each, over all pages.
func pages(t *testing.T, s *store.Store) {
	for i := range 10 {
		must(t, s.Create(t.Context(), server(fmt.Sprint(i), i/5)))
	}
	var got []string
	for marker := ""; ; {
		list, err := s.Servers(t.Context(), store.ServerFilter{Marker: marker, Limit: 3})
		must(t, err)
		if len(list) == 0 {
			break
		}
		got = append(got, serverIDs(list))
		marker = list[len(list)-1].ID
	}
	if want := "9 8 7|6 5 4|3 2 1|0"; strings.Join(got, "|") != want {
		t.Errorf("got %v", got)
	}
}

func unfinished(t *testing.T, s *store.Store) {
	ctx := t.Context()
	for _, server := range []lifecycle.Server{server("c", 0), serverOn("b", "h"), server("a", 0)} {
		must(t, s.Create(ctx, server))
	}
	first, err := s.Unfinished(ctx, "", 1)
	must(t, err)
	rest, err := s.Unfinished(ctx, "a", 10)
	must(t, err)
	if !slices.Equal(first, []string{"a"}) || !slices.Equal(rest, []string{"c"}) {
		t.Errorf("%v %v", first, rest)
	}
	_, err = s.Change(ctx, "c", func(s lifecycle.Server) lifecycle.Server {
		s, _ = lifecycle.Next(s, lifecycle.NoValidHost{Reason: "x"}, noon)
		return s
	})
	must(t, err)
	if rest, err = s.Unfinished(ctx, "a", 10); err != nil || len(rest) != 0 {
		t.Errorf("%v %v", rest, err)
	}
}

func purge(t *testing.T, s *store.Store) {
	ctx := t.Context()
	for i := range 10 {
		deleted, _ := lifecycle.Next(server(fmt.Sprint(i), 0), lifecycle.DeleteRequested{},
			noon.Add(time.Duration(i/2)*time.Hour))
		must(t, s.Create(ctx, deleted))
	}
	must(t, s.Create(ctx, server("alive", -1000)))
	left := func() string {
		dead, err := s.Servers(ctx, store.ServerFilter{Deleted: true})
		must(t, err)
		alive, err := s.Servers(ctx, store.ServerFilter{})
		must(t, err)
		return serverIDs(dead) + " " + serverIDs(alive)
	}
	must(t, s.Purge(ctx, noon.Add(time.Hour), 100))
	if got := left(); got != "9 8 7 6 5 4 3 2 alive" {
		t.Errorf("after purging by age: %s", got)
	}
	must(t, s.Purge(ctx, noon, 3))
	if got := left(); got != "9 8 7 alive" {
		t.Errorf("after purging by number: %s", got)
	}
}

func device(fn uint8, state schedule.State, holder string) schedule.Device {
	return schedule.Device{
		Device: pci.Device{Address: pci.Address{Domain: 0x10000, Bus: 0x3b, Func: fn}, Vendor: "8086", Product: "1515",
			Class: 0x20000, Type: pci.Virtual,
			Parent: &pci.Address{Bus: 0x3b}, NUMANode: 1, Driver: "vfio-pci", IOMMUGroup: 7},
		ResourceClass: "CUSTOM_X", Traits: []resource.Trait{"CUSTOM_T"}, Provider: "pf", State: state, Holder: holder,
		RequestID: "R",
	}
}

func report(name string, devices ...schedule.Device) schedule.Host {
	return schedule.Host{Name: name, Provider: provider.ID("root-" + name), Devices: devices, Conditions: []string{"x"},
		InPlacement: true, Seen: noon}
}

func hosts(t *testing.T, s *store.Store) {
	ctx := t.Context()
	a := report("a", device(1, schedule.Available, ""))
	must(t, s.PutReport(ctx, report("b"), admitted))
	must(t, s.PutReport(ctx, report("a"), admitted))
	given := a
	given.Load, given.Guests = 1, []schedule.Guest{{ID: "not part of a report"}}
	must(t, s.PutReport(ctx, given, admitted))
	must(t, s.Create(ctx, serverOn("s", "never reported")))
	got, err := s.Hosts(ctx)
	must(t, err)
	if want := []schedule.Host{a, report("b")}; !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	if one, err := s.Host(ctx, "a"); err != nil || !reflect.DeepEqual(one, a) {
		t.Errorf("%+v %v", one, err)
	}
	_, err = s.Host(ctx, "never reported")
	is(t, err, fault.NotFound)
}

func assignments(t *testing.T, s *store.Store) {
	ctx := t.Context()
	expect := func(host, want string) {
		t.Helper()
		got, err := s.Assignments(ctx, host)
		must(t, err)
		if is := fmt.Sprintf("%d: %s", got.Revision, guestsOf(got)); is != want {
			t.Errorf("%s has %q, want %q", host, is, want)
		}
	}
	change := func(id string, next func(s *lifecycle.Server)) {
		t.Helper()
		_, err := s.Change(ctx, id, func(s lifecycle.Server) lifecycle.Server { next(&s); return s })
		must(t, err)
	}
	expect("h", "0: ")
	must(t, s.Create(ctx, server("a", 0)))
	must(t, s.Create(ctx, server("b", 0)))
	expect("h", "0: ")
	change("b", func(s *lifecycle.Server) { s.State, s.Host = lifecycle.Spawning, "h" })
	change("a", func(s *lifecycle.Server) { s.State, s.Host = lifecycle.Spawning, "h" })
	expect("h", "2: a b")
	must(t, s.PutReport(ctx, report("h"), admitted))
	change("a", func(s *lifecycle.Server) { s.State = lifecycle.Active }) // nothing new for the agent
	expect("h", "2: a b")
	change("a", func(s *lifecycle.Server) { s.Requests = []pci.Request{{ID: "R"}} })
	expect("h", "3: a b")
	change("a", func(s *lifecycle.Server) { s.State = lifecycle.DeletingGuest })
	expect("h", "4: b -a")
	change("a", func(s *lifecycle.Server) { s.State = lifecycle.DeletingAllocation })
	expect("h", "5: b")
	change("b", func(s *lifecycle.Server) { s.Host = "g" })
	expect("h", "6: ")
	expect("g", "1: b")
}

// subscriptions checks which subscribers are notified of a change.
func subscriptions(t *testing.T, s *store.Store) {
	ctx := t.Context()
	notified := func(ch <-chan struct{}) bool {
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}
	h, stop := s.Subscribe("h")
	h2, stop2 := s.Subscribe("h")
	g, stopG := s.Subscribe("g")
	defer stopG()
	must(t, s.Create(ctx, serverOn("a", "h")))
	must(t, s.Create(ctx, serverOn("b", "h")))
	if !notified(h) || notified(h) || !notified(h2) || notified(g) {
		t.Error("only the subscribers of h must be notified, once for two changes")
	}
	stop2()
	change := func(id string, next func(s *lifecycle.Server)) {
		_, err := s.Change(ctx, id, func(s lifecycle.Server) lifecycle.Server { next(&s); return s })
		must(t, err)
	}
	change("a", func(s *lifecycle.Server) { s.Devices = nil })
	if notified(h) {
		t.Error("notified of a change that is not in the assignments")
	}
	change("a", func(s *lifecycle.Server) { s.Host = "g" })
	if !notified(h) || !notified(g) || notified(h2) {
		t.Error("the subscribers of both hosts of a move must be notified, and no stopped one")
	}
	stop()
}

func reports(t *testing.T, s *store.Store) {
	ctx := t.Context()
	// On h: s1 has device 1; s2 was deleted and s3 is on another host, but the report still names them; s4 is unknown.
	gone, _ := lifecycle.Next(server("s2", 0), lifecycle.DeleteRequested{}, noon)
	for _, server := range []lifecycle.Server{serverOn("s1", "h"), gone, serverOn("s3", "g"), server("plain", 0)} {
		must(t, s.Create(ctx, server))
	}
	must(t, s.PutReport(ctx, report("h", device(1, schedule.Allocated, "s1"), device(2, schedule.Claimed, "s2"),
		device(3, schedule.Allocated, "s3"),
		device(4, schedule.Allocated, "s4"), device(5, "removed", "s2"), device(6, schedule.Available, "")), admitted))
	must(t, s.PutReport(ctx, report("g"), admitted))
	must(t, s.PutReport(ctx, report("other"), admitted))
	got, err := s.Reports(ctx, []provider.ID{"root-h", "root-g", "root-none"})
	must(t, err)
	if len(got) != 2 || got["root-h"].Name != "h" || got["root-g"].Name != "g" {
		t.Fatalf("got %+v", got)
	}
	var states []string
	for _, d := range got["root-h"].Devices {
		states = append(states, string(d.State))
	}
	if want := "allocated available available allocated removed available"; strings.Join(states, " ") != want {
		t.Errorf("states %v, want %s", states, want)
	}
	guests := got["root-h"].Guests
	if len(guests) != 1 || guests[0].ID != "s1" || len(guests[0].Requests) != 1 || len(guests[0].Devices) != 1 {
		t.Errorf("guests %+v", guests)
	}
	if none, err := s.Reports(ctx, nil); err != nil || len(none) != 0 {
		t.Errorf("%v %v", none, err)
	}
}

// TestFullServerOfVersion1IsRead checks that a record of version 1 is read as the server that was stored.
func TestFullServerOfVersion1IsRead(t *testing.T) {
	url := "sqlite:///" + filepath.Join(t.TempDir(), "compute.db")
	s := open(t, url)
	must(t, s.Create(t.Context(), fullServer()))
	record, err := os.ReadFile("testdata/records-v1/full-server.json")
	must(t, err)
	db, err := sqldb.Open(t.Context(), url)
	must(t, err)
	defer db.Close()
	must(t, db.Write(t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE compute_servers SET record = ? WHERE id = 'full'`, string(record))
		return err
	}))
	got, err := s.Read(t.Context(), "full")
	must(t, err)
	want := fullServer()
	want.Move.Phase = lifecycle.MovePhase(lifecycle.Active) // the record was made up: no server is active while it moves
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the record is read as\n%+v\nwant\n%+v", got, want)
	}
}

// TestServersSurviveReopening closes and opens the database again.
func TestServersSurviveReopening(t *testing.T) {
	url := "sqlite:///" + filepath.Join(t.TempDir(), "compute.db")
	for n := range 3 {
		db, err := sqldb.Open(context.Background(), url)
		must(t, err)
		s, err := store.Open(t.Context(), db)
		must(t, err)
		if n == 0 {
			must(t, s.Create(t.Context(), serverOn("a", "h")))
		}
		a, err := s.Assignments(t.Context(), "h")
		must(t, err)
		if a.Revision != 1 || guestsOf(a) != "a" {
			t.Errorf("start %d: %+v", n, a)
		}
		must(t, db.Close())
	}
}
