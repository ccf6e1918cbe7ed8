package store_test

import (
	"maps"
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// disabledHosts disables hosts, replaces a reason, enables hosts, and forgets one.
func disabledHosts(t *testing.T, s *store.Store) {
	ctx := t.Context()
	is(t, s.DisableHost(ctx, "h", "", noon), fault.NotFound)
	is(t, s.EnableHost(ctx, "h"), fault.NotFound)
	for _, name := range []string{"f", "g", "h"} {
		must(t, s.PutReport(ctx, schedule.Host{Name: name, Provider: provider.ID("root-" + name), Seen: noon}, admitted))
		must(t, s.DisableHost(ctx, name, "", noon))
	}
	must(t, s.DisableHost(ctx, "h", "new fans", noon.Add(time.Hour)))
	must(t, s.SetDead(ctx, "g", true, noon))
	must(t, s.SetDead(ctx, "g", true, noon.Add(time.Hour)))
	must(t, s.EnableHost(ctx, "g"))
	must(t, s.EnableHost(ctx, "g"))
	must(t, s.Forget(ctx, "f"))
	got, err := s.DisabledHosts(ctx)
	must(t, err)
	if want := map[string]string{"h": "new fans"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	dead, disabled, err := s.DeclaredSince(ctx)
	if want := map[string]time.Time{"h": noon.Add(time.Hour)}; err != nil || !maps.Equal(disabled, want) {
		t.Errorf("disabled since %v, want %v (%v)", disabled, want, err)
	}
	if want := map[string]time.Time{"g": noon}; !maps.Equal(dead, want) {
		t.Errorf("dead since %v, want %v", dead, want)
	}
}
