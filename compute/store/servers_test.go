package store_test

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

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
	s.CreateRequest = "req-1"
	s.Description, s.Image, s.KeyName, s.Zone, s.Metadata, s.Tags = "d", "i", "k", "z", map[string]string{
		"a": "b"}, []string{"t"}
	s.Lock = &lifecycle.Lock{ByAdmin: true, Reason: "r"}
	s.AccessIPv4, s.AutoDisk, s.ConfigDrive = "192.0.2.1", true, true
	s.SecurityGroups = []lifecycle.SecurityGroup{{ID: "g"}}
	s.SameHost, s.DifferentHost = []string{"a"}, []string{"b"}
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
	s.SoftDeleted, s.ShelvedAt = noon, noon
	s.Topology = []numa.GuestCell{{VCPUs: []int{0}, Dedicated: []int{0}, Threads: numa.Isolate, MemoryMB: 1024,
		PageKB:   2048,
		Emulator: 1}}
	s.Cells = []numa.Placed{{Node: 1, CPUs: map[int]int{0: 4}, Emulator: []int{5}, PageKB: 2048}}
	s.FilterFailures = []schedule.FilterFailure{{Filter: schedule.FilterDevices, Reason: "r", Count: 1,
		Hosts: []string{"g"}, Nearest: "n"}}
	s.Search = &lifecycle.HostSearch{At: noon, Search: schedule.Search{
		Funnel: []schedule.FunnelRow{{Clause: "hosts", Left: 2}, {Clause: "offer CUSTOM_NIC", Left: 1,
			Removed: []string{"g"}}},
		Nearest: []schedule.NearestMiss{{Host: "g", Deficits: []schedule.Deficit{{Class: "CUSTOM_NIC", Cause: "held", Asks: 2,
			Free: 1, Of: 3, Text: "t"}}}}}}
	s.Group, s.HostZone, s.Target, s.RescueImage, s.Rescued = "full group", "zone", "h", "rescue", "rescue"
	s.MinCount, s.PreviousConsumer, s.Power, s.Actual = 2, "w", lifecycle.Off, lifecycle.Off
	s.Task, s.Builds, s.Shelved, s.MinCountReached, s.LastAction = lifecycle.Rebooting, 3, true, true, "wish"
	s.Networks = []lifecycle.NetworkRequest{{Port: "p", Network: "n", FixedIP: "10.0.0.9", Tag: "t"}}
	s.Ports = []lifecycle.Port{{ID: "p", Network: "n", Created: true, Host: "h", VIF: "ovs", Bridge: "br-int",
		Groups:     []resource.Group{{Suffix: "g", Resources: resource.Amounts{"NET_BW_EGR_KILOBIT_PER_SEC": 1}}},
		Allocation: map[string]provider.ID{"g": "bridge"}}}
	s.PortChange = &lifecycle.PortChange{ID: "c", Detach: "p"}
	s.PortQueue = []lifecycle.QueuedPortChange{{ID: "d", Detach: "q"}}
	s.PortOutcomes = []lifecycle.PortOutcome{{ID: "b", Port: "r", Refused: "no"}}
	s.ShelvedImage = &lifecycle.ShelvedImage{ID: "i2", Format: "qcow2", Bytes: 7, SHA512: "sum"}
	s.UnusedImages = []string{"i1"}
	s.SecurityGroups = []lifecycle.SecurityGroup{{ID: "sg", Name: "web"}}
	s.PortsRefused, s.DeletedPorts = "no agent", []string{"gone"}
	from := lifecycle.Residence{Consumer: "m", PreviousConsumer: "full", Host: "g", Flavor: s.Flavor, Ask: s.Ask,
		Requests: s.Requests, Choice: &s.Choices[0],
		Devices: s.Devices, Topology: s.Topology, Cells: s.Cells, Reported: true, Gone: true}
	s.State = lifecycle.Moving
	s.Move = &lifecycle.Move{Kind: lifecycle.Resizing, Phase: lifecycle.Resized, To: "h", SameHostAllowed: true,
		Consumer: "m", From: from,
		StopSource: true, SourceStopped: true, RevertRequested: true, Failed: "f", SourceLost: "l",
		Refusals: 3}
	s.SecurityGroups = []lifecycle.SecurityGroup{{ID: "g", Name: "default"}}
	s.RequestedAmounts = resource.Amounts{"VCPU": 1}
	s.Guarantees = map[string]lifecycle.Guarantee{"port": {Revision: 2,
		Amounts: resource.Amounts{"NET_BW_EGR_KILOBIT_PER_SEC": 2000}}}
	s.Reserved = map[string]resource.Amounts{"change": {"NET_BW_EGR_KILOBIT_PER_SEC": 500}}
	s.PortAmounts = map[string]resource.Amounts{"port": {"NET_BW_EGR_KILOBIT_PER_SEC": 1000}}
	from.Consumer = "m0"
	s.Leftovers = []lifecycle.Residence{from}
	s.PreRebuild = &lifecycle.PreRebuild{Name: "before", Image: "i0", ImageSnapshot: &flavor.Image{ID: "i0"}, Ask: s.Ask}
	s.Refusal = &lifecycle.Fault{Code: 500, Message: "r", Details: "d", Created: noon}
	s.LastReports = []lifecycle.LastReport{{Host: "h", Instance: "i", Number: 1<<32 + 7}}
	s.Migration = &lifecycle.Migration{User: "u", Project: "p",
		ID: "m", Kind: lifecycle.Resizing, Status: "finished", From: "g", To: "h",
		OldFlavor: "0", NewFlavor: "1", Begun: noon, Updated: noon}
	return s
}

func roundTrip(t *testing.T, s *store.Store) {
	want := fullServer()
	for i := range reflect.TypeFor[lifecycle.Server]().NumField() {
		field := reflect.TypeFor[lifecycle.Server]().Field(i)
		if field.IsExported() && reflect.ValueOf(want).Field(i).IsZero() {
			t.Errorf("the field %s of fullServer is not set", field.Name)
		}
	}
	createGroup(t, s, want.Group)
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
		{store.ServerFilter{ExistedSince: noon.Add(time.Minute)}, "d c b a"},
		{store.ServerFilter{ExistedSince: noon.Add(2 * time.Minute)}, "c b a"},
		{store.ServerFilter{ExistedSince: noon.Add(time.Minute), CreatedUntil: noon.Add(3 * time.Second)}, "c b a"},
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
		deleted.Migration = &lifecycle.Migration{ID: "m" + deleted.ID, Kind: lifecycle.Resizing, Begun: noon,
			Updated: noon}
		must(t, s.Create(ctx, deleted))
	}
	must(t, s.Create(ctx, server("alive", -1000)))
	left := func() string {
		dead, err := s.Servers(ctx, store.ServerFilter{Deleted: true})
		must(t, err)
		alive, err := s.Servers(ctx, store.ServerFilter{})
		must(t, err)
		migrations, err := s.Migrations(ctx, store.MigrationFilter{})
		must(t, err)
		if len(migrations) != len(dead) {
			t.Errorf("%d servers have %d migrations", len(dead), len(migrations))
		}
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
