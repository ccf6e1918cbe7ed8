package liveindex

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// poll updates the index as Run does.
func (w *world) poll() {
	w.t.Helper()
	if err := w.syncer.Poll(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// otherWriter is another process that writes to the same database.
type otherWriter struct {
	t         *testing.T
	store     *store.Store
	random    *rand.Rand
	providers []provider.ID
	consumers []resource.ConsumerID
}

// newOtherWriter returns an otherWriter with its own connections.
func newOtherWriter(t *testing.T, url string, seed uint64) *otherWriter {
	return &otherWriter{t: t, store: newWorldOn(t, url).store, random: rand.New(rand.NewPCG(7, seed))}
}

func pick[T any](s *otherWriter, list []T) T { return list[s.random.IntN(len(list))] }

// accept reports whether err is nil. It accepts errors that another process may get, such as a provider in use or a
// loop in a tree.
func (s *otherWriter) accept(err error) bool {
	s.t.Helper()
	if err != nil && !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.NotFound) {
		s.t.Fatal(err)
	}
	return err == nil
}

func (s *otherWriter) create(name string, parent provider.ID) {
	id := provider.ID(uuid.NewString())
	if _, _, err := s.store.CreateProvider(s.t.Context(), id, name, parent); s.accept(err) {
		s.providers = append(s.providers, id)
		_, err := s.store.ReplaceInventories(s.t.Context(), id, 0,
			map[resource.Class]resource.Inventory{"VCPU": resource.Whole(8), "DISK_GB": resource.Whole(50)})
		s.accept(err)
	}
}

func (s *otherWriter) claim() {
	id := resource.ConsumerID(uuid.NewString())
	held := resource.Allocation{}
	for range 1 + s.random.IntN(2) {
		held[pick(s, s.providers)] = resource.Amounts{"VCPU": 1 + s.random.IntN(2)}
	}
	if _, err := s.store.PutAllocations(s.t.Context(),
		store.Claim{Consumer: id, Allocation: held, Project: "p", User: "u"}); s.accept(err) {
		s.consumers = append(s.consumers, id)
	}
}

// writes returns all kinds of writes that change the index, by name.
func (s *otherWriter) writes() map[string]func() {
	ctx := s.t.Context()
	at := func(id provider.ID) store.Provider {
		p, err := s.store.Provider(ctx, id)
		s.accept(err)
		return p
	}
	return map[string]func(){
		"claim": s.claim,
		"delete allocations": func() {
			if len(s.consumers) > 0 {
				_, err := s.store.DeleteAllocations(ctx, pick(s, s.consumers))
				s.accept(err)
			}
		},
		"move a claim": func() {
			if len(s.consumers) > 0 {
				_, err := s.store.PutAllocations(ctx, store.Claim{Consumer: pick(s, s.consumers), Project: "p", User: "u",
					Allocation: resource.Allocation{pick(s, s.providers): {"DISK_GB": 1}}})
				s.accept(err)
			}
		},
		"create root":  func() { s.create(uuid.NewString(), "") },
		"create child": func() { s.create(uuid.NewString(), pick(s, s.providers)) },
		"delete":       func() { _, err := s.store.DeleteProvider(ctx, pick(s, s.providers)); s.accept(err) },
		"replace": func() { // a new provider with the same name and generation
			p := at(pick(s, s.providers))
			if _, err := s.store.DeleteProvider(ctx, p.ID); s.accept(err) {
				s.create(p.Name, p.Parent)
			}
		},
		"rename": func() {
			_, _, err := s.store.UpdateProvider(ctx, pick(s, s.providers), store.Update{Name: uuid.NewString()})
			s.accept(err)
		},
		"move": func() {
			p, under := at(pick(s, s.providers)), pick(s, append(slices.Clone(s.providers), ""))
			_, _, err := s.store.UpdateProvider(ctx, p.ID, store.Update{Name: p.Name, Move: true, Parent: under, Free: true})
			s.accept(err)
		},
		"inventory": func() {
			p := at(pick(s, s.providers))
			_, err := s.store.UpdateInventory(ctx, p.ID, p.Generation, "VCPU", resource.Whole(5+s.random.IntN(5)))
			s.accept(err)
		},
		"traits": func() {
			p := at(pick(s, s.providers))
			_, _, err := s.store.ReplaceTraits(ctx, p.ID, p.Generation,
				[]resource.Trait{pick(s, []resource.Trait{"HW_CPU_X86_VMX", "HW_CPU_X86_SVM"})})
			s.accept(err)
		},
		"aggregates": func() { // as before microversion 1.19, without raising a generation
			var all []resource.AggregateID
			for i := range 3 {
				if s.random.IntN(2) == 0 {
					all = append(all, resource.AggregateID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)))
				}
			}
			_, err := s.store.ReplaceAggregates(ctx, pick(s, s.providers), nil, all)
			s.accept(err)
		},
	}
}

func TestSyncer(t *testing.T) {
	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
		t.Run("writes", func(t *testing.T) { testPollFindsWrites(t, fresh) })
		t.Run("buckets", func(t *testing.T) { testPollFindsBuckets(t, fresh) })
		t.Run("names", func(t *testing.T) { testPollFindsNames(t, fresh) })
	})
}

// After any write of another process and one poll, the index equals the database. A poll after only this server's
// writes changes nothing.
func testPollFindsWrites(t *testing.T, fresh func(testing.TB) string) {
	for seed := range uint64(2) {
		url := fresh(t)
		s := newOtherWriter(t, url, seed)
		for i := range 5 {
			s.create(fmt.Sprint("before", i), "")
		}
		w := newWorldOn(t, url)
		_, err := s.store.DeleteProvider(t.Context(), s.providers[0]) // after the index was read, before the first poll
		s.accept(err)
		w.poll()
		w.compare()
		writes := s.writes()
		names := make([]string, 0, len(writes))
		for name := range writes {
			names = append(names, name)
		}
		slices.Sort(names)
		for round := range 30 {
			did := pick(s, names)
			if round < len(names) {
				did = names[round]
			}
			writes[did]()
			w.poll()
			if did == "rename" { // fingerprints do not include names: this may take sweepPolls polls
				for range sweepPolls {
					w.poll()
				}
			}
			if w.compare(); t.Failed() {
				t.Fatalf("seed %d, round %d: %s", seed, round, did)
			}
			if round%5 > 0 {
				continue
			}
			w.createHost(fmt.Sprint("own ", round))
			before := w.Snapshot()
			w.poll()
			w.poll()
			if w.Snapshot() != before {
				t.Fatalf("seed %d, round %d: a poll without other writes changed the index", seed, round)
			}
		}
	}
}

// With many buckets, a poll finds a changed bucket, a new one, and one whose providers have all been deleted.
func testPollFindsBuckets(t *testing.T, fresh func(testing.TB) string) {
	url := fresh(t)
	s := newOtherWriter(t, url, 1)
	for i := range 200 {
		s.create(fmt.Sprint("p", i), "")
	}
	w := newWorldOn(t, url)
	w.poll()
	if n := len(w.syncer.seen); n != 4 {
		t.Fatalf("%d buckets, want 4", n)
	}
	for _, id := range s.providers[60:130] { // one whole bucket, and parts of its neighbours
		_, err := s.store.DeleteProvider(t.Context(), id)
		s.accept(err)
	}
	s.claim()
	w.poll()
	w.compare()
	if n := len(w.syncer.seen); n != 3 {
		t.Errorf("%d buckets, want 3", n)
	}
	for i := range 70 {
		s.create(fmt.Sprint("q", i), "")
	}
	w.poll()
	w.compare()
}

// A renamed class has its new name in every tree, and a deleted class is refused.
func testPollFindsNames(t *testing.T, fresh func(testing.TB) string) {
	url, ctx := fresh(t), t.Context()
	w, other := newWorldOn(t, url), openStore(t, url)
	w.createHost("host")
	_, err := other.EnsureClass(ctx, "CUSTOM_GONE")
	must(t, err)
	_, _, err = other.EnsureTrait(ctx, "CUSTOM_GONE")
	must(t, err)
	check := func() error {
		return w.names.Check(ctx, []resource.Group{{Resources: resource.Amounts{"CUSTOM_GONE": 1}}},
			[]resource.Trait{"CUSTOM_GONE"})
	}
	must(t, check())
	w.poll()
	_, err = other.RenameClass(ctx, "CUSTOM_VF", "CUSTOM_OTHER")
	must(t, err)
	w.poll()
	w.compare()
	must(t, check())
	must(t, other.DeleteTrait(ctx, "CUSTOM_GONE"))
	w.poll()
	if err := check(); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "CUSTOM_GONE") {
		t.Error(err)
	}
}

// countedPrints is a store that counts how often fingerprints are read.
type countedPrints struct {
	Store
	read int
}

func (s *countedPrints) Fingerprints(ctx context.Context, whole bool) (store.Fingerprints, error) {
	s.read++
	return s.Store.Fingerprints(ctx, whole)
}

// On SQLite a poll knows that something was written, and the fingerprints of 270,000 providers take longer than all
// else. So it reads them once.
func TestPollReadsFingerprintsOnceOnSQLite(t *testing.T) {
	url := databases.SQLite(t)
	w, other := newWorldOn(t, url), newOtherWriter(t, url, 1)
	counted := &countedPrints{Store: w.syncer.store}
	w.syncer.store = counted
	w.poll()
	other.create("host", "")
	w.poll()
	_, _, err := other.store.EnsureTrait(t.Context(), "CUSTOM_RED") // the next poll finds no other provider
	must(t, err)
	w.poll()
	other.claim()
	counted.read = 0
	w.poll()
	if counted.read != 1 {
		t.Errorf("fingerprints were read %d times after a write", counted.read)
	}
	w.compare()
}
