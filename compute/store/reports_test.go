package store_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

func device(fn uint8, state pci.State, holder resource.ConsumerID) pci.Offered {
	return pci.Offered{
		Device: pci.Device{Address: pci.Address{Domain: 0x10000, Bus: 0x3b, Func: fn}, Vendor: "8086", Product: "1515",
			Type:   pci.Virtual,
			Parent: &pci.Address{Bus: 0x3b}, NUMANode: 1, Driver: "vfio-pci", IOMMUGroup: 7},
		ResourceClass: "CUSTOM_X", Traits: []resource.Trait{"CUSTOM_T"}, Provider: "pf", State: state, Holder: holder,
		RequestID: "R",
	}
}

func report(name string, devices ...pci.Offered) schedule.Host {
	return schedule.Host{Name: name, Provider: provider.ID("root-" + name), Devices: devices,
		Conditions:  []condition.Condition{condition.Condition{Text: "x"}.At(noon)},
		InPlacement: true, Seen: noon}
}

func hosts(t *testing.T, s *store.Store) {
	ctx := t.Context()
	a := report("a", device(1, pci.Available, ""))
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

func reports(t *testing.T, s *store.Store) {
	ctx := t.Context()
	// On h: s1 has device 1; s2 was deleted and s3 is on another host, but the report still names them; s4 is unknown.
	gone, _ := lifecycle.Next(server("s2", 0), lifecycle.DeleteRequested{}, noon)
	for _, server := range []lifecycle.Server{serverOn("s1", "h"), gone, serverOn("s3", "g"), server("plain", 0)} {
		must(t, s.Create(ctx, server))
	}
	on := report("h", device(1, pci.Allocated, "s1"), device(2, pci.Claimed, "s2"),
		device(3, pci.Allocated, "s3"),
		device(4, pci.Allocated, "s4"), device(5, "removed", "s2"), device(6, pci.Available, ""))
	for _, id := range []string{"s1", "s2", "s3", "s4"} {
		on.Counted = append(on.Counted, schedule.CountedGuest{ID: id})
	}
	must(t, s.PutReport(ctx, on, admitted))
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
	var counted []string
	for _, g := range got["root-h"].Counted {
		counted = append(counted, g.ID)
	}
	if want := "s1 s4"; strings.Join(counted, " ") != want {
		t.Errorf("the NUMA cells of %v count, want those of %s", counted, want)
	}
	guests := got["root-h"].Guests
	if len(guests) != 1 || guests[0].ID != "s1" || len(guests[0].Requests) != 1 || len(guests[0].Devices) != 1 {
		t.Errorf("guests %+v", guests)
	}
	if none, err := s.Reports(ctx, nil); err != nil || len(none) != 0 {
		t.Errorf("%v %v", none, err)
	}
}
