package heal

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

type doc = map[string]any

// store is a fake Placement with allocations of consumers and inventories of providers, with their generations.
type store struct {
	mu        sync.Mutex
	consumers map[string]doc
	providers map[string]doc
	lose      bool // the next change is made, and its answer is lost
}

func newStore(t *testing.T) (*store, *placement.Client) {
	s := &store{consumers: map[string]doc{}, providers: map[string]doc{}}
	server := httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(server.Close)
	return s, placement.NewClient(server.URL, nil, "t")
}

func (s *store) answer(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var body doc
	json.NewDecoder(r.Body).Decode(&body) // a request without a body leaves it nil
	status, answer := s.act(r, body)
	if r.Method != http.MethodGet && s.lose {
		s.lose, status = false, http.StatusServiceUnavailable
	}
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(answer) // the client may be gone
}

// act performs a request.
func (s *store) act(r *http.Request, body doc) (int, doc) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "allocations" {
		return s.allocations(r, parts[1], body)
	}
	if len(parts) == 1 && r.Method == http.MethodPost {
		id := body["uuid"].(string)
		s.providers[id] = doc{"name": body["name"], "parent": body["parent_provider_uuid"], "generation": 0.0}
		return 200, doc{"uuid": id, "name": body["name"], "generation": 0}
	}
	if len(parts) == 1 {
		list := []any{}
		for id, p := range s.providers {
			list = append(list, doc{"uuid": id, "name": p["name"], "generation": p["generation"], "root_provider_uuid": id})
		}
		return 200, doc{"resource_providers": list}
	}
	p := s.providers[parts[1]]
	switch {
	case p == nil:
		return 404, doc{}
	case len(parts) == 2:
		delete(s.providers, parts[1])
		return 204, nil
	case r.Method == http.MethodPut:
		if body["resource_provider_generation"] != p["generation"] {
			return 409, doc{"errors": []any{doc{"code": "placement.concurrent_update"}}}
		}
		p[parts[2]], p["generation"] = body[parts[2]], p["generation"].(float64)+1
	}
	return 200, doc{parts[2]: p[parts[2]], "resource_provider_generation": p["generation"]}
}

// allocations answers the requests for the allocations of a consumer.
func (s *store) allocations(r *http.Request, consumer string, body doc) (int, doc) {
	now := s.consumers[consumer]
	if r.Method == http.MethodGet {
		if now == nil {
			return 200, doc{"allocations": doc{}}
		}
		return 200, now
	}
	var generation any
	if now != nil {
		generation = now["consumer_generation"]
	}
	if body["consumer_generation"] != generation {
		return 409, doc{"errors": []any{doc{"code": "placement.concurrent_update"}}}
	}
	if delete(s.consumers, consumer); len(body["allocations"].(doc)) > 0 {
		next := 1.0
		if generation != nil {
			next = generation.(float64) + 1
		}
		body["consumer_generation"] = next
		s.consumers[consumer] = body
	}
	return 204, nil
}

// allocation returns the allocation of CPUs of one provider.
func allocation(n int) resource.Allocation { return resource.Allocation{"rp": {"VCPU": n}} }

// orphan returns a change that removes a consumer.
func orphan(generation int) fleet.Change {
	return fleet.Change{Allocation: &fleet.AllocationChange{Consumer: "c", Generation: &generation, Project: "p",
		User: "u", Type: "INSTANCE", Before: allocation(2), After: resource.Allocation{}}}
}

// put gives the consumer CPUs.
func (s *store) put(n int, generation float64) {
	s.consumers["c"] = doc{"allocations": doc{"rp": doc{"resources": doc{"VCPU": n}}}, "consumer_generation": generation,
		"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}
}

// A change is made and undone, also if its answer is lost or if it is repeated.
func TestAllocationsAreHealedAndUndone(t *testing.T) {
	for _, lose := range []bool{false, true} {
		s, client := newStore(t)
		s.put(2, 7)
		s.lose = lose
		plan := []fleet.Change{orphan(7)}
		for range 2 { // the second time it is done already
			if got := Apply(t.Context(), client, plan); !got[0].Done || s.consumers["c"] != nil {
				t.Fatalf("%+v %v", got, s.consumers)
			}
		}
		for range 2 {
			if got := Undo(t.Context(), client, plan); !got[0].Done {
				t.Fatalf("%+v", got)
			}
		}
		held, err := client.Allocation(t.Context(), "c")
		if err != nil || !held.Allocation.Equal(allocation(2)) || held.Project != "p" || held.User != "u" {
			t.Errorf("%v %+v", err, held)
		}
	}
}

// What was changed since it was read stays, and so does what was changed since it was healed.
func TestChangedSince(t *testing.T) {
	s, client := newStore(t)
	for what, change := range map[string]func(){"amounts": func() { s.put(3, 8) }, "generation": func() { s.put(2, 8) },
		"missing": func() { delete(s.consumers, "c") }} {
		change()
		before := s.consumers["c"]
		got := Apply(t.Context(), client, []fleet.Change{orphan(7)})
		if what == "missing" { // that is what the change is to reach
			if !got[0].Done {
				t.Errorf("%+v", got)
			}
		} else if got[0].Done || got[0].Why == "" ||
			s.consumers["c"]["consumer_generation"] != before["consumer_generation"] {
			t.Errorf("%s: %+v", what, got)
		}
	}
	s.put(5, 1)
	if got := Undo(t.Context(), client, []fleet.Change{orphan(7)}); got[0].Done {
		t.Errorf("another allocation is overwritten: %+v", got)
	}
}

// A provider is deleted with its generation only, and an undo creates it with all that it had.
func TestProvidersAreDeletedAndCreatedAgain(t *testing.T) {
	s, client := newStore(t)
	s.providers["rp"] = doc{"name": "cmp1", "generation": 4.0, "inventories": doc{"VCPU": doc{"total": 8, "max_unit": 8,
		"min_unit": 1, "step_size": 1, "allocation_ratio": 2.0}}, "traits": []any{"CUSTOM_A"}, "aggregates": []any{"agg"}}
	plan := []fleet.Change{{Provider: &fleet.ProviderChange{Delete: true, Provider: provider.Provider{ID: "rp",
		Name: "cmp1", Root: "rp", Generation: 3}}}}
	if err := Complete(t.Context(), client, plan); err == nil {
		t.Error("a provider that has changed is accepted")
	}
	plan[0].Provider.Provider.Generation = 4
	if err := Complete(t.Context(), client, plan); err != nil || len(plan[0].Provider.Provider.Traits) != 1 {
		t.Fatalf("%v %+v", err, plan[0].Provider)
	}
	text, err := json.Marshal(plan) // as the undo file has it
	if err != nil {
		t.Fatal(err)
	}
	if got := Apply(t.Context(), client, plan); !got[0].Done || len(s.providers) != 0 {
		t.Fatalf("%+v", got)
	}
	var read []fleet.Change
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	for _, kept := range []string{"", "", "inventories", "traits"} { // the last part that an interrupted undo has made
		if kept != "" {
			delete(s.providers["rp"], "aggregates")
		}
		if kept == "inventories" {
			delete(s.providers["rp"], "traits")
		}
		if got := Undo(t.Context(), client, read); !got[0].Done {
			t.Fatalf("%+v", got)
		}
	}
	tree, err := client.Tree(t.Context(), "rp")
	if err != nil {
		t.Fatal(err)
	}
	p := tree.Providers[0]
	if p.Name != "cmp1" || p.Inventories["VCPU"].AllocationRatio != 2 || len(p.Traits) != 1 || len(p.Aggregates) != 1 {
		t.Errorf("%+v", p)
	}
	s.providers["rp"]["traits"] = []any{"CUSTOM_B"}
	if got := Undo(t.Context(), client, read); got[0].Done || !strings.Contains(got[0].Why, "has other inventories") {
		t.Errorf("what others have changed is overwritten: %+v", got)
	}
}

// Inventories are emptied with the generation that was read, and restored only if the provider has none.
func TestInventoriesAreEmptied(t *testing.T) {
	s, client := newStore(t)
	had := doc{"VCPU": doc{"total": 8.0, "max_unit": 8.0, "min_unit": 1.0, "step_size": 1.0, "reserved": 0.0,
		"allocation_ratio": 1.0}}
	s.providers["rp"] = doc{"name": "cmp1", "generation": 4.0, "inventories": had, "traits": []any{},
		"aggregates": []any{}}
	plan := []fleet.Change{{Provider: &fleet.ProviderChange{Provider: provider.Provider{ID: "rp", Name: "cmp1",
		Generation: 4}}}}
	if err := Complete(t.Context(), client, plan); err != nil {
		t.Fatal(err)
	}
	if got := Apply(t.Context(), client, plan); !got[0].Done || len(s.providers["rp"]["inventories"].(doc)) != 0 {
		t.Fatalf("%+v %v", got, s.providers)
	}
	if got := Apply(t.Context(), client, plan); got[0].Done {
		t.Errorf("an old generation is accepted: %+v", got)
	}
	if got := Undo(t.Context(), client, plan); !got[0].Done || len(s.providers["rp"]["inventories"].(doc)) != 1 {
		t.Errorf("%+v %v", got, s.providers)
	}
}

// A service that does not answer yields a reason for each change, and no change.
func TestUnreachable(t *testing.T) {
	client := placement.NewClient("http://127.0.0.1:1", nil, "t")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := Apply(ctx, client, []fleet.Change{orphan(7)}); len(got) != 1 || got[0].Done || got[0].Why == "" {
		t.Errorf("%+v", got)
	}
	if got := Undo(ctx, client, []fleet.Change{orphan(7)}); len(got) != 1 || got[0].Done || got[0].Why == "" {
		t.Errorf("%+v", got)
	}
}
