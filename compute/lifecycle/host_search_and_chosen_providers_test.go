package lifecycle

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
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
			for _, r := range WithProviders(c.requests, c.mappings) {
				got = append(got, r.Providers)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// However a reason comes, with its full stop or without, the sentence that the user reads has one.
func TestOneFullStop(t *testing.T) {
	for _, reason := range []string{"no such class CUSTOM_X", "no such class CUSTOM_X."} {
		s := applyAll(fresh(), Created{}, prepared)
		plain, _ := Next(s, NoValidHost{Reason: reason}, noon)
		if plain.Fault.Message != "No valid host was found: no such class CUSTOM_X." {
			t.Error(plain.Fault.Message)
		}
		s.FailedHosts = map[string]string{"a": reason}
		tried, _ := Next(s, NoValidHost{Reason: reason}, noon)
		if tried.Fault.Message != "No valid host was found: no such class CUSTOM_X; tried before: a: no such class "+
			"CUSTOM_X." {
			t.Error(tried.Fault.Message)
		}
	}
}

// A step that is always lost or fails ends in ERROR, in bounded time, with all reasons.
func TestRepeatedFailuresEndInError(t *testing.T) {
	s := applyAll(fresh(), Created{}, prepared)
	for n := 0; s.State != Error; n++ {
		if n > 1000 {
			t.Fatal("it never ends")
		}
		switch s.State {
		case Scheduling:
			s, _ = Next(s, Chosen{Choices: slices.Repeat([]schedule.Choice{choice("a")}, schedule.MaxChoices)}, noon)
		case Claiming:
			s, _ = Next(s, ClaimLost{Try: s.Try, Reason: "VCPU is taken"}, noon)
		case Failing:
			s, _ = Next(s, Released{}, noon)
		}
	}
	if s.Round != MaxRounds || s.Try != MaxRounds*schedule.MaxChoices || !strings.Contains(s.Fault.Message,
		"VCPU is taken") {
		t.Errorf("rounds %d, tries %d, %s", s.Round, s.Try, s.Fault.Message)
	}
}
