package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/identity"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/liveindex"
	"github.com/openberth/berth/placement/liveindex/indextest"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// createHost creates a host with VCPU and a child provider with VFs.
func createHost(t *testing.T, c *api.Client, name string, vcpu, vfs int) (host, nic provider.ID) {
	t.Helper()
	host, nic = provider.ID(uuid.NewString()), provider.ID(uuid.NewString())
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(c.EnsureClass(t.Context(), "CUSTOM_VF"))
	_, err := c.CreateProvider(t.Context(), host, name, "")
	check(err)
	_, err = c.CreateProvider(t.Context(), nic, name+"_nic", host)
	check(err)
	_, err = c.PutInventories(t.Context(), host, 0, map[resource.Class]resource.Inventory{"VCPU": resource.Whole(vcpu)})
	check(err)
	_,
		err = c.PutInventories(t.Context(), nic, 0,
		map[resource.Class]resource.Inventory{"CUSTOM_VF": resource.Whole(vfs)})
	check(err)
	return host, nic
}

// compareIndex compares the whole index with the database.
func compareIndex(t *testing.T, w *world) {
	t.Helper()
	indextest.Compare(t, w.server.service.Index.Snapshot(), w.store)
}

// 32 clients concurrently claim one of ten units each: ten claims are granted, the others are refused.
func TestConcurrentClaimsDoNotExceedTheInventory(t *testing.T) {
	w := newWorld(t)
	host, nic := createHost(t, w.client(), "host", 4, 10)
	var granted, refused atomic.Int32
	var all sync.WaitGroup
	start := make(chan struct{})
	for range 32 {
		all.Go(func() {
			<-start
			held := api.ConsumerAllocation{Allocation: resource.Allocation{nic: {"CUSTOM_VF": 1}}, Project: "p",
				User:         "u",
				ConsumerType: "INSTANCE"}
			id := resource.ConsumerID(uuid.NewString())
			for range 100 {
				err := w.client().PutAllocation(t.Context(), id, held)
				switch {
				case err == nil:
					granted.Add(1)
				case fault.Is(err, fault.Conflict) && fault.CodeOf(err) == api.CodeConcurrentUpdate:
					continue // too many concurrent claims: retry
				case fault.Is(err, fault.Conflict) && fault.CodeOf(err) == api.CodeUndefined:
					refused.Add(1)
				default:
					t.Error(err)
				}
				return
			}
			t.Error("no answer after 100 attempts")
		})
	}
	close(start)
	all.Wait()
	if granted.Load() != 10 || refused.Load() != 22 {
		t.Errorf("%d claims granted and %d refused, want 10 and 22", granted.Load(), refused.Load())
	}
	used, err := w.client().Usages(t.Context(), nic)
	if err != nil || used["CUSTOM_VF"] != 10 {
		t.Errorf("usage %v %v", used, err)
	}
	found, err := w.client().Candidates(t.Context(),
		resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"CUSTOM_VF": 1}, InTree: host}}})
	if err != nil || len(found.List) != 0 {
		t.Errorf("candidates without capacity: %+v %v", found, err)
	}
	compareIndex(t, w)
}

// Many clients make random writes. Each client finds its writes in the index after the answer. At the end the index
// equals the database.
func TestWritersReadTheirWrites(t *testing.T) {
	w := newWorld(t)
	const hosts, clients, rounds = 3, 6, 12
	nics := make([]provider.ID, hosts)
	for i := range nics {
		_, nics[i] = createHost(t, w.client(), fmt.Sprint("host", i), 4, 40)
	}
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() { writeAtRandom(t, w, rand.New(rand.NewPCG(1, uint64(n))), nics, rounds) })
	}
	all.Wait()
	compareIndex(t, w)
}

// writeAtRandom claims and deletes allocations, and creates and deletes its own providers.
func writeAtRandom(t *testing.T, w *world, chance *rand.Rand, nics []provider.ID, rounds int) {
	c := w.client()
	for range rounds {
		id, nic := resource.ConsumerID(uuid.NewString()), nics[chance.IntN(len(nics))]
		held := api.ConsumerAllocation{Allocation: resource.Allocation{nic: {"CUSTOM_VF": 1 + chance.IntN(2)}},
			Project:      "p",
			User:         "u",
			ConsumerType: "INSTANCE"}
		for err := c.PutAllocation(t.Context(), id, held); err != nil; err = c.PutAllocation(t.Context(), id, held) {
			if fault.CodeOf(err) != api.CodeConcurrentUpdate {
				t.Error(err)
				return
			}
		}
		if row,
			_ := w.server.service.Index.Snapshot().Row(nic); row.Used["CUSTOM_VF"] < held.Allocation[nic]["CUSTOM_VF"] {
			t.Errorf("the index does not have the claim: %+v", row)
		}
		if chance.IntN(2) == 0 {
			if err := c.DeleteAllocation(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		own := provider.ID(uuid.NewString())
		if _, err := c.CreateProvider(t.Context(), own, string(own), nic); err != nil {
			t.Error(err)
			return
		}
		if _, ok := w.server.service.Index.Snapshot().Row(own); !ok {
			t.Error("the index does not have the created provider")
		}
		if chance.IntN(2) == 0 {
			fill(t, w, own)
		}
		if err := c.DeleteProvider(t.Context(), own); err != nil {
			t.Error(err)
		}
		if _, ok := w.server.service.Index.Snapshot().Row(own); ok {
			t.Error("the index has the deleted provider")
		}
	}
}

// fill sets the inventory and the traits of a new provider, and checks them in the index.
func fill(t *testing.T, w *world, id provider.ID) {
	c := w.client()
	g,
		err := c.PutInventories(t.Context(), id, 0,
		map[resource.Class]resource.Inventory{"CUSTOM_VF": resource.Whole(3)})
	if err == nil {
		_, err = c.PutTraits(t.Context(), id, g, []resource.Trait{"HW_CPU_X86_AVX"})
	}
	row, _ := w.server.service.Index.Snapshot().Row(id)
	if err != nil || row.Inventories["CUSTOM_VF"].Total != 3 || !row.HasTrait("HW_CPU_X86_AVX") || row.Generation != 2 {
		t.Errorf("the index does not have the inventory and the traits: %+v %v", row, err)
	}
}

// Another process writes to the database. A refused claim refreshes its trees, and Reload refreshes the whole index.
func TestRefusedClaimRefreshesTheIndex(t *testing.T) {
	w := newWorld(t)
	_, nic := createHost(t, w.client(), "host", 4, 1)
	_, other := createHost(t, w.client(), "other", 4, 1)
	otherServer, err := New(t.Context(), w.store, Options{Options: edge.Options{Authenticate: identity.NoAuth2,
		Log: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	claim := func(on provider.ID) string {
		return fmt.Sprintf(`{"allocations":{%q:{"resources":{"CUSTOM_VF":1}}},"project_id":"p","user_id":"u",`+
			`"consumer_generation":null,"consumer_type":"X"}`, on)
	}
	others := &world{t: t, server: otherServer, store: w.store}
	others.want(http.StatusNoContent, "PUT", "/allocations/"+uuid.NewString(), claim(nic))
	others.want(http.StatusNoContent, "PUT", "/allocations/"+uuid.NewString(), claim(other))
	count := func() int {
		var found api.CandidatesDoc
		if err := json.Unmarshal([]byte(w.want(http.StatusOK, "GET", "/allocation_candidates?resources=CUSTOM_VF:1",
			"")),
			&found); err != nil {
			t.Fatal(err)
		}
		return len(found.Requests)
	}
	if n := count(); n != 2 {
		t.Fatalf("%d candidates, want 2 stale ones", n)
	}
	w.want(http.StatusConflict, "PUT", "/allocations/"+uuid.NewString(), claim(nic))
	if n := count(); n != 1 {
		t.Errorf("%d candidates after the refusal, want 1", n)
	}
	if err := w.server.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 0 {
		t.Errorf("%d candidates after Reload, want 0", n)
	}
	compareIndex(t, w)
}

// failingStore is a store from which no trees can be read while it fails.
type failingStore struct {
	liveindex.Store
	fails bool
}

func (s *failingStore) TreeRows(ctx context.Context, roots ...provider.ID) ([]store.Row, error) {
	if s.fails {
		return nil, fault.New(fault.Unavailable, "the database does not answer")
	}
	return s.Store.TreeRows(ctx, roots...)
}

// A query repeats a failed refresh before it is answered.
func TestQueryRepeatsAFailedRefresh(t *testing.T) {
	w := newWorld(t)
	from := &failingStore{Store: w.store}
	w.server.service.Index = liveindex.New(from)
	host, _ := createHost(t, w.client(), "host", 4, 1)
	from.fails = true
	w.want(http.StatusOK, "PUT", "/resource_providers/"+string(host)+"/aggregates",
		`{"aggregates": ["00000000-0000-4000-8000-000000000000"], "resource_provider_generation": 1}`)
	if w.server.indexState().Lag == 0 {
		t.Error("the refresh did not fail")
	}
	w.want(http.StatusServiceUnavailable, "GET", "/allocation_candidates?resources=VCPU:1", "")
	w.want(http.StatusServiceUnavailable, "GET", "/resource_providers?resources=VCPU:1", "")
	from.fails = false
	w.want(http.StatusOK, "GET", "/allocation_candidates?resources=VCPU:1", "")
	if lag := w.server.indexState().Lag; lag != 0 {
		t.Errorf("lag %s after the query", lag)
	}
	compareIndex(t, w)
}

// A write is in the database before its writer is answered. Until the end of COMMIT has reached the index, another
// client can read the write from the database and then get candidates of the state before. After the answer to the
// writer it cannot. docs/moving-placement-to-berth.md says so.
func TestCandidatesFollowTheCommitBeforeTheAnswer(t *testing.T) {
	w := newWorld(t)
	host, _ := createHost(t, w.client(), "host", 4, 1)
	consumer, watch := "/allocations/"+uuid.NewString(), w.store.Watch
	candidates := func() int {
		var found struct {
			Requests []any `json:"allocation_requests"`
		}
		text := w.want(http.StatusOK, "GET", "/allocation_candidates?resources=VCPU:4", "")
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			t.Error(err)
		}
		return len(found.Requests)
	}
	inDatabase, inIndex := "", -1
	w.store.Watch = func(r store.Run) { // after COMMIT, and before the writer's goroutine can do anything with it
		watch(r)
		if r.Op == "PutAllocations" {
			w.store.Watch = watch
			inDatabase, inIndex = w.want(http.StatusOK, "GET", consumer, ""), candidates()
		}
	}
	w.want(http.StatusNoContent, "PUT", consumer, fmt.Sprintf(`{"allocations": {%q: {"resources": {"VCPU": 1}}}, `+
		`"project_id": "p", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE"}`, host))
	if !strings.Contains(inDatabase, string(host)) || inIndex != 1 {
		t.Errorf("after COMMIT: allocations %s, %d candidates", inDatabase, inIndex)
	}
	if n := candidates(); n != 0 {
		t.Errorf("%d candidates after the answer", n)
	}
}
