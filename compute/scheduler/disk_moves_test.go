package scheduler

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// hostsOnly is a Store that has only the reports of hosts.
type hostsOnly struct {
	Store
	list []schedule.Host
}

func (s hostsOnly) Host(_ context.Context, name string) (schedule.Host, error) {
	for _, h := range s.list {
		if h.Name == name {
			return h, nil
		}
	}
	return schedule.Host{}, fault.New(fault.NotFound, "no host %s", name)
}

// The hosts that cannot copy a disk are excluded for moves except evacuations, and for no other search.
func TestHostsThatCannotCopyDisksAreExcluded(t *testing.T) {
	hosts := hostsOnly{list: []schedule.Host{{Name: "a", Provider: "root-a"}, {Name: "b", Provider: "root-b",
		Disks: schedule.Disks{NoDiskMoves: "no address"}}}}
	for _, test := range []struct {
		kind lifecycle.Kind
		from string
		disk int
		want string // the hosts that are excluded
	}{
		{lifecycle.Migrating, "a", 1, "b"}, {lifecycle.Resizing, "a", 1, "b"}, {lifecycle.Resizing, "b", 1, "a"},
		{lifecycle.Migrating, "a", 0, ""}, {lifecycle.LiveMigration, "a", 0, "b"},
		{lifecycle.LiveMigration, "b", 1, "a"}, {lifecycle.Evacuating, "b", 1, ""},
		{"", "", 1, ""},
	} {
		s := lifecycle.Server{ID: "s"}
		s.Flavor.DiskGB = test.disk
		if test.kind != "" {
			s.Move = &lifecycle.Move{Kind: test.kind, From: lifecycle.Residence{Host: test.from, Flavor: s.Flavor}}
		}
		input := schedule.Input{Hosts: map[provider.ID]schedule.Host{}, ExcludedHosts: map[string]string{}}
		for _, h := range hosts.list {
			input.Hosts[h.Provider] = h
		}
		if err := New(hosts, nil, Options{}).excludeWithoutDisk(t.Context(), s, input); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(slices.Sorted(maps.Keys(input.ExcludedHosts)), ",")
		if got != test.want {
			t.Errorf("%+v: excluded are %q: %v", test, got, input.ExcludedHosts)
		}
	}
}
