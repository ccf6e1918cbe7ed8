package store_test

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// createGroup stores a group of project p with the policy anti-affinity.
func createGroup(t *testing.T, s *store.Store, id string) {
	t.Helper()
	must(t, s.CreateServerGroup(t.Context(), store.ServerGroup{ID: id, Name: "n", Project: "p",
		Policy: schedule.AntiAffinity, Created: noon}, store.ProjectLimits{}))
}

// member returns a new server of a group.
func member(id, group string) lifecycle.Server {
	return lifecycle.Server{ID: id, Group: group, State: lifecycle.Scheduling, Created: noon, Updated: noon}
}

// serverGroups tests groups and their members.
func serverGroups(t *testing.T, s *store.Store) {
	ctx := t.Context()
	want := store.ServerGroup{ID: "g1", Name: "web", Project: "p", User: "u", Policy: schedule.SoftAffinity, MaxPerHost: 3,
		Created: noon}
	two := store.ProjectLimits{Project: quota.Amounts{quota.ServerGroups: 2}}
	must(t, s.CreateServerGroup(ctx, want, two))
	createGroup(t, s, "g2")
	is(t, s.CreateServerGroup(ctx, store.ServerGroup{ID: "g3", Project: "p"}, two), fault.Forbidden)
	must(t, s.CreateServerGroup(ctx, store.ServerGroup{ID: "g3", Project: "q", Created: noon}, two))
	must(t, s.Create(ctx, member("a", "g1"), member("b", "g1"), member("c", "g2")))
	is(t, s.Create(ctx, member("d", "none")), fault.Invalid)
	want.Members = []string{"a", "b"}
	if got, err := s.ServerGroup(ctx, "g1"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v", got, err)
	}
	list, err := s.ServerGroups(ctx, "p")
	if err != nil || len(list) != 2 || !slices.Equal(list[1].Members, []string{"c"}) {
		t.Errorf("%+v %v", list, err)
	}
	if list, err = s.ServerGroups(ctx, ""); err != nil || len(list) != 3 {
		t.Errorf("%+v %v", list, err)
	}
	_, err = s.Change(ctx, "a", func(v lifecycle.Server) lifecycle.Server {
		v.State, v.Ended = lifecycle.Deleted, noon
		return v
	})
	must(t, err)
	if got, err := s.ServerGroup(ctx, "g1"); err != nil || !slices.Equal(got.Members, []string{"b"}) {
		t.Errorf("%+v %v", got, err)
	}
	must(t, s.DeleteServerGroup(ctx, "g1"))
	is(t, s.DeleteServerGroup(ctx, "g1"), fault.NotFound)
	_, err = s.ServerGroup(ctx, "g1")
	is(t, err, fault.NotFound)
	if group, err := s.GroupOf(ctx, member("b", "g1")); group != nil || err != nil { // its policy is not applied any more
		t.Errorf("%+v %v", group, err)
	}
}

// groupPolicies tests that a change decides with the hosts of the other members, and that concurrent changes cannot
// break the policy.
func groupPolicies(t *testing.T, s *store.Store) {
	ctx := t.Context()
	createGroup(t, s, "g")
	hosts := []string{"h1", "h2", "h3"}
	var all sync.WaitGroup
	for i := range 8 {
		id := fmt.Sprint("s", i)
		must(t, s.Create(ctx, member(id, "g")))
		all.Go(func() {
			_, err := s.Change(ctx, id, func(v lifecycle.Server) lifecycle.Server {
				for _, host := range hosts {
					if _, why := v.ServerGroup().Refuse(host); why == "" {
						v.State, v.Host = lifecycle.Active, host
						return v
					}
				}
				v.State = lifecycle.Error
				return v
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	on := map[string]int{}
	for i := range 8 {
		v, err := s.Read(ctx, fmt.Sprint("s", i))
		must(t, err)
		on[v.Host]++
	}
	if want := map[string]int{"h1": 1, "h2": 1, "h3": 1, "": 5}; !reflect.DeepEqual(on, want) {
		t.Errorf("%v, want %v", on, want)
	}
	group, err := s.GroupOf(ctx, member("other", "g"))
	if want := (&schedule.ServerGroup{ID: "g", Policy: schedule.AntiAffinity, Others: map[string]int{"h1": 1, "h2": 1,
		"h3": 1}}); err != nil || !reflect.DeepEqual(group, want) {
		t.Errorf("%+v %v", group, err)
	}
}

// groupRaces lets 64 clients create servers in one group, give each a host and delete every third. None is refused
// because of the others.
func groupRaces(t *testing.T, s *store.Store) {
	ctx := t.Context()
	s.SetQuotas(nil, nil) // a group may have any number of members
	must(t, s.CreateServerGroup(ctx, store.ServerGroup{ID: "g", Project: "p", Policy: schedule.Affinity, Created: noon},
		store.ProjectLimits{}))
	var all sync.WaitGroup
	for i := range 64 {
		id := fmt.Sprint("s", i)
		all.Go(func() {
			if err := s.Create(ctx, member(id, "g")); err != nil {
				t.Error(err)
				return
			}
			after, err := s.Change(ctx, id, func(v lifecycle.Server) lifecycle.Server {
				v.State, v.Host = lifecycle.Active, cmp.Or(v.ServerGroup().OnlyHost(), "h-"+id)
				return v
			})
			if err == nil && i%3 == 0 {
				after, err = s.Change(ctx, id, func(v lifecycle.Server) lifecycle.Server {
					v.State, v.Ended = lifecycle.Deleted, noon
					return v
				})
			}
			if err != nil {
				t.Errorf("%s on %q: %v", id, after.Host, err)
			}
		})
	}
	all.Wait()
	group, err := s.ServerGroup(ctx, "g")
	if err != nil || len(group.Members) != 42 {
		t.Errorf("%d members, %v", len(group.Members), err)
	}
}

// groupLimitsOfUsers tests that a limit of a user counts what the user has, beside the limit of the project.
func groupLimitsOfUsers(t *testing.T, s *store.Store) {
	ctx := t.Context()
	s.SetQuotas(quota.Amounts{quota.ServerGroups: 5, quota.ServerGroupMembers: 3}, nil)
	must(t, s.SetLimits(ctx, store.QuotaOwner{Project: "p", User: "bob"},
		quota.Amounts{quota.ServerGroups: 1, quota.ServerGroupMembers: 1}))
	create := func(id, user string) error {
		t.Helper()
		limits, err := s.Limits(ctx, "p", user)
		must(t, err)
		return s.CreateServerGroup(ctx, store.ServerGroup{ID: id, Project: "p", User: user, Created: noon,
			Policy: schedule.SoftAffinity}, limits)
	}
	for i := range 3 {
		must(t, create(fmt.Sprint("ann", i), "ann"))
	}
	must(t, create("bob", "bob")) // he has none of the three
	is(t, create("bob2", "bob"), fault.Forbidden)
	must(t, create("ann3", "ann"))
	is(t, create("ann4", "ann"), fault.Forbidden)
	must(t, s.SetLimits(ctx, store.QuotaOwner{Project: "p", User: "bob"}, quota.Amounts{quota.ServerGroups: 9}))
	is(t, create("bob2", "bob"), fault.Forbidden) // the project has five
	join := func(id, user string) error {
		one := member(id, "ann0")
		one.Project, one.User = "p", user
		return s.Create(ctx, one)
	}
	must(t, join("a", "ann"))
	must(t, join("b", "bob"))
	is(t, join("c", "bob"), fault.Forbidden)
	must(t, join("c", "ann"))
	is(t, join("d", "ann"), fault.Forbidden)
}
