package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// withServers runs a test on MariaDB and PostgreSQL, with an empty database each.
func withServers(t *testing.T, run func(t *testing.T, url string)) {
	for _, server := range []*databases.Server{databases.SharedMariaDB(t), databases.SharedPostgreSQL(t)} {
		t.Run(server.Name(), func(t *testing.T) { run(t, server.Database(t)) })
	}
}

// batchWrite is a write that joins a batch.
type batchWrite func(ctx context.Context, s *Store) (Change, error)

func putting(claims ...Claim) batchWrite {
	return func(ctx context.Context, s *Store) (Change, error) { return s.PutAllocations(ctx, claims...) }
}

func deleting(n int) batchWrite {
	return func(ctx context.Context, s *Store) (Change, error) { return s.DeleteAllocations(ctx, consumer(n)) }
}

// written is the result of a write.
type written struct {
	change Change
	err    error
}

// inOneBatch runs writes as members of one batch, in this order, and returns their results. done is how many of them
// the batch itself has finished.
func inOneBatch(t *testing.T, s *Store, writes ...batchWrite) (results []written, done int) {
	t.Helper()
	wait, done := startBatch(t, s, writes...)
	return wait(), done
}

// startBatch is inOneBatch that returns when the transaction of the batch has ended.
func startBatch(t *testing.T, s *Store, writes ...batchWrite) (wait func() []written, done int) {
	t.Helper()
	q, counted, all := s.batches, make(chan int, 1), make([]chan written, len(writes))
	run := q.run
	var first atomic.Bool
	q.run = func(members []*batchMember) {
		next := first.Swap(true)
		run(members)
		if next { // not counted
			return
		}
		n := 0
		for _, m := range members {
			if m.done {
				n++
			}
		}
		counted <- n
	}
	q.hold()
	for i, w := range writes {
		all[i] = make(chan written, 1)
		go func() {
			change, err := w(t.Context(), s)
			all[i] <- written{change, err}
		}()
		await(t, "joining", func() bool { return q.length() == i+1 })
	}
	q.free()
	return func() (results []written) {
		for _, c := range all {
			results = append(results, <-c)
		}
		return results
	}, <-counted
}

// errorsOf lists the texts of the errors of results.
func errorsOf(results []written) (list []string) {
	for _, r := range results {
		list = append(list, fmt.Sprintf("%v %q", r.err, fault.CodeOf(r.err)))
	}
	return list
}

const fine = `<nil> ""`

// A batch has the effect of its requests one after the other: generations, usages, consumers and changes.
func TestBatchEqualsSingleTransactions(t *testing.T) {
	withServers(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		single := openStore(t, databases.SQLite(t))
		both := claim(503, 1, 2)
		both.Allocation[id(2)] = resource.Amounts{"VCPU": 1, "MEMORY_MB": 7}
		other := claim(505, 3, 1)
		other.Project, other.User, other.ConsumerType = "project of 505", "user of 505", ""
		writes := []batchWrite{putting(claim(501, 1, 1)), deleting(500), putting(claim(502, 1, 3)),
			putting(both, claim(504, 3, 4)), putting(other)}
		var want []written
		for _, on := range []*Store{s, single} {
			for n := 1; n <= 3; n++ {
				host(t, on, n, n-1)
			}
			ok(t, putOne(t.Context(), on, claim(500, 2, 10))) // its removal makes room for both
		}
		for _, i := range []int{1, 0, 2, 3, 4} { // a batch performs removals first
			change, err := writes[i](t.Context(), single)
			ok(t, err)
			want = append(want, written{change, err})
		}
		want[0], want[1] = want[1], want[0]
		got, done := inOneBatch(t, s, writes...)
		equal(t, "done", done, len(writes))
		equal(t, "results", got, want)
		for n := 1; n <= 3; n++ {
			equal(t, fmt.Sprint("generation of ", n), generation(t, s, n), generation(t, single, n))
			equal(t, fmt.Sprint("usage of ", n), must(s.ProviderUsages(t.Context(), id(n))).Used,
				must(single.ProviderUsages(t.Context(), id(n))).Used)
		}
		for n := 500; n <= 505; n++ {
			a, b := must(s.ConsumerAllocations(t.Context(), consumer(n))), must(single.ConsumerAllocations(t.Context(),
				consumer(n)))
			b.Modified = a.Modified
			equal(t, fmt.Sprint("consumer ", n), a, b)
		}
	})
}

// Of several claims in one batch, those that fit are granted in their order; the others are refused as if alone.
func TestBatchRefusesWhatDoesNotFit(t *testing.T) {
	withServers(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		host(t, s, 1, 0)
		host(t, s, 2, 0)
		half := claim(503, 1, 3) // fits on provider 1, but not on provider 2
		half.Allocation[id(2)] = resource.Amounts{"VCPU": 11}
		got, done := inOneBatch(t, s, putting(claim(501, 1, 6)), putting(claim(502, 1, 5)), putting(half),
			putting(claim(504, 1, 4)), putting(claim(505, 1, 1)), putting(claim(506, 2, 2)))
		equal(t, "done", done, 6)
		equal(t, "granted", []bool{got[0].err == nil, got[3].err == nil, got[5].err == nil}, []bool{true, true, true})
		equal(t, "usage", must(s.ProviderUsages(t.Context(), id(1))).Used, resource.Amounts{"VCPU": 10, "MEMORY_MB": 0})
		equal(t, "generations", []int{generation(t, s, 1), generation(t, s, 2)}, []int{3, 2})
		for _, i := range []int{1, 2, 4} {
			refused(t, got[i].err, fault.Conflict, "", "VCPU on the resource provider")
		}
		again := putOne(t.Context(), s, claim(505, 1, 1)) // the same claim alone, on the same state
		equal(t, "refusal", got[4].err.Error(), again.Error())
	})
}

// Requests that a batch does not perform return the same as alone, and the others of the batch succeed.
func TestBatchLeavesRequestsOut(t *testing.T) {
	withServers(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		host(t, s, 1, 0)
		ok(t, putOne(t.Context(), s, claim(500, 1, 1)))
		unguarded := claim(500, 1, 2)
		unguarded.Guarded = false
		unknownClass := claim(511, 1, 1)
		unknownClass.Allocation[id(1)] = resource.Amounts{"CUSTOM_UNKNOWN": 1}
		noInventory := claim(512, 1, 1)
		noInventory.Allocation[id(1)] = resource.Amounts{"VGPU": 1}
		cases := []struct {
			name  string
			write batchWrite
			kind  fault.Kind
			code  string
			word  string
		}{
			{"existing consumer", putting(claim(500, 1, 2)), fault.Conflict, codeConcurrent, "exists with generation 1"},
			{"unknown provider", putting(claim(510, 77, 1)), fault.Invalid, "", string(id(77))},
			{"unknown class", putting(unknownClass), fault.Invalid, "", "CUSTOM_UNKNOWN"},
			{"no inventory", putting(noInventory), fault.Conflict, "", "has no inventory of VGPU"},
			{"no allocations", deleting(599), fault.NotFound, "", "has no allocations"},
		}
		for n, c := range cases {
			before := generation(t, s, 1)
			got, done := inOneBatch(t, s, c.write, putting(claim(520+n, 1, 1)), deleting(520+n-1))
			refused(t, got[0].err, c.kind, c.code, c.word)
			if got[1].err != nil || (got[2].err == nil) != (n > 0) || done < 1 || done > 2 {
				t.Errorf("%s: %d done, %v", c.name, done, errorsOf(got))
			}
			equal(t, c.name+": generation", generation(t, s, 1), before+1)
		}
		got, done := inOneBatch(t, s, putting(unguarded), putting(claim(540, 1, 1)))
		equal(t, "replaced", fmt.Sprint(errorsOf(got), done), fmt.Sprint([]string{fine, fine}, 1))
		equal(t, "held", must(s.ConsumerAllocations(t.Context(), consumer(500))).Generation, 2)
	})
}

// Two claims of one consumer are not in one batch: the second is refused.
func TestTwoClaimsOfOneConsumer(t *testing.T) {
	withServers(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		host(t, s, 1, 0)
		got, done := inOneBatch(t, s, putting(claim(500, 1, 1)), putting(claim(500, 1, 2)), putting(claim(501, 1, 1)),
			deleting(501))
		equal(t, "done", done, 2)
		equal(t, "errors", []string{errorsOf(got)[0], errorsOf(got)[2], errorsOf(got)[3]}, []string{fine, fine, fine})
		refused(t, got[1].err, fault.Conflict, codeConcurrent, "exists with generation 1, not null")
		equal(t, "used", must(s.ProviderUsages(t.Context(), id(1))).Used["VCPU"], 1)
	})
}

// A claim whose provider another transaction has locked waits alone. The others of its batch, and later batches, do
// not wait.
func TestLockedProviderDelaysOnlyItsClaims(t *testing.T) {
	withServers(t, func(t *testing.T, url string) {
		s, other := openStore(t, url), openStore(t, url)
		host(t, s, 1, 0)
		host(t, s, 2, 0)
		locked, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- other.db.Write(t.Context(), func(tx *sqldb.Tx) error {
				_, err := tx.Exec(t.Context(), "UPDATE resource_providers SET generation = generation + 1 WHERE uuid = ?", id(1))
				close(locked)
				<-release
				return err
			})
		}()
		<-locked
		free := make(chan written, 1)
		wait, done := startBatch(t, s, putting(claim(500, 1, 1)), func(ctx context.Context, s *Store) (Change, error) {
			change, err := s.PutAllocations(ctx, claim(501, 2, 1))
			free <- written{change, err}
			return change, err
		}, putting(claim(502, 2, 1)))
		equal(t, "done", done, 2)
		ok(t, (<-free).err) // before the lock is released
		for n := range 5 {
			ok(t, putOne(t.Context(), s, claim(510+n, 2, 1)))
		}
		equal(t, "generations", []int{generation(t, s, 1), generation(t, s, 2)}, []int{1, 8})
		close(release)
		ok(t, <-ended)
		equal(t, "errors", errorsOf(wait()), []string{fine, fine, fine})
		equal(t, "generation", generation(t, s, 1), 3)
	})
}

// TestBatchCutAnywhere breaks the connection at each packet of a batch in turn, before or after the server receives it.
// Each request of the batch is applied once and completely.
func TestBatchCutAnywhere(t *testing.T) {
	withProxy(t, func(t *testing.T, s, direct *Store, proxy *databases.Proxy) {
		host(t, direct, 1, 0)
		host(t, direct, 2, 0)
		for _, received := range []bool{false, true} {
			for packet := 0; ; packet++ {
				what := fmt.Sprintf("cut at packet %d, received %t", packet, received)
				ok(t, putOne(t.Context(), direct, claim(500, 2, 1)))
				cuts, before := proxy.Broken(), []int{generation(t, direct, 1), generation(t, direct, 2)}
				two := claim(502, 1, 1)
				two.Allocation[id(2)] = resource.Amounts{"MEMORY_MB": 3}
				proxy.Break(databases.Cut{Skip: packet, LoseResponse: received})
				got, _ := inOneBatch(t, s, putting(claim(501, 1, 2)), putting(two), deleting(500))
				equal(t, what, errorsOf(got), []string{fine, fine, fine})
				equal(t, what, []int{generation(t, direct, 1), generation(t, direct, 2)}, []int{before[0] + 2, before[1] + 1})
				equal(t, what, must(direct.ProviderUsages(t.Context(), id(1))).Used, resource.Amounts{"VCPU": 3, "MEMORY_MB": 0})
				equal(t, what, must(direct.ProviderUsages(t.Context(), id(2))).Used, resource.Amounts{"VCPU": 0, "MEMORY_MB": 3})
				last := proxy.Broken() == cuts
				proxy.Repair()
				for _, n := range []int{501, 502} {
					_, err := direct.DeleteAllocations(t.Context(), consumer(n))
					ok(t, err)
				}
				if last {
					if packet < 8 {
						t.Errorf("a batch sent only %d packets", packet)
					}
					break
				}
			}
		}
	})
}

// TestBatchLostAtCommit checks that each request of a batch finds its outcome although other clients write meanwhile.
func TestBatchLostAtCommit(t *testing.T) {
	withProxy(t, func(t *testing.T, s, direct *Store, proxy *databases.Proxy) {
		for n, received := range []bool{false, true} {
			for i := 1; i <= 3; i++ {
				host(t, direct, 10*n+i, 0)
			}
			on, c := 10*n, 500+10*n
			ok(t, putOne(t.Context(), direct, claim(c, on+3, 1)))
			others := map[int]func(){
				on + 1: func() {
					if err := putOne(t.Context(), direct, claim(c+8, on+1, 1)); err != nil {
						t.Error(err)
					}
				},
				on + 2: func() {
					_, err := direct.DeleteAllocations(t.Context(), consumer(c+2))
					if received != (err == nil) { // without the COMMIT it has no allocations
						t.Error(err)
					}
				},
			}
			var once sync.Once
			s.Watch = func(r Run) {
				if sqldb.IsUnknown(r.Err) {
					once.Do(func() { // the requests wait for it before they find their outcomes
						for _, i := range slices.Sorted(maps.Keys(others)) {
							others[i]()
						}
					})
				}
			}
			cuts := proxy.Broken()
			proxy.Break(databases.Cut{Word: commit(s), LoseResponse: received})
			got, _ := inOneBatch(t, s, putting(claim(c+1, on+1, 2)), putting(claim(c+2, on+2, 3)), deleting(c))
			s.Watch = nil
			equal(t, "cuts", proxy.Broken(), cuts+1)
			for i, r := range got {
				// If it was committed, another client has removed the second claim since: nothing shows that it was made.
				if r.err != nil && (i != 1 || !received || fault.CodeOf(r.err) != CodeUnknownOutcome) {
					t.Errorf("received %t: request %d: %v", received, i, r.err)
				}
			}
			used := func(i int) int { return must(direct.ProviderUsages(t.Context(), id(on+i))).Used["VCPU"] }
			equal(t, "used", []int{used(1), used(3)}, []int{3, 0})
			if got := used(2); got != 3 && !(received && got == 0) {
				t.Errorf("received %t: provider 2 has %d", received, got)
			}
			equal(t, "generation", generation(t, direct, on+1), 3)
		}
	})
}

// Watch is called for each request of a batch.
func TestWatchReportsRequestsOfBatches(t *testing.T) {
	withServers(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		host(t, s, 1, 0)
		ok(t, putOne(t.Context(), s, claim(500, 1, 1)))
		runs := make(chan Run, 10)
		s.Watch = func(r Run) { runs <- r }
		got, done := inOneBatch(t, s, putting(claim(501, 1, 1)), deleting(500), putting(claim(502, 1, 99)))
		equal(t, "done", done, 3)
		refused(t, got[2].err, fault.Conflict, "", "VCPU")
		count := map[string]int{}
		for range 3 {
			r := <-runs
			count[fmt.Sprint(r.Op, " ", r.Attempts, " ", fault.KindOf(r.Err) == fault.Conflict)]++
		}
		equal(t, "runs", count, map[string]int{"PutAllocations 1 false": 1, "DeleteAllocations 1 false": 1,
			"PutAllocations 1 true": 1})
	})
}

// A server that does not understand the statements of a batch runs single transactions from then on.
func TestOldServerRunsNoBatches(t *testing.T) {
	s := openStore(t, databases.SQLite(t)) // SQLite has no SKIP LOCKED
	s.batches = &batchQueue{run: s.runBatch}
	host(t, s, 1, 0)
	got, done := inOneBatch(t, s, putting(claim(500, 1, 1)), putting(claim(501, 1, 1)))
	equal(t, "done", done, 0)
	equal(t, "errors", errorsOf(got), []string{fine, fine})
	if s.batches.usable() {
		t.Error("the store uses batches that its server does not understand")
	}
	ok(t, putOne(t.Context(), s, claim(502, 1, 1)))
	equal(t, "used", must(s.ProviderUsages(t.Context(), id(1))).Used["VCPU"], 3)
}
