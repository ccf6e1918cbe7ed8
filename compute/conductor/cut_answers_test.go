package conductor

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/resource"
)

// A server gets the only host that the filters accept, although Placement's answers are cut before it: in a cloud of
// more hosts than an answer has candidates, or because Placement limits them. So does a server that moves, and one that
// is planned, whose better hosts by the reports have no room in Placement.
func TestOnlyHostBeyondCutAnswer(t *testing.T) {
	hosts, failed, full := map[string]int{}, map[string]string{}, map[string]bool{}
	for i := range 40 {
		name := fmt.Sprintf("h%02d", i)
		hosts[name] = 1
		switch {
		case i < 30:
			failed[name] = "no huge pages"
		case i < 39:
			full[name] = true
		}
	}
	c := newCloud(t, hosts)
	for name := range full {
		c.placement.SetAllocation(resource.ConsumerID("other-"+name),
			resource.Allocation{"root-" + resource.ProviderID(name): {"VCPU": 64}})
	}
	for name, change := range map[string]func(*lifecycle.Server){
		"a server":           withoutDevices,
		"one that moves":     moved,
		"one with a device":  func(*lifecycle.Server) {},
		"one that is placed": func(s *lifecycle.Server) { withoutDevices(s); s.Round = 1 },
	} {
		for n := range 5 {
			s := server(fmt.Sprint("s", n)) // the order of equal hosts depends on it
			change(&s)
			s.FailedHosts = failed
			p := &limitedPlacement{Placement: c.client(nil)}
			p.limit.Store(20)
			p.reports.Store(true)
			event, err := New(c.store, p, Config{}).steps.schedule(t.Context(), s)
			chosen, is := event.(lifecycle.Chosen)
			if err != nil || !is || len(chosen.Choices) != 1 || chosen.Choices[0].Host != "h39" {
				t.Errorf("%s: %+v, %v", name, event, err)
			}
		}
	}
}
