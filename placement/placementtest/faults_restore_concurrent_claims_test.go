package placementtest

import (
	"errors"
	"sync"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// oneHost returns a service with one provider of four VCPU.
func oneHost() *Placement {
	p := New(nil)
	p.SetProvider(provider.Provider{ID: "h", Name: "host",
		Inventories: map[resource.Class]resource.Inventory{"VCPU": resource.Whole(4)}})
	return p
}

func vcpus(n int) placement.ConsumerAllocation {
	return placement.ConsumerAllocation{Allocation: resource.Allocation{"h": {"VCPU": n}}, Project: "p", User: "u",
		ConsumerType: "INSTANCE"}
}

// An injected fault before a call keeps it from having an effect; one after it only hides the answer.
func TestFaultsBeforeAndAfterACall(t *testing.T) {
	p, lost := oneHost(), errors.New("lost")
	for after, held := range map[bool]int{false: 0, true: 1} {
		c := p.Client(func(call Call) (error, error) {
			switch {
			case !call.Writes():
				return nil, nil
			case after:
				return nil, lost
			}
			return lost, nil
		})
		if err := c.PutAllocation(t.Context(), "c", vcpus(1)); !errors.Is(err, lost) {
			t.Errorf("after %v: %v", after, err)
		}
		if got := p.Held("c")["h"]["VCPU"]; got != held {
			t.Errorf("after %v: the consumer has %d", after, got)
		}
		if err := p.DeleteAllocation(t.Context(), "c"); err != nil {
			t.Error(err)
		}
	}
}

// A restored service has the content of its copy, and candidates that fit it; the copy does not change afterwards.
func TestRestore(t *testing.T) {
	p := oneHost()
	ask := resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 4}}}}
	candidates := func(want int) {
		t.Helper()
		if got, err := p.Candidates(t.Context(), ask); err != nil || len(got.List) != want {
			t.Errorf("%d candidates, want %d: %v", len(got.List), want, err)
		}
	}
	saved := p.Clone()
	if err := p.PutAllocation(t.Context(), "c", vcpus(3)); err != nil {
		t.Fatal(err)
	}
	candidates(0)
	for range 2 {
		p.Restore(saved)
		candidates(1)
		if now, _ := p.Provider("h"); len(p.Consumers()) != 0 || now.Generation != 0 {
			t.Errorf("%v, %+v", p.Consumers(), now)
		}
		if err := p.PutAllocation(t.Context(), "d", vcpus(1)); err != nil {
			t.Fatal(err)
		}
	}
}

// Concurrent claims never get more than there is.
func TestConcurrentClaims(t *testing.T) {
	p := oneHost()
	var all sync.WaitGroup
	for _, id := range []resource.ConsumerID{"a", "b", "c", "d", "e", "f", "g", "h"} {
		all.Go(func() { _ = p.PutAllocation(t.Context(), id, vcpus(1)) })
	}
	all.Wait()
	if used := p.Used("h")["VCPU"]; used != 4 || len(p.Consumers()) != 4 {
		t.Errorf("%d VCPU are used by %v", used, p.Consumers())
	}
}
