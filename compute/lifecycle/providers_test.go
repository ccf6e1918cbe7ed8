package lifecycle

import (
	"reflect"
	"testing"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// The provider that Placement chose for each device is written into the device requests.
func TestChosenProviders(t *testing.T) {
	type list = []provider.ID
	for _, c := range []struct {
		row      string
		requests []pci.Request
		mappings map[string][]provider.ID
		want     []list
	}{
		{"no request", nil, map[string][]provider.ID{"": {"root"}}, nil},
		{"no mapping", []pci.Request{{ID: "R", Count: 2}}, map[string][]provider.ID{"": {"root"}}, []list{nil}},
		{"a provider for each device", []pci.Request{{ID: "R", Count: 2}, {ID: "S", Count: 1}},
			map[string][]provider.ID{"": {"root"}, "R-0": {"pf2"}, "R-1": {"pf1"}, "S-0": {"gpu"}},
			[]list{{"pf2", "pf1"}, {"gpu"}}},
		{"an id that another begins with", []pci.Request{{ID: "R", Count: 1}, {ID: "R-1", Count: 1}},
			map[string][]provider.ID{"R-0": {"pf1"}, "R-1-0": {"pf2"}}, []list{{"pf1"}, {"pf2"}}},
		{"an earlier choice is forgotten", []pci.Request{{ID: "R", Count: 1, Providers: list{"old"}},
			{ID: "S", Count: 1, Providers: list{"old"}}},
			map[string][]provider.ID{"S-0": {"new"}}, []list{nil, {"new"}}},
	} {
		t.Run(c.row, func(t *testing.T) {
			var got []list
			for _, r := range withProviders(c.requests, c.mappings) {
				got = append(got, r.Providers)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
