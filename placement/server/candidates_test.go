package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/identity"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/metrics"
	"github.com/openberth/berth/placement/policies"
	"github.com/openberth/berth/placement/server/request"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// fleet returns a server without a store, with an index of hosts that have VCPU and NICs of 8 VFs each.
func fleet(hosts, nics int, change ...func(*Options)) *Server {
	var rows []index.Row
	add := func(id, root string, inventories map[resource.Class]resource.Inventory, traits ...resource.Trait) {
		row := index.Row{Provider: provider.Provider{ID: provider.ID(id), Name: id, Root: provider.ID(root),
			Inventories: inventories, Traits: traits}}
		if id != root {
			row.Parent = provider.ID(root)
		}
		rows = append(rows, row)
	}
	for h := range hosts {
		host := fmt.Sprintf("00000000-0000-4000-8000-%012d", h)
		add(host, host, map[resource.Class]resource.Inventory{"VCPU": resource.Whole(64),
			"MEMORY_MB": resource.Whole(1 << 18), "DISK_GB": resource.Whole(2000)}, "COMPUTE_NODE", "HW_CPU_X86_AVX")
		for n := range nics {
			add(fmt.Sprintf("10000000-0000-4000-8000-%06d%06d", h, n), host,
				map[resource.Class]resource.Inventory{"CUSTOM_VF": resource.Whole(8)}, "CUSTOM_PHYSNET_A")
		}
	}
	opts := Options{Options: edge.Options{Authenticate: identity.NoAuth2, Enforcer: policies.Default()}}
	for _, c := range change {
		c(&opts)
	}
	s := &Server{opts: opts,
		service: &request.Service{Metrics: metrics.New(), Pick: rand.IntN, Search: opts.search()}}
	setDefaults(s)
	show(s, rows)
	return s
}

// candidatesOf queries candidates as admin.
func candidatesOf(version, query string) *http.Request {
	r := httptest.NewRequest("GET", "/allocation_candidates?"+query, nil)
	r.Header.Set("X-Auth-Token", "admin")
	r.Header.Set(api.VersionHeader, "placement "+version)
	return r
}

// wide is a query for a VF from each of three groups: 20 NICs of a host yield 20³ candidates.
const wide = "group_policy=none&resources_A=CUSTOM_VF:1&resources_B=CUSTOM_VF:1&resources_C=CUSTOM_VF:1"

// leavingClient is a client that disconnects after most bytes.
type leavingClient struct {
	*httptest.ResponseRecorder
	most       int
	disconnect func()
}

func (l *leavingClient) Write(data []byte) (int, error) {
	if l.Body.Len() >= l.most {
		l.disconnect()
		return 0, errors.New("the client has disconnected")
	}
	return l.ResponseRecorder.Write(data)
}

// listed queries candidates and returns the providers of each, sorted.
func listed(t *testing.T, s *Server, version, query string) []string {
	t.Helper()
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, candidatesOf(version, query))
	var got api.CandidatesDoc
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != 200 {
		t.Fatalf("%d %v %.300s", rec.Code, err, rec.Body)
	}
	var out []string
	for _, request := range got.Requests {
		var ids []string
		for id := range request.Allocations {
			ids = append(ids, string(id))
		}
		slices.Sort(ids)
		out = append(out, strings.Join(ids, " "))
	}
	return out
}

// With the option, the order is random and a limit selects from all candidates.
func TestRandomizedCandidates(t *testing.T) {
	s := fleet(10, 4, func(o *Options) { o.RandomizeCandidates = true })
	const query = "resources=VCPU:1&resources1=CUSTOM_VF:1"
	chance := rand.New(rand.NewPCG(1, 2))
	s.service.Shuffle, s.service.Pick = func(n int, swap func(i, j int)) { chance.Shuffle(n, swap) }, chance.IntN
	inOrder := listed(t, fleet(10, 4), "1.39", query)
	all := listed(t, s, "1.39", query)
	if slices.Equal(all, inOrder) || !slices.Equal(slices.Sorted(slices.Values(all)),
		slices.Sorted(slices.Values(inOrder))) {
		t.Errorf("want the same candidates in another order:\n%v\n%v", all, inOrder)
	}
	times := map[string]int{}
	const rounds = 500
	for range rounds {
		for _, one := range listed(t, s, "1.39", query+"&limit=4") {
			times[one]++
		}
	}
	for _, one := range inOrder { // the probability is 1/10; 5 standard deviations are 33
		if n := times[one]; n < rounds/10-33 || n > rounds/10+33 {
			t.Errorf("%s was selected in %d of %d rounds", one, n, rounds)
		}
	}
	if len(times) != len(inOrder) {
		t.Errorf("%d of %d were ever taken: %v", len(times), len(inOrder), slices.Sorted(maps.Keys(times)))
	}
	s.service.Search.MaxCandidates = 3 // which bounds what chance takes from
	if list := listed(t, s, "1.39", query); !slices.Equal(slices.Sorted(slices.Values(list)),
		slices.Sorted(slices.Values(inOrder[:3]))) {
		t.Errorf("%v, want %v in any order", list, inOrder[:3])
	}
}

// BenchmarkCandidates queries at most 1000 candidates for a server with one VF, in a fleet of 2000 hosts with four NICs
// each.
func BenchmarkCandidates(b *testing.B) {
	s := fleet(2000, 4)
	r := candidatesOf("1.39", "resources=VCPU:2,MEMORY_MB:1024&resources_VF=CUSTOM_VF:1"+
		"&required_VF=CUSTOM_PHYSNET_A&limit=1000")
	b.ReportAllocs()
	for b.Loop() {
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, r)
		if rec.Code != http.StatusOK || rec.Body.Len() < 100_000 {
			b.Fatalf("%d, %d bytes", rec.Code, rec.Body.Len())
		}
	}
}

// Before microversion 1.29, a candidate uses one provider of a tree. A wide host is not searched for others, and the
// reason explains it.
func TestFlatCandidatesOfAWideHost(t *testing.T) {
	s := fleet(1, 60)
	values := url.Values{"group_policy": {"isolate"}, "limit": {"10"}}
	for i := range 60 {
		values.Set(fmt.Sprintf("resources%d", i+1), "CUSTOM_VF:1")
	}
	for version, want := range map[string]int{"1.28": 0, "1.29": 10} {
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, candidatesOf(version, values.Encode()))
		var got struct {
			List []any `json:"allocation_requests"`
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != 200 || len(got.List) != want {
			t.Errorf("%s: %d, %d candidates, %v", version, rec.Code, len(got.List), err)
		}
		if reason := rec.Header().Get(api.ReasonHeader); (reason != "") != (want == 0) ||
			strings.ContainsFunc(reason, func(r rune) bool { return r > '~' }) {
			t.Errorf("%s: %q", version, reason)
		}
	}
}

// A query finds a tree by a UUID in other letters where the database does, as in the original.
func TestTreeInOtherLetters(t *testing.T) {
	const root = "abcdef00-0000-4000-8000-000000000001"
	for database, want := range map[string]int{databases.SharedMariaDB(t).Database(t): 1, databases.SQLite(t): 0} {
		w := newWorldOn(t, database)
		w.must("1.39", "POST", "/resource_providers", `{"name":"host","uuid":"`+root+`"}`)
		w.must("1.39", "PUT", "/resource_providers/"+root+"/inventories",
			`{"resource_provider_generation":0,"inventories":{"VCPU":{"total":1}}}`)
		var found api.CandidatesDoc
		if err := json.Unmarshal([]byte(w.must("1.39", "GET", "/allocation_candidates?resources=VCPU:1&in_tree="+
			strings.ToUpper(root), "")), &found); err != nil {
			t.Fatal(err)
		}
		if len(found.Requests) != want {
			t.Errorf("%s: %d candidates, want %d", database, len(found.Requests), want)
		}
	}
}
