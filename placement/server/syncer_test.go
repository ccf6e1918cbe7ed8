package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

func (w *world) look() {
	w.t.Helper()
	if err := w.server.syncer.poll(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// otherWriter is another process that writes to the same database.
type otherWriter struct {
	t         *testing.T
	store     *store.Store
	chance    *rand.Rand
	providers []provider.ID
	consumers []resource.ConsumerID
}

// newOtherWriter returns a otherWriter with its own connections.
func newOtherWriter(t *testing.T, url string, seed uint64) *otherWriter {
	return &otherWriter{t: t, store: newWorldOn(t, url).store, chance: rand.New(rand.NewPCG(7, seed))}
}

func pick[T any](s *otherWriter, list []T) T { return list[s.chance.IntN(len(list))] }

// fine accepts the errors that a otherWriter may get, such as a provider in use or a loop in a tree.
func (s *otherWriter) fine(err error) bool {
	s.t.Helper()
	if err != nil && !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.NotFound) {
		s.t.Fatal(err)
	}
	return err == nil
}

func (s *otherWriter) create(name string, parent provider.ID) {
	id := provider.ID(uuid.NewString())
	if _, _, err := s.store.CreateProvider(s.t.Context(), id, name, parent); s.fine(err) {
		s.providers = append(s.providers, id)
		_, err := s.store.ReplaceInventories(s.t.Context(), id, 0,
			map[resource.Class]resource.Inventory{"VCPU": resource.Whole(8), "DISK_GB": resource.Whole(50)})
		s.fine(err)
	}
}

func (s *otherWriter) claim() {
	id := resource.ConsumerID(uuid.NewString())
	held := resource.Allocation{}
	for range 1 + s.chance.IntN(2) {
		held[pick(s, s.providers)] = resource.Amounts{"VCPU": 1 + s.chance.IntN(2)}
	}
	if _, err := s.store.PutAllocations(s.t.Context(),
		store.Claim{Consumer: id, Allocation: held, Project: "p", User: "u"}); s.fine(err) {
		s.consumers = append(s.consumers, id)
	}
}

// verbs are all operations that change the index.
func (s *otherWriter) verbs() map[string]func() {
	ctx := s.t.Context()
	at := func(id provider.ID) store.Provider {
		p, err := s.store.Provider(ctx, id)
		s.fine(err)
		return p
	}
	return map[string]func(){
		"claim": s.claim,
		"let go": func() {
			if len(s.consumers) > 0 {
				_, err := s.store.DeleteAllocations(ctx, pick(s, s.consumers))
				s.fine(err)
			}
		},
		"move a claim": func() {
			if len(s.consumers) > 0 {
				_, err := s.store.PutAllocations(ctx, store.Claim{Consumer: pick(s, s.consumers), Project: "p", User: "u",
					Allocation: resource.Allocation{pick(s, s.providers): {"DISK_GB": 1}}})
				s.fine(err)
			}
		},
		"create root":  func() { s.create(uuid.NewString(), "") },
		"create child": func() { s.create(uuid.NewString(), pick(s, s.providers)) },
		"delete":       func() { _, err := s.store.DeleteProvider(ctx, pick(s, s.providers)); s.fine(err) },
		"replace": func() { // the same name again, at the same generation
			p := at(pick(s, s.providers))
			if _, err := s.store.DeleteProvider(ctx, p.ID); s.fine(err) {
				s.create(p.Name, p.Parent)
			}
		},
		"rename": func() {
			_, _, err := s.store.UpdateProvider(ctx, pick(s, s.providers), store.Update{Name: uuid.NewString()})
			s.fine(err)
		},
		"move": func() {
			p, under := at(pick(s, s.providers)), pick(s, append(slices.Clone(s.providers), ""))
			_, _, err := s.store.UpdateProvider(ctx, p.ID, store.Update{Name: p.Name, Move: true, Parent: under, Free: true})
			s.fine(err)
		},
		"inventory": func() {
			p := at(pick(s, s.providers))
			_, err := s.store.UpdateInventory(ctx, p.ID, p.Generation, "VCPU", resource.Whole(5+s.chance.IntN(5)))
			s.fine(err)
		},
		"traits": func() {
			p := at(pick(s, s.providers))
			_, _, err := s.store.ReplaceTraits(ctx, p.ID, p.Generation,
				[]resource.Trait{pick(s, []resource.Trait{"HW_CPU_X86_VMX", "HW_CPU_X86_SVM"})})
			s.fine(err)
		},
		"aggregates": func() { // as before microversion 1.19: no generation rises
			var all []resource.AggregateID
			for i := range 3 {
				if s.chance.IntN(2) == 0 {
					all = append(all, resource.AggregateID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)))
				}
			}
			_, err := s.store.ReplaceAggregates(ctx, pick(s, s.providers), nil, all)
			s.fine(err)
		},
	}
}

func TestSyncer(t *testing.T) {
	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
		t.Run("what others write", func(t *testing.T) { lookoutFinds(t, fresh) })
		t.Run("stretches", func(t *testing.T) { lookoutFindsTheStretch(t, fresh) })
		t.Run("names", func(t *testing.T) { lookoutFollowsNames(t, fresh) })
	})
}

// After any write of another process and one poll, the index equals the database. A poll after only this server's
// writes changes nothing.
func lookoutFinds(t *testing.T, fresh func(testing.TB) string) {
	for seed := range uint64(2) {
		url := fresh(t)
		s := newOtherWriter(t, url, seed)
		for i := range 5 {
			s.create(fmt.Sprint("before", i), "")
		}
		w := newWorldOn(t, url)
		_, err := s.store.DeleteProvider(t.Context(), s.providers[0]) // after the index was read, before the first look
		s.fine(err)
		w.look()
		same(t, w)
		verbs := s.verbs()
		names := make([]string, 0, len(verbs))
		for name := range verbs {
			names = append(names, name)
		}
		slices.Sort(names)
		for round := range 30 {
			did := pick(s, names)
			if round < len(names) {
				did = names[round]
			}
			verbs[did]()
			w.look()
			if did == "rename" { // a name alone may take a whole turn
				for range sweepPolls {
					w.look()
				}
			}
			if same(t, w); t.Failed() {
				t.Fatalf("seed %d, round %d: %s", seed, round, did)
			}
			if round%5 > 0 {
				continue
			}
			_, _ = grow(t, w.client(), fmt.Sprint("own ", round), 4, 4)
			before := w.server.index.current()
			w.look()
			w.look()
			if w.server.index.current() != before {
				t.Fatalf("seed %d, round %d: trees were read again that were right", seed, round)
			}
		}
	}
}

// With many buckets, a poll finds a changed bucket, a new one, and one whose providers have all been deleted.
func lookoutFindsTheStretch(t *testing.T, fresh func(testing.TB) string) {
	url := fresh(t)
	s := newOtherWriter(t, url, 1)
	for i := range 200 {
		s.create(fmt.Sprint("p", i), "")
	}
	w := newWorldOn(t, url)
	w.look()
	if n := len(w.server.syncer.seen); n != 4 {
		t.Fatalf("%d stretches, want 4", n)
	}
	for _, id := range s.providers[60:130] { // one stretch whole, and parts of its neighbours
		_, err := s.store.DeleteProvider(t.Context(), id)
		s.fine(err)
	}
	s.claim()
	w.look()
	same(t, w)
	if n := len(w.server.syncer.seen); n != 3 {
		t.Errorf("%d stretches, want 3", n)
	}
	for i := range 70 {
		s.create(fmt.Sprint("q", i), "")
	}
	w.look()
	same(t, w)
}

// A renamed class has its new name in every tree, and a deleted class is refused.
func lookoutFollowsNames(t *testing.T, fresh func(testing.TB) string) {
	url := fresh(t)
	w, other := newWorldOn(t, url), newWorldOn(t, url)
	grow(t, w.client(), "host", 4, 4)
	other.want(http.StatusCreated, "PUT", "/resource_classes/CUSTOM_GONE", "")
	other.want(http.StatusCreated, "PUT", "/traits/CUSTOM_GONE", "")
	const ask = "/allocation_candidates?resources=CUSTOM_GONE:1&required=CUSTOM_GONE"
	w.want(http.StatusOK, "GET", ask, "")
	w.look()
	if response := other.ask("1.2", "PUT", "/resource_classes/CUSTOM_VF",
		`{"name":"CUSTOM_OTHER"}`); response.StatusCode != http.StatusOK {
		t.Fatal(response.Status)
	}
	w.look()
	same(t, w)
	w.want(http.StatusOK, "GET", ask, "")
	other.want(http.StatusNoContent, "DELETE", "/traits/CUSTOM_GONE", "")
	w.look()
	if body := w.want(http.StatusBadRequest, "GET", ask, ""); !strings.Contains(body, "CUSTOM_GONE") {
		t.Error(body)
	}
}

// Run polls, records the age of the index, and continues when the database answers again.
func TestRunUpdatesTheIndex(t *testing.T) {
	server := databases.MariaDB(t)
	url := server.Database(t)
	const interval = 50 * time.Millisecond
	w := newWorldOn(t, url, func(o *Options) { o.RefreshInterval = interval })
	s := newOtherWriter(t, url, 1)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.server.Run(ctx) }()
	defer func() { stop(); <-ended }()
	sees := func() {
		t.Helper()
		name := uuid.NewString()
		s.create(name, "")
		id := s.providers[len(s.providers)-1]
		for last := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			if row, ok := w.server.index.current().Row(id); ok && row.Generation == 1 {
				return
			}
			if time.Now().After(last) {
				t.Fatal("the index does not see what a otherWriter wrote")
			}
		}
	}
	sees()
	server.Kill(t)
	for last := time.Now().Add(30 * time.Second); w.server.indexState().Age < 10*interval; time.Sleep(interval) {
		if time.Now().After(last) {
			t.Fatal("the index does not grow older while the database is down")
		}
	}
	server.Restart(t)
	sees()
	for last := time.Now().Add(30 * time.Second); w.server.indexState().Age > 5*time.Second; time.Sleep(interval) {
		if time.Now().After(last) {
			t.Fatal("the index does not grow young again")
		}
	}
}

// TestUnknownOutcomeIsReported checks a write whose outcome cannot be determined, because another client changed the
// data first: the answer is 503 with a text and a code.
func TestUnknownOutcomeIsReported(t *testing.T) {
	server := databases.MariaDB(t)
	url, proxy := server.Database(t), databases.NewProxy(t, server.Addr)
	w, other := newWorldOn(t, proxy.URL(url)), newWorldOn(t, url)
	host, _ := grow(t, w.client(), "host", 4, 4)
	path, watch := "/resource_providers/"+string(host), w.server.store.Watch
	w.server.store.Watch = func(r store.Run) {
		watch(r)
		if fault.CodeOf(r.Err) == store.CodeUnknownOutcome {
			other.want(http.StatusOK, "PUT", path, `{"name":"other"}`)
		}
	}
	proxy.Break(databases.Cut{Word: "\x03COMMIT"})
	body := w.want(http.StatusServiceUnavailable, "PUT", path, `{"name":"new"}`)
	if !strings.Contains(body, "unknown whether the request took effect") ||
		!strings.Contains(body, store.CodeUnknownOutcome) {
		t.Error(body)
	}
	w.want(http.StatusOK, "PUT", path, `{"name":"new"}`)
}
