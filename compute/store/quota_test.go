package store_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/resource"
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

// quotaOfClaims lets two servers claim cards, and ports get guarantees, of which the limit permits one.
func quotaOfClaims(t *testing.T, s *store.Store) {
	ctx := t.Context()
	const fpga, egress = "class:CUSTOM_FPGA", "class:NET_BW_EGR_KILOBIT_PER_SEC"
	s.SetQuotas(quota.Amounts{fpga: 8, egress: 1000}, nil)
	choice := func(host string, slices int) schedule.Choice {
		return schedule.Choice{Host: host, Allocation: resource.Allocation{"card": {"CUSTOM_FPGA": slices}}}
	}
	var clients sync.WaitGroup
	for _, id := range []string{"a", "b"} {
		one := ofProject(id, "p")
		one.State, one.Ask = lifecycle.Scheduling, resource.Ask{Groups: []resource.Group{{
			Resources: resource.Amounts{"CUSTOM_FPGA": 1}}}}
		must(t, s.Create(ctx, one))
		clients.Go(func() {
			_, err := s.Change(ctx, id, func(found lifecycle.Server) lifecycle.Server {
				next, _ := lifecycle.Next(found, lifecycle.Chosen{Candidates: 2,
					Choices: []schedule.Choice{choice("h1", 9), choice("h2", 6)}}, noon)
				return next
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()
	claimed, refusal := 0, "Quota exceeded for "+fpga+": Requested 5, but already used 7 of 8"
	for _, id := range []string{"a", "b"} {
		one, err := s.Read(ctx, id)
		must(t, err)
		switch {
		case one.ClaimedHost() == "h2":
			claimed++
		case one.State != lifecycle.Error || !strings.Contains(one.Fault.Message, refusal):
			t.Errorf("%s is %s on %s: %+v", id, one.State, one.ClaimedHost(), one.Fault)
		}
	}
	if use, err := s.QuotaUse(ctx, "p", ""); err != nil || claimed != 1 || use[fpga] != 6 {
		t.Errorf("%d claimed, %v, %v", claimed, use, err)
	}

	var accepted atomic.Int32
	must(t, s.Create(ctx, ofProject("q", "q")))
	for n := range 16 {
		clients.Go(func() {
			_, err := s.ChangeWithinQuota(ctx, "q", func(found lifecycle.Server) lifecycle.Server {
				return found.ReserveGuarantees(fmt.Sprint(n), resource.Amounts{"NET_BW_EGR_KILOBIT_PER_SEC": 300})
			})
			if err == nil {
				accepted.Add(1)
			} else if !quota.IsExceeded(err) {
				t.Error(err)
			}
		})
	}
	clients.Wait()
	if use, err := s.QuotaUse(ctx, "q", ""); err != nil || accepted.Load() != 3 || use[egress] != 900 {
		t.Errorf("%d accepted, %v, %v", accepted.Load(), use, err)
	}
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
