package stress

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// TestViolations tests that violations finds each kind of error.
func TestViolations(t *testing.T) {
	w := world{"p": provider.Provider{ID: "p", Name: "p", Inventories: map[resource.Class]resource.Inventory{
		vf: resource.Whole(4)}}}
	for _, c := range []struct {
		name       string
		used, held int
		want       string
	}{
		{"no error", 4, 4, ""},
		{"over its capacity", 5, 5, "it has 4"},
		{"an allocation that is not counted", 1, 2, "add up to 2"},
		{"a usage without allocation", 2, 0, "add up to 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(w.violations(usage{used: map[provider.ID]resource.Amounts{"p": {vf: c.used}},
				held: map[resource.ConsumerID]resource.Allocation{"c": {"p": {vf: c.held}}}}), "; ")
			if got == "" != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, wanted %q", got, c.want)
			}
		})
	}
}

// TestExpected tests which claims must and may exist, from the outcomes that their clients recorded.
func TestExpected(t *testing.T) {
	for _, c := range []struct {
		put, release outcome
		must, may    bool
	}{
		{yes, nothing, true, true},
		{yes, unclear, false, true},
		{yes, yes, false, false},
		{yes, no, false, false}, // an earlier release was unclear: it was executed
		{no, nothing, false, false},
		{unclear, nothing, false, true},
		{unclear, unclear, false, true},
		{unclear, yes, false, false},
		{unclear, no, false, true}, // the claim may have been executed later
	} {
		if must, may := (&claim{put: c.put, release: c.release}).expected(); must != c.must || may != c.may {
			t.Errorf("put %d, release %d: must %v, may %v", c.put, c.release, must, may)
		}
	}
}

// check compares the server's allocations with those that the clients recorded.
func check(t *testing.T, api *placement.Client, w world, claims []*claim) {
	t.Helper()
	p, err := w.read(t.Context(), api)
	if err != nil {
		t.Fatal(err)
	}
	wrong, uncertain := w.violations(p), 0
	for _, c := range claims {
		held, there := p.held[c.consumer]
		delete(p.held, c.consumer)
		switch must, may := c.expected(); {
		case there && !may:
			wrong = append(wrong, fmt.Sprintf("%s exists, but must not: %+v", c.consumer, *c))
		case !there && must:
			wrong = append(wrong, fmt.Sprintf("%s was acknowledged, but does not exist: %+v", c.consumer, *c))
		case there && !held.Equal(c.requested):
			wrong = append(wrong, fmt.Sprintf("%s holds %v, not %v: %+v", c.consumer, held, c.requested, *c))
		case must != may:
			uncertain++
		}
		if there || c.put == unclear {
			if err := same(t.Context(), api, c, held, there); err != nil {
				wrong = append(wrong, err.Error())
			}
		}
	}
	for consumer, held := range p.held {
		wrong = append(wrong, fmt.Sprintf("%s holds %v, but was never claimed", consumer, held))
	}
	for _, sentence := range wrong[:min(len(wrong), 20)] {
		t.Error(sentence)
	}
	t.Logf("%d claims checked, %d of them unclear; %d errors", len(claims), uncertain, len(wrong))
}

// expected reports whether the claim must exist, and whether it may.
func (c *claim) expected() (must, may bool) {
	granted := c.put == yes
	switch c.release {
	case nothing:
		return granted, c.put != no
	case unclear:
		return false, true
	case no: // a claim without response may have been granted after that
		return false, c.put == unclear
	}
	return false, false // released
}

// same compares the allocation of a consumer with that of its providers.
func same(ctx context.Context, api *placement.Client, c *claim, held resource.Allocation, there bool) error {
	got, err := api.Allocation(ctx, c.consumer)
	switch {
	case err != nil:
		return err
	case !got.Allocation.Equal(held):
		return fmt.Errorf("%s holds %v, its providers have %v", c.consumer, got.Allocation, held)
	case there && (got.Project != project || got.User != "stress" || got.ConsumerType != "INSTANCE" ||
		got.Generation == nil):
		return fmt.Errorf("%s is incomplete: %+v", c.consumer, got)
	}
	return nil
}

// releaseAll releases all claims. Then nothing is allocated, every host is a candidate again, and a consumer whose
// claim failed can claim with generation null.
func releaseAll(t *testing.T, api *placement.Client, w world, claims []*claim) {
	t.Helper()
	ctx := t.Context()
	failed := 0
	for _, c := range claims {
		if _, may := c.expected(); may {
			if err := api.DeleteAllocation(ctx, c.consumer); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range claims {
		if c.put == yes || failed == 40 {
			continue
		}
		failed++
		err := errors.Join(api.PutAllocation(ctx, c.consumer, placement.ConsumerAllocation{Allocation: c.requested,
			Project: project,
			User:    "stress", ConsumerType: "INSTANCE"}),
			api.DeleteAllocation(ctx, c.consumer))
		if err != nil {
			t.Errorf("%s does not exist, but cannot claim: %v", c.consumer, err)
		}
	}
	p, err := w.read(ctx, api)
	if err != nil {
		t.Fatal(err)
	}
	if wrong := w.violations(p); len(wrong) > 0 || len(p.held) > 0 {
		t.Errorf("after everything was released: %v, and %v is held", wrong, p.held)
	}
	found, err := api.Candidates(ctx, resource.Ask{Groups: []resource.Group{{Resources: ofHost}}})
	if err != nil || len(found.List) != hosts {
		t.Errorf("%d of %d empty hosts are candidates: %v", len(found.List), hosts, err)
	}
}

// violations returns the errors in the usage: exceeded capacities and wrong sums.
func (w world) violations(p usage) (wrong []string) {
	sums := map[provider.ID]resource.Amounts{}
	for _, allocation := range p.held {
		for id, amounts := range allocation {
			if sums[id] == nil {
				sums[id] = resource.Amounts{}
			}
			for class, n := range amounts {
				sums[id][class] += n
			}
		}
	}
	for id, provider := range w {
		if len(p.used[id]) != len(provider.Inventories) {
			wrong = append(wrong, fmt.Sprintf("%s: usages %v, inventories %v", provider.Name, p.used[id],
				provider.Inventories))
		}
		for class, inventory := range provider.Inventories {
			used := p.used[id][class]
			if used > inventory.Capacity() {
				wrong = append(wrong, fmt.Sprintf("%s: %d of %s are used, it has %d", provider.Name, used, class,
					inventory.Capacity()))
			}
			if sum := sums[id][class]; sum != used {
				wrong = append(wrong, fmt.Sprintf("%s: %d of %s are used, the allocations add up to %d", provider.Name, used,
					class, sum))
			}
		}
	}
	return wrong
}

// checkCandidates compares the usage in candidates with that of the database.
func (w world) checkCandidates(ctx context.Context, api *placement.Client) error {
	p, err := w.read(ctx, api)
	if err != nil {
		return err
	}
	found, err := api.Candidates(ctx, resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 1}}}})
	if err != nil {
		return err
	}
	for id, provider := range w {
		summary, ok := found.Summaries[id]
		root := provider.Root
		if full := p.used[root]["VCPU"] >= ofHost["VCPU"]; full == ok {
			return fmt.Errorf("%s: %v are used on its host, candidate: %v", provider.Name, p.used[root], ok)
		}
		for class, has := range summary.Resources {
			if has.Used != p.used[id][class] {
				return fmt.Errorf("%s: %d of %s are used, the candidates have %d", provider.Name, p.used[id][class], class,
					has.Used)
			}
		}
	}
	return nil
}
