package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// interleaving is a write whose COMMIT breaks, and what another client writes before the outcome is determined. Both
// use provider n, at generation 2, and consumer 500+n, at generation 1 with 1 VCPU unless fresh is set.
type interleaving struct {
	name      string
	fresh     bool // the consumer does not exist, and the provider is at generation 1
	committed bool // the server commits; else it rolls back
	write     func(t *testing.T, s *Store, n int) error
	other     func(t *testing.T, direct *Store, n int)
	moment    time.Duration // how much later the other client's clock is
	want      string        // the answer, the consumer's VCPU and generation, and the provider's VCPU
	maria     string        // the same on MariaDB, if different
}

// TestLostCommitWhileOthersWrite checks the answer to a write whose COMMIT breaks, if another client writes before the
// outcome is determined.
func TestLostCommitWhileOthersWrite(t *testing.T) {
	withProxy(t, func(t *testing.T, s, direct *Store, proxy *databases.Proxy) {
		n, now := 0, time.Now().Truncate(time.Second).Add(300*time.Millisecond)
		s.Now = func() time.Time { return now }
		for _, group := range [][]interleaving{lostClaims(), lostRemovals(), lostInventories(), lostNames()} {
			for _, c := range group {
				n++
				direct.Now = time.Now
				host(t, direct, n, 0)
				if !c.fresh {
					ok(t, putOne(t.Context(), direct, claim(500+n, n, 1)))
				}
				direct.Now = func() time.Time { return now.Add(c.moment) }
				err := loseCommit(t, s, proxy, databases.Cut{LoseResponse: c.committed}, func() { c.other(t, direct, n) },
					func() error { return c.write(t, s, n) })
				held, total := must(direct.ConsumerAllocations(t.Context(), consumer(500+n))), 0
				if all, err := direct.Inventories(t.Context(), id(n)); err == nil {
					total = all.Classes["VCPU"].Total
				}
				got := fmt.Sprint(answer(err), " ", held.Allocation[id(n)]["VCPU"], " ", held.Generation, " ", total)
				want := c.want
				if direct.db.Dialect == sqldb.MySQL && c.maria != "" {
					want = c.maria
				}
				if got != want {
					t.Errorf("%s, committed %t: got %s, want %s: %v", c.name, c.committed, got, want, err)
				}
			}
		}
	})
}

// answer returns the kind of answer that an error leads to.
func answer(err error) string {
	switch {
	case err == nil:
		return "ok"
	case fault.CodeOf(err) == CodeUnknownOutcome:
		return "unknown"
	case fault.Is(err, fault.Conflict):
		return "conflict"
	case fault.Is(err, fault.NotFound):
		return "missing"
	}
	return err.Error()
}

// put returns a write of one claim.
func put(c func(n int) Claim) func(t *testing.T, s *Store, n int) error {
	return func(t *testing.T, s *Store, n int) error { return putOne(t.Context(), s, c(n)) }
}

// others returns writes of claims by the other client, all of which succeed.
func others(list ...func(n int) Claim) func(t *testing.T, s *Store, n int) {
	return func(t *testing.T, s *Store, n int) {
		for _, c := range list {
			ok(t, putOne(t.Context(), s, c(n)))
		}
	}
}

// succeed returns the same write by the other client, which succeeds.
func succeed(write func(t *testing.T, s *Store, n int) error) func(t *testing.T, s *Store, n int) {
	return func(t *testing.T, s *Store, n int) { ok(t, write(t, s, n)) }
}

func remove(t *testing.T, s *Store, n int) {
	_, err := s.DeleteAllocations(t.Context(), consumer(500+n))
	ok(t, err)
}

// lostClaims returns cases with claims of 2 VCPU. A claim succeeds only if it was committed, and conflicts only if it
// was not.
func lostClaims() []interleaving {
	first := func(n int) Claim { return claim(500+n, n, 2) }
	again := func(n int) Claim { return claim(500+n, n, 2).seen(1) }
	third := func(n int) Claim { return claim(500+n, n, 3).seen(2) }
	stranger := func(n int) Claim { return claim(700+n, n, 1) }
	strangerAgain := func(n int) Claim { return stranger(n).seen(1) }
	empty := func(n int) Claim { return Claim{Consumer: consumer(500 + n), Guarded: true}.seen(1) }
	const second = time.Second
	return []interleaving{
		{"first claim, another consumer's claims", true, true, put(first), others(stranger, strangerAgain), 0,
			"ok 2 1 10", ""},
		{"first claim, another consumer's claims", true, false, put(first), others(stranger, strangerAgain), 0,
			"ok 2 1 10", ""},
		{"first claim, the same one", true, false, put(first), others(first), 0, "conflict 2 1 10", ""},
		{"first claim, the same one, a second later", true, false, put(first), others(first), second,
			"conflict 2 1 10", ""},
		{"first claim, the same one and another consumer's", true, false, put(first), others(first, stranger), 0,
			"unknown 2 1 10", ""},
		{"first claim, changed after it", true, true, put(first), others(again), 0, "unknown 2 2 10", ""},
		{"first claim, made and changed by the other", true, false, put(first), others(first, again), 0,
			"unknown 2 2 10", ""},
		// The removed claim is written again, so it exists when the answer is sent.
		{"first claim, removed after it", true, true, put(first), remove, 0, "ok 2 1 10", ""},

		{"claim again, another consumer's claim", false, true, put(again), others(stranger), 0, "ok 2 2 10", ""},
		{"claim again, another consumer's claim", false, false, put(again), others(stranger), 0, "ok 2 2 10", ""},
		{"claim again, the same one", false, false, put(again), others(again), 0, "conflict 2 2 10", ""},
		{"claim again, the same one and another consumer's", false, false, put(again), others(again, stranger), 0,
			"conflict 2 2 10", ""},
		{"claim again, two more", false, false, put(again), others(again, third), 0, "unknown 3 3 10", ""},
		{"claim again, changed after it", false, true, put(again), others(third), 0, "unknown 3 3 10", ""},
		{"claim again, removed by the other", false, false, put(again), remove, 0, "conflict 0 0 10", ""},
		{"claim again, removed after it", false, true, put(again), remove, 0, "unknown 0 0 10", ""},

		{"empty claim, another consumer's claim", false, true, put(empty), others(stranger), 0, "ok 0 0 10", ""},
		{"empty claim, another consumer's claim", false, false, put(empty), others(stranger), 0, "ok 0 0 10", ""},
		{"empty claim, changed by the other", false, false, put(empty), others(again), 0, "conflict 2 2 10", ""},
		{"empty claim, removed by the other", false, false, put(empty), remove, 0, "conflict 0 0 10", ""},
		{"empty claim, made again after it", false, true, put(empty), others(first), 0, "unknown 2 1 10", ""},
	}
}

// lostRemovals returns cases with DELETE /allocations. A claim made after the removal stays.
func lostRemovals() []interleaving {
	write := func(t *testing.T, s *Store, n int) error {
		_, err := s.DeleteAllocations(t.Context(), consumer(500+n))
		return err
	}
	first := func(n int) Claim { return claim(500+n, n, 2) }
	again := func(n int) Claim { return claim(500+n, n, 2).seen(1) }
	return []interleaving{
		{"removal, made again after it", false, true, write, others(first), 0, "ok 2 1 10", ""},
		{"removal, changed by the other", false, false, write, others(again), 0, "ok 0 0 10", ""},
		{"removal, the same one", false, false, write, remove, 0, "ok 0 0 10", ""},
		{"removal, the same one and made again", false, false, write, func(t *testing.T, s *Store, n int) {
			remove(t, s, n)
			ok(t, putOne(t.Context(), s, first(n)))
		}, 0, "ok 2 1 10", ""},
	}
}

// lostInventories returns cases with replaced inventories and a generation in the request.
func lostInventories() []interleaving {
	replaceWith := func(s *Store, t *testing.T, n, generation, total int) error {
		_, err := s.ReplaceInventories(t.Context(), id(n), generation, inventory{"VCPU": resource.Whole(total)})
		return err
	}
	write := func(t *testing.T, s *Store, n int) error { return replaceWith(s, t, n, 2, 20) }
	same := func(t *testing.T, s *Store, n int) { ok(t, replaceWith(s, t, n, 2, 20)) }
	replace := func(generation int) func(t *testing.T, s *Store, n int) {
		return func(t *testing.T, s *Store, n int) { ok(t, replaceWith(s, t, n, generation, 30)) }
	}
	stranger := others(func(n int) Claim { return claim(700+n, n, 1) })
	reshape := func(t *testing.T, s *Store, n int) error {
		inventories := map[provider.ID]NewInventories{id(n): {2, inventory{"VCPU": resource.Whole(20)}}}
		_, err := s.Reshape(t.Context(), inventories, []Claim{claim(500+n, n, 2).seen(1)})
		return err
	}
	return []interleaving{
		{"inventories, another consumer's claim", false, true, write, stranger, 0, "ok 1 1 20", ""},
		{"inventories, another consumer's claim", false, false, write, stranger, 0, "conflict 1 1 10", ""},
		{"inventories, the same ones", false, false, write, same, time.Second, "conflict 1 1 20", ""},
		// Within one second MariaDB cannot distinguish them: both clients set the same inventories from the same
		// generation.
		{"inventories, the same ones within a second", false, false, write, same, time.Millisecond, "conflict 1 1 20",
			"ok 1 1 20"},
		{"inventories, other ones", false, false, write, replace(2), 0, "conflict 1 1 30", ""},
		{"inventories, replaced after it", false, true, write, replace(3), 0, "unknown 1 1 30", ""},
		{"reshape, another consumer's claim", false, true, reshape, stranger, 0, "ok 2 2 20", ""},
		{"reshape, another consumer's claim", false, false, reshape, stranger, 0, "conflict 1 1 10", ""},
		{"reshape, the same one", false, false, reshape, succeed(reshape), 0, "conflict 2 2 20", ""},
	}
}

// lostNames returns cases that create, rename and delete providers, traits and classes.
func lostNames() []interleaving {
	create := func(first int) func(t *testing.T, s *Store, n int) error {
		return func(t *testing.T, s *Store, n int) error {
			_, _, err := s.CreateProvider(t.Context(), id(first+n), fmt.Sprint("made", n), "")
			return err
		}
	}
	rename := func(name string) func(t *testing.T, s *Store, n int) error {
		return func(t *testing.T, s *Store, n int) error {
			_, _, err := s.UpdateProvider(t.Context(), id(n), Update{Name: fmt.Sprint(name, n)})
			return err
		}
	}
	remove := func(t *testing.T, s *Store, n int) error {
		_, err := s.DeleteProvider(t.Context(), id(n))
		return err
	}
	remake := func(t *testing.T, s *Store, n int) { host(t, s, n, 0) }
	trait := func(t *testing.T, s *Store, n int) error {
		_, created, err := s.EnsureTrait(t.Context(), resource.Trait(fmt.Sprint("CUSTOM_OTHERS", n)))
		if err == nil && !created {
			return fault.New(fault.Conflict, "the trait exists")
		}
		return err
	}
	class := func(t *testing.T, s *Store, n int) error {
		return s.CreateClass(t.Context(), resource.Class(fmt.Sprint("CUSTOM_OTHERS", n)))
	}
	const no, yes = "conflict 0 0 10", "ok 0 0 10"
	return []interleaving{
		{"create provider, the same one", true, false, create(300), succeed(create(300)), 0, no, ""},
		{"create provider, another one of that name", true, false, create(300), succeed(create(400)), 0, no, ""},
		{"rename provider, to another name", true, false, rename("a"), succeed(rename("b")), 0, "unknown 0 0 10", ""},
		{"rename provider, to the same name", true, false, rename("a"), succeed(rename("a")), 0, yes, ""},
		{"delete provider, made again after it", true, true, remove, remake, 0, yes, ""},
		{"create trait, the same one", true, false, trait, succeed(trait), 0, no, ""},
		{"create class, the same one", true, false, class, succeed(class), time.Second, no, ""},
		{"create class, the same one within a second", true, false, class, succeed(class), time.Millisecond, no, yes},
	}
}
