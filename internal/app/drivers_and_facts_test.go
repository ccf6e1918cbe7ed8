package app

import (
	"maps"
	"slices"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
)

// The configuration accepts exactly the drivers and sources that exist, and an unknown one opens nothing.
func TestDrivers(t *testing.T) {
	t.Parallel()
	if got := slices.Sorted(maps.Keys(drivers)); !slices.Equal(got, slices.Sorted(slices.Values(settings.Drivers))) {
		t.Errorf("compute_driver accepts %v, there are %v", settings.Drivers, got)
	}
	if got := slices.Sorted(maps.Keys(factSources)); !slices.Equal(got,
		slices.Sorted(slices.Values(settings.FactSources))) {
		t.Errorf("fact_source accepts %v, there are %v", settings.FactSources, got)
	}
	s := settings.Settings{HostSettings: settings.HostSettings{Driver: "none", Facts: "none"}}
	if h, err := openHypervisor(s, driverParts{dir: t.TempDir()}); h != nil || !fault.Is(err, fault.Invalid) {
		t.Errorf("%v %v", h, err)
	}
	if source, _, err := openFacts(s); source != nil || !fault.Is(err, fault.Invalid) {
		t.Errorf("%v %v", source, err)
	}
}
