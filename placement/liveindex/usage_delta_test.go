package liveindex

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// claimant writes allocations through a store; with an index it applies each write to it, as the service does.
type claimant struct {
	*store.Store
	index  *Index // nil: another process
	random *rand.Rand
	on     []provider.ID // providers with 4 or more of VCPU or CUSTOM_VF
	class  map[provider.ID]resource.Class
	held   []resource.ConsumerID
}

// write writes once: a claim, a claim that replaces another one, or a removal.
func (c *claimant) write(ctx context.Context) error {
	var reads uint64
	if c.index != nil {
		reads = c.index.Reads()
	}
	var change store.Change
	var err error
	switch n := c.random.IntN(10); {
	case n < 5 || len(c.held) == 0:
		c.held = append(c.held, resource.ConsumerID(uuid.NewString()))
		change, err = c.claim(ctx, c.held[len(c.held)-1])
	case n < 7:
		change, err = c.claim(ctx, c.held[c.random.IntN(len(c.held))])
	default:
		change, err = c.DeleteAllocations(ctx, c.held[c.random.IntN(len(c.held))])
	}
	if fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound) {
		err = nil
	}
	if err != nil || c.index == nil || len(change.Roots) == 0 {
		return err
	}
	if change.Added != nil {
		return c.index.ApplyUsage(ctx, UsageDelta{Roots: change.Roots, Added: change.Added, Reads: reads})
	}
	return c.index.RefreshUsage(ctx, change.Used...)
}

// claim claims on one or two providers.
func (c *claimant) claim(ctx context.Context, consumer resource.ConsumerID) (store.Change, error) {
	allocation := resource.Allocation{}
	for range 1 + c.random.IntN(2) {
		on := c.on[c.random.IntN(len(c.on))]
		allocation[on] = resource.Amounts{c.class[on]: 1 + c.random.IntN(2)}
	}
	return c.PutAllocations(ctx, store.Claim{Consumer: consumer, Project: "p", User: "u", Allocation: allocation})
}

// The index equals the database after claims and removals of several clients, which are added to it without reading the
// usage, beside other reads of the same trees and beside another process.
func TestUsageDeltas(t *testing.T) {
	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
		url, ctx := fresh(t), t.Context()
		w := newWorldOn(t, url)
		class, on := map[provider.ID]resource.Class{}, []provider.ID{}
		for n := range 6 {
			host, nic := w.createHost(fmt.Sprint("host", n))
			class[host], class[nic] = "VCPU", "CUSTOM_VF"
			on = append(on, host, nic)
		}
		for _, other := range []bool{false, true} {
			var all sync.WaitGroup
			for n := range uint64(8) {
				c := &claimant{Store: w.store, index: w.Index, random: rand.New(rand.NewPCG(n, 1)), on: on, class: class}
				if other && n == 0 {
					c.Store, c.index = openStore(t, url), nil
				}
				all.Go(func() {
					for i := range 60 {
						if err := c.write(ctx); err != nil {
							t.Error(err)
						}
						if c.index != nil && i%20 == 0 {
							if err := w.Refresh(ctx, on[c.random.IntN(6)*2]); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			all.Wait()
			w.poll()
			w.compare()
		}
	})
}

// Claims and removals of one process read nothing for the index, and its generations are those of the database: another
// poll finds nothing to read.
func TestUsageDeltasReadNothing(t *testing.T) {
	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
		url := fresh(t)
		ctx, w := t.Context(), newWorldOn(t, url)
		host, nic := w.createHost("host")
		c := &claimant{Store: w.store, index: w.Index, random: rand.New(rand.NewPCG(1, 1)), on: []provider.ID{host, nic},
			class: map[provider.ID]resource.Class{host: "VCPU", nic: "CUSTOM_VF"}}
		w.poll()
		before := w.Reads()
		for range 3 {
			change, err := c.claim(ctx, resource.ConsumerID(uuid.NewString()))
			must(t, err)
			must(t, w.ApplyUsage(ctx, UsageDelta{Roots: change.Roots, Added: change.Added, Reads: before}))
			w.poll()
		}
		consumers, err := w.store.ProviderAllocations(ctx, host)
		must(t, err)
		for consumer := range consumers.Shares {
			change, err := w.store.DeleteAllocations(ctx, consumer)
			must(t, err)
			if !strings.HasPrefix(url, "sqlite:") { // only a batch knows what it has removed there
				must(t, w.RefreshUsage(ctx, change.Used...))
				before = w.Reads()
				continue
			}
			if change.Added == nil {
				t.Error("a removal does not say what it removed")
			}
			must(t, w.ApplyUsage(ctx, UsageDelta{Roots: change.Roots, Added: change.Added, Reads: before}))
			w.poll()
		}
		if w.compare(); w.Reads() != before {
			t.Errorf("%d reads", w.Reads()-before)
		}
		for _, id := range []provider.ID{host, nic} {
			p, err := w.store.Provider(ctx, id)
			must(t, err)
			if got, _ := w.Snapshot().Row(id); got.Generation != p.Generation {
				t.Errorf("the index has generation %d of %s, the database %d", got.Generation, id, p.Generation)
			}
		}
	})
}

// A removal of what another process has claimed does not make the usage negative: it is read.
func TestUsageIsNeverNegative(t *testing.T) {
	w := newWorldOn(t, "sqlite:///"+t.TempDir()+"/placement.db")
	host, _ := w.createHost("host")
	gone := store.UsageChange{Amounts: resource.Amounts{"VCPU": -2}}
	must(t, w.ApplyUsage(t.Context(), UsageDelta{Roots: []provider.ID{host},
		Added: map[provider.ID]store.UsageChange{host: gone}, Reads: w.Reads()}))
	w.compare()
}

// A write that a read of its tree, of its usage or of everything has already found is not added once more.
func TestUsageDeltaAfterARead(t *testing.T) {
	w, ctx := newWorldOn(t, "sqlite:///"+t.TempDir()+"/placement.db"), t.Context()
	host, nic := w.createHost("host")
	var others []provider.ID
	for range maxTreesRead { // more than the index remembers one by one
		others = append(others, provider.ID(uuid.NewString()))
	}
	for name, read := range map[string]func() error{
		"tree":       func() error { return w.Refresh(ctx, host) },
		"usage":      func() error { return w.RefreshUsage(ctx, nic) },
		"everything": func() error { return w.Reload(ctx) },
		"many trees": func() error {
			if err := w.Refresh(ctx, host); err != nil {
				return err
			}
			return w.Refresh(ctx, others...)
		},
	} {
		consumer, reads := resource.ConsumerID(uuid.NewString()), w.Reads()
		change, err := w.store.PutAllocations(ctx, store.Claim{Consumer: consumer, Project: "p", User: "u",
			Allocation: resource.Allocation{nic: {"CUSTOM_VF": 1}}})
		must(t, err)
		must(t, read())
		must(t, w.ApplyUsage(ctx, UsageDelta{Roots: change.Roots, Added: change.Added, Reads: reads}))
		if w.compare(); t.Failed() {
			t.Fatalf("after a read of the %s", name)
		}
		change, err = w.store.DeleteAllocations(ctx, consumer)
		must(t, err)
		must(t, w.RefreshUsage(ctx, change.Used...))
	}
}

// A write is not lost when the refresh that should have added it fails.
func TestUsageDeltaOfAFailedRefresh(t *testing.T) {
	w, ctx := newWorldOn(t, "sqlite:///"+t.TempDir()+"/placement.db"), t.Context()
	host, _ := w.createHost("host")
	other, _ := w.createHost("other")
	reads := w.Reads()
	change, err := w.store.PutAllocations(ctx, store.Claim{Consumer: resource.ConsumerID(uuid.NewString()), Project: "p",
		User: "u", Allocation: resource.Allocation{host: {"VCPU": 1}}})
	must(t, err)
	w.running <- struct{}{}
	w.enqueue(time.Now(), refreshRequest{roots: []provider.ID{other},
		usage: []UsageDelta{{Roots: change.Roots, Added: change.Added, Reads: reads}}})
	w.Index.store = nil // the read of the other tree panics
	func() {
		defer func() { _ = recover() }()
		w.runNext(ctx)
	}()
	w.Index.store = w.store
	if _, err := w.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	w.compare()
}
