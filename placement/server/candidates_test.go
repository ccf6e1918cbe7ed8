package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/openberth/berth/api/identity"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/metrics"
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
	opts := Options{Auth: identity.NoAuth2, Enforcer: defaultEnforcer{}}
	for _, c := range change {
		c(&opts)
	}
	s := &Server{opts: opts, metrics: metrics.New(), routes: routes(), index: newLiveIndex(nil), names: newNameCache(nil),
		pick: rand.IntN, available: func() error { return nil }}
	s.scrape = s.metrics.Handler()
	setDefaults(s)
	s.index.snapshot.Store(index.Build(rows))
	// in the name cache, so that no store is needed
	s.names.classes = map[resource.Class]bool{"VCPU": true, "MEMORY_MB": true, "CUSTOM_VF": true}
	s.names.traits = map[resource.Trait]bool{"CUSTOM_PHYSNET_A": true}
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

// A large answer is sent in chunks, a small one with its length. The content is the same.
func TestLargeAnswersAreSentInChunks(t *testing.T) {
	web := httptest.NewServer(fleet(1, 20))
	defer web.Close()
	for _, c := range []struct {
		limit, want int
		whole       bool
	}{{1, 1, true}, {100, 100, true}, {7000, 7000, false}, {0, 8000, false}} {
		query := wide
		if c.limit > 0 {
			query += fmt.Sprint("&limit=", c.limit)
		}
		r := candidatesOf("1.39", query)
		r.RequestURI, r.URL.Scheme, r.URL.Host = "", "http", web.Listener.Addr().String()
		resp, err := web.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		var got api.CandidatesDoc
		if err := errors.Join(err, json.Unmarshal(body, &got)); err != nil || resp.StatusCode != 200 ||
			len(got.Requests) != c.want || len(got.Summaries) != 21 {
			t.Fatalf("limit %d: %d, %v, %d candidates, %d summaries", c.limit, resp.StatusCode, err, len(got.Requests),
				len(got.Summaries))
		}
		length := resp.Header.Get("Content-Length")
		if c.whole && length != strconv.Itoa(len(body)) || !c.whole && (length != "" || len(body) < chunkSize) {
			t.Errorf("limit %d: %d bytes, content-length %q", c.limit, len(body), length)
		}
		for _, name := range []string{api.VersionHeader, "Last-Modified", "X-Openstack-Request-Id"} {
			if resp.Header.Get(name) == "" {
				t.Errorf("limit %d: no %s", c.limit, name)
			}
		}
	}
}

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

// A search with millions of results stops when its client disconnects, and the connection is closed.
func TestSearchStopsWhenTheClientDisconnects(t *testing.T) {
	s := fleet(1, 200)
	query := wide + "&resources_D=CUSTOM_VF:1&resources_E=CUSTOM_VF:1" // 200⁵ candidates
	ctx, cancel := context.WithCancel(t.Context())
	rec := &leavingClient{httptest.NewRecorder(), 3 * chunkSize, cancel}
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler {
				t.Errorf("the handler did not abort the connection: %v", p)
			}
		}()
		s.ServeHTTP(rec, candidatesOf("1.39", query).WithContext(ctx))
	}()
	if n := rec.Body.Len(); n < 3*chunkSize || n > 5*chunkSize {
		t.Errorf("%d bytes were sent to a client that disconnects after %d", n, 3*chunkSize)
	}
	// The client disconnects before the first chunk: the search stops.
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	again := httptest.NewRecorder()
	s.ServeHTTP(again, candidatesOf("1.39", query).WithContext(ctx))
	if again.Code != http.StatusServiceUnavailable {
		t.Errorf("%d", again.Code)
	}
	if text := scrape(t, s); !strings.Contains(text,
		`berth_placement_requests_total{method="GET",route="/allocation_candidates",status="499"} 2`) {
		t.Error("the metrics do not count disconnected clients:", text)
	}
}

// max_allocation_candidates bounds the search; a limit applies in addition.
func TestMaxCandidates(t *testing.T) {
	for _, c := range []struct {
		most, limit int
		breadth     bool
		want, hosts int
	}{
		{0, 0, false, 40, 10}, {-1, 0, false, 40, 10}, {-1, 7, false, 7, 2}, {6, 0, false, 6, 2}, {6, 7, false, 6, 2},
		{7, 6, false, 6, 2},
		{6, 0, true, 6, 6}, {-1, 12, true, 12, 10}, {-1, 0, true, 40, 10},
	} {
		s := fleet(10, 4, func(o *Options) { o.MaxCandidates, o.BreadthFirst = c.most, c.breadth })
		query := "resources=VCPU:1&resources1=CUSTOM_VF:1"
		if c.limit > 0 {
			query += fmt.Sprint("&limit=", c.limit)
		}
		list := listed(t, s, "1.39", query)
		hosts := map[string]bool{}
		for _, providers := range list {
			hosts[strings.Fields(providers)[0]] = true
		}
		if len(list) != c.want || len(hosts) != c.hosts {
			t.Errorf("%+v: %d candidates on %d hosts", c, len(list), len(hosts))
		}
	}
	// Before 1.29, candidates with several providers of a tree are not returned.
	s := fleet(10, 4, func(o *Options) { o.MaxCandidates = 6 })
	if list := listed(t, s, "1.28", "resources=VCPU:1,CUSTOM_VF:1"); len(list) != 0 {
		t.Errorf("%v", list)
	}
	if list := listed(t, s, "1.28", "resources=VCPU:1&limit=3"); len(list) != 3 {
		t.Errorf("%v", list)
	}
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
	s.shuffle, s.pick = func(n int, swap func(i, j int)) { chance.Shuffle(n, swap) }, chance.IntN
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
	s.opts.MaxCandidates = 3 // which bounds what chance takes from
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

// An explanation stops when its client disconnects.
func TestExplanationStopsWhenTheClientDisconnects(t *testing.T) {
	s := fleet(10, 4)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := candidatesOf("1.39", "resources=VCPU:65").WithContext(ctx)
	r.URL.Path = "/berth/v1/explain"
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	if rec.Code != http.StatusServiceUnavailable || strings.Contains(rec.Body.String(), "VCPU") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	wantLines(t, scrape(t, s), `berth_placement_requests_total{method="GET",route="/berth/v1/explain",status="499"} 1`)
}
