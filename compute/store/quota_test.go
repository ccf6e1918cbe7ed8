package store_test

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/sqldb"
)

// ofProject returns a server of ann in a project, with 2 VCPUs and 512 MiB.
func ofProject(id, project string) lifecycle.Server {
	return lifecycle.Server{ID: id, Name: id, Project: project, User: "ann", State: lifecycle.Preparing, Created: noon,
		Flavor: flavor.Flavor{ID: "small", VCPUs: 2, MemoryMB: 512}}
}

// resize accepts a resize of a server.
func resize(vcpus int) func(lifecycle.Server) lifecycle.Server {
	return func(one lifecycle.Server) lifecycle.Server {
		one.Flavor.VCPUs, one.LastAction = vcpus, one.LastAction+"x"
		return one
	}
}

func quotaLimits(t *testing.T, s *store.Store) {
	ctx := t.Context()
	s.SetQuotas(quota.Amounts{quota.Instances: 3, quota.Cores: quota.Unlimited, quota.KeyPairs: 2}, nil)
	must(t, s.SetLimits(ctx, store.QuotaOwner{User: store.DefaultClass}, quota.Amounts{quota.Cores: 10}))
	must(t, s.SetLimits(ctx, store.QuotaOwner{User: "other"}, quota.Amounts{quota.Cores: 1}))
	must(t, s.SetLimits(ctx, store.QuotaOwner{Project: "p"}, quota.Amounts{quota.Instances: 5, "class:VGPU": 0}))
	must(t, s.SetLimits(ctx, store.QuotaOwner{Project: "p", User: "ann"}, quota.Amounts{quota.Instances: 1}))
	must(t, s.SetLimits(ctx, store.QuotaOwner{Project: "p", User: "ann"}, quota.Amounts{quota.Instances: 2}))
	for _, c := range []struct {
		project, user string
		want          quota.Amounts
	}{
		{"q", "ann", quota.Amounts{"instances": 3, "cores": 10, "key_pairs": 2}},
		{"p", "bob", quota.Amounts{"instances": 5, "cores": 10, "key_pairs": 2, "class:VGPU": 0}},
		{"p", "ann", quota.Amounts{"instances": 2, "cores": 10, "key_pairs": 2, "class:VGPU": 0}},
	} {
		if got, err := s.Limits(ctx, c.project, c.user); err != nil || !maps.Equal(got.Effective(), c.want) {
			t.Errorf("%s of %s: %v %v, want %v", c.user, c.project, got, err, c.want)
		}
	}
	if got, err := s.ClassLimits(ctx, "other"); err != nil || got[quota.Cores] != 1 || got[quota.Instances] != 3 {
		t.Errorf("%v %v", got, err)
	}

	must(t, s.Create(ctx, ofProject("a", "p"), ofProject("b", "p")))
	is(t, s.Create(ctx, ofProject("c", "p")), fault.Forbidden) // 2 instances of ann
	must(t, s.ResetLimits(ctx, "p", "ann"))
	must(t, s.Create(ctx, ofProject("c", "p")))
	err := s.Create(ctx, ofProject("d", "p"), ofProject("e", "p"), ofProject("f", "p"))
	is(t, err, fault.Forbidden)
	if over, ok := errors.AsType[*quota.Exceeded](err); !ok || over.Fit(3) != 2 {
		t.Errorf("got %v", err)
	}
	if _, err = s.Read(ctx, "d"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a refused server is recorded: %v", err)
	}
	must(t, s.ResetLimits(ctx, "p", ""))
	is(t, s.Create(ctx, ofProject("d", "p")), fault.Forbidden) // 3 instances of a project
	must(t, s.Create(ctx, ofProject("d", "q")))

	_, err = s.Change(ctx, "a", resize(7))
	is(t, err, fault.Forbidden) // 11 cores
	if one, err := s.Read(ctx, "a"); err != nil || one.Flavor.VCPUs != 2 {
		t.Errorf("a refused resize is recorded: %+v %v", one.Flavor, err)
	}
	_, err = s.Change(ctx, "a", resize(6))
	must(t, err)
	_, err = s.Change(ctx, "b", func(one lifecycle.Server) lifecycle.Server { one.State = lifecycle.Deleted; return one })
	must(t, err)
	if use, err := s.QuotaUse(ctx, "p", "ann"); err != nil ||
		!maps.Equal(use, quota.Amounts{"instances": 2, "cores": 8, "ram": 1024}) {
		t.Errorf("%v %v", use, err)
	}
	_, err = s.Change(ctx, "c", func(one lifecycle.Server) lifecycle.Server { one.Flavor.VCPUs = 100; return one })
	must(t, err) // a step is never refused
}

// quotaRaces lets 64 clients create, resize and delete servers of one project, in two processes.
func quotaRaces(t *testing.T, first, second *store.Store) {
	const most = 40 // cores: 20 servers
	ctx := t.Context()
	var deleted, refused sync.Map
	var clients sync.WaitGroup
	for n := range 64 {
		s := []*store.Store{first, second}[n%2]
		clients.Go(func() {
			for round := range 3 {
				id := fmt.Sprint("s", n, "-", round)
				err := s.Create(ctx, ofProject(id, "p"))
				if err == nil && n%3 == 0 {
					_, err = s.Change(ctx, id, resize(4))
				}
				if fault.Is(err, fault.Forbidden) {
					refused.Store(id, true)
				} else if err != nil {
					t.Errorf("%s: %v", id, err)
				}
				use, err := s.QuotaUse(ctx, "p", "")
				if err != nil || use[quota.Cores] > most {
					t.Errorf("%d cores of %d are used, %v", use[quota.Cores], most, err)
				}
				if round < 2 {
					_, err := s.Change(ctx, id, func(one lifecycle.Server) lifecycle.Server {
						one.State = lifecycle.Deleted
						return one
					})
					if err == nil {
						deleted.Store(id, true)
					} else if !fault.Is(err, fault.NotFound) {
						t.Error(err)
					}
				}
			}
		})
	}
	clients.Wait()
	count := func(m *sync.Map) (n int) { m.Range(func(any, any) bool { n++; return true }); return n }
	for n := range most {
		if err := second.Create(ctx, ofProject(fmt.Sprint("last", n), "p")); err != nil {
			is(t, err, fault.Forbidden)
			break
		}
	}
	use, err := first.QuotaUse(ctx, "p", "")
	if err != nil || use[quota.Cores] != most {
		t.Errorf("%v %v, want %d cores", use, err, most)
	}
	if count(&refused) == 0 || count(&deleted) == 0 {
		t.Errorf("%d were refused, %d deleted; the test tests nothing", count(&refused), count(&deleted))
	}
	list, err := first.Servers(ctx, store.ServerFilter{Project: "p"})
	must(t, err)
	sum := quota.Amounts{}
	for _, one := range list {
		sum.Add(one.QuotaUse(), 1)
	}
	if !maps.Equal(sum, use) {
		t.Errorf("the records have %v, the rows %v", sum, use)
	}
}

// openTwice opens a database twice, as two processes would, with a limit of 40 cores.
func openTwice(t *testing.T, urls ...string) (first, second *store.Store) {
	limits := quota.Amounts{quota.Cores: 40}
	for i, s := range []**store.Store{&first, &second} {
		db, err := sqldb.Open(t.Context(), urls[i%len(urls)])
		must(t, err)
		t.Cleanup(func() { must(t, db.Close()) })
		*s, err = store.Open(t.Context(), db)
		must(t, err)
		(*s).SetQuotas(limits, nil)
	}
	return first, second
}

func quotaOfKeyPairs(t *testing.T, s *store.Store) {
	var clients sync.WaitGroup
	for n := range 16 {
		clients.Go(func() {
			_, err := s.CreateKeyPair(t.Context(), store.KeyPair{User: "ann", Name: fmt.Sprint(n), Type: "ssh"}, 3)
			if err != nil && !fault.Is(err, fault.Forbidden) {
				t.Error(err)
			}
		})
	}
	clients.Wait()
	if list, err := s.KeyPairs(t.Context(), "ann", "", 0); err != nil || len(list) != 3 {
		t.Errorf("%d key pairs of 3, %v", len(list), err)
	}
}

// TestQuotasOnGalera lets the two processes use different nodes of a cluster, which certify transactions at COMMIT.
func TestQuotasOnGalera(t *testing.T) {
	testenv.Long(t)
	urls := databases.Galera(t, 2).Database(t)
	first, second := openTwice(t, urls...)
	quotaRaces(t, first, second)
}
