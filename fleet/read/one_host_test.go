package read

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
)

// server returns a server as compute shows it.
func server(id string) doc {
	return doc{"id": id, "name": "name-" + id, "status": "ACTIVE", "created": "2026-01-01T00:00:00Z",
		"updated": "2026-01-01T00:00:00Z", "image": "", "flavor": doc{"vcpus": 1, "original_name": "f"}}
}

// ofTree makes a cloud whose host cmp1 has one server and one move, and in its tree consumers of other hosts.
func ofTree(t *testing.T, consumers ...string) *cloud {
	c := newCloud(t)
	c.lists["resource_providers"] = []any{doc{"uuid": "cmp1", "name": "cmp1", "root_provider_uuid": "cmp1"}}
	c.lists["servers"], c.lists["services"] = []any{server("here")}, []any{doc{"host": "service1"}}
	c.lists["migrations"] = []any{doc{"uuid": "move", "instance_uuid": "moved", "status": "migrating"}}
	c.lists["hypervisors"] = []any{doc{"id": "h1", "hypervisor_hostname": "cmp1", "service": doc{"host": "service1"}},
		doc{"id": "h10", "hypervisor_hostname": "cmp10", "service": doc{"host": "service10"}}}
	held := doc{}
	for _, id := range consumers {
		held[id] = doc{"resources": doc{"VCPU": 1}}
	}
	c.answers["/resource_providers/cmp1/allocations"] = doc{"allocations": held}
	c.answers["/v2.1/servers/moved"] = doc{"server": server("moved")}
	c.answers["/v2.1/servers/away"] = doc{"server": server("away")}
	return c
}

// Of one host only its own hypervisor, service, servers and moves are read, and what else holds something in its tree.
func TestReadOneHost(t *testing.T) {
	c := ofTree(t, "here", "move", "away", "volume")
	s, cost, err := Read(t.Context(), c.services(), Options{Host: "cmp1",
		Without: []fleet.Part{fleet.Ports, fleet.Agents}})
	if err != nil || len(s.Gaps) > 0 || len(s.Hypervisors) != 1 || len(s.Services) != 1 || len(s.Migrations) != 1 {
		t.Fatalf("%v %+v", err, s)
	}
	names := map[string]string{}
	for _, one := range s.Servers {
		names[one.ID] = one.Name
	}
	if len(names) != 3 || names["moved"] != "name-moved" || names["away"] != "name-away" {
		t.Errorf("%q", names)
	}
	for _, path := range []string{"/v2.1/servers/detail", "/v2.1/os-migrations", "/v2.1/os-services"} {
		for _, query := range c.queries[path] {
			if query.Get("host") != "service1" {
				t.Errorf("%s?%s", path, query.Encode())
			}
		}
	}
	if cost.Requests > 14 { // one of them finds that Placement is not Berth's
		t.Error(cost)
	}
	c.answers["/v2.1/os-hypervisors/detail"] = http.StatusNotFound // as Nova answers without a match
	c.answers["/v2.1/servers/away"] = http.StatusForbidden
	s, _, err = Read(t.Context(), c.services(), Options{Host: "cmp1"})
	if err != nil || len(s.Gaps) != 1 || !s.Missing(fleet.Servers) || len(s.Hypervisors) != 0 || len(s.Servers) != 2 {
		t.Errorf("%v %+v", err, s)
	}
}

// A tree with very many consumers of other hosts is read with the lists of the cloud.
func TestReadTreeWithManyConsumers(t *testing.T) {
	var consumers []string
	for i := range mostByID + 1 {
		consumers = append(consumers, fmt.Sprint("c", i))
	}
	c := ofTree(t, consumers...)
	s, cost, err := Read(t.Context(), c.services(), Options{Host: "cmp1"})
	if err != nil || len(s.Gaps) > 0 || len(s.Servers) != 1 || len(s.Migrations) != 1 || cost.Requests > 20 {
		t.Errorf("%v %s %+v", err, cost, s.Gaps)
	}
}

// A service whose cell answers only one of two reads counts as silent, also if a read does not list it.
func TestServicesAreReadTwice(t *testing.T) {
	c := newCloud(t)
	reads := [][]any{{doc{"host": "a", "status": "enabled"}, doc{"host": "b", "status": "enabled"},
		doc{"host": "c", "status": "enabled"}}, {doc{"host": "a", "status": "enabled"},
		doc{"host": "b", "status": fleet.StatusUnknown}, doc{"host": "d", "status": "enabled"}}}
	n := 0
	c.answers["/v2.1/os-services"] = func() any { n++; return doc{"services": reads[n-1]} }
	s, _, err := Read(t.Context(), c.services(), Options{})
	if err != nil || n != 2 {
		t.Fatalf("%v after %d reads", err, n)
	}
	var answered []string
	for _, one := range s.Services {
		if one.Status != fleet.StatusUnknown {
			answered = append(answered, one.Host)
		}
	}
	if !slices.Equal(answered, []string{"a"}) || len(s.Services) != 4 {
		t.Errorf("%+v", s.Services)
	}
	n, reads[1] = 0, nil
	c.answers["/v2.1/os-services"] = func() any {
		if n++; n > 1 {
			return http.StatusForbidden
		}
		return doc{"services": reads[0]}
	}
	if s, _, err = Read(t.Context(), c.services(), Options{}); err != nil || !s.Missing(fleet.Services) {
		t.Errorf("%v %+v", err, s.Gaps)
	}
}

// A service that the cloud does not have is absent: what it would have is missing, and the read is complete. One that
// does not answer is a gap.
func TestAbsentNetwork(t *testing.T) {
	c := newCloud(t)
	services := c.services()
	services.Network.REST = &rest.Client{Headers: map[string]string{}, Account: noAccount{fault.New(fault.Unavailable,
		"the catalog has no network").WithCode(identity.CodeNoService)}}
	s, _, err := Read(t.Context(), services, Options{})
	if err != nil || len(s.Gaps) > 0 || len(s.Absent) != 2 || !s.Missing(fleet.Ports) || !s.Missing(fleet.Agents) {
		t.Fatalf("%v %+v %+v", err, s.Gaps, s.Absent)
	}
	found, err := Audit(t.Context(), services, s, fleet.AuditOptions{})
	if err != nil || len(found.Gaps) != 1 || found.Gaps[0].Part != fleet.Consumers || len(found.Absent) != 2 {
		t.Errorf("%v %+v %+v", err, found.Gaps, found.Absent)
	}
	c.answers["/v2.0/ports"] = http.StatusForbidden
	if s, _, err = Read(t.Context(), c.services(), Options{}); err != nil || len(s.Gaps) != 1 || len(s.Absent) > 0 {
		t.Errorf("%v %+v", err, s.Gaps)
	}
}

type noAccount struct{ err error }

func (a noAccount) Sign(*http.Request) error { return a.err }

func (noAccount) Renew(*http.Request) bool { return false }
