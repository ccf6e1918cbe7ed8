package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/placement/server/request"
)

// A search that exceeds the time limit is answered with an error, never with an empty list.
func TestSearchTimeout(t *testing.T) {
	s, query := stuck()
	for _, path := range []string{"/allocation_candidates", "/berth/v1/explain"} {
		clock := time.Now()
		s.service.Now = func() time.Time { clock = clock.Add(time.Second); return clock }
		r := candidatesOf("1.39", query)
		r.URL.Path = path
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, r)
		if rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), "was stopped") ||
			!strings.Contains(rec.Body.String(), `"request_id"`) {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
}

// A search with millions of results stops when its client disconnects, and the connection is closed.
func TestSearchStopsWhenTheClientDisconnects(t *testing.T) {
	s := fleet(1, 200)
	query := wide + "&resources_D=CUSTOM_VF:1&resources_E=CUSTOM_VF:1" // 200⁵ candidates
	ctx, cancel := context.WithCancel(t.Context())
	rec := &leavingClient{httptest.NewRecorder(), 10 * request.ChunkSize, cancel}
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler {
				t.Errorf("the handler did not abort the connection: %v", p)
			}
		}()
		s.ServeHTTP(rec, candidatesOf("1.39", query).WithContext(ctx))
	}()
	if n := rec.Body.Len(); n < 10*request.ChunkSize || n > 12*request.ChunkSize {
		t.Errorf("%d bytes were sent to a client that disconnects after %d", n, 10*request.ChunkSize)
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

// A search that is stopped later and later is answered with 503, until eight chunks of its answer are sent.
func TestStoppedSearchOfALargeAnswer(t *testing.T) {
	s := fleet(1000, 2)
	query := wide + "&resources_D=CUSTOM_VF:1&resources_E=CUSTOM_VF:1"
	refused := 0
	for calls := 4; ; calls++ {
		began, left := time.Now(), calls
		s.service.Now = func() time.Time { // more than one hour, because sending does not count
			left--
			return began.Add(time.Duration(min(max(-left, 0), 4)) * time.Hour)
		}
		rec, aborted := httptest.NewRecorder(), false
		func() {
			defer func() { aborted = recover() == http.ErrAbortHandler }()
			s.ServeHTTP(rec, candidatesOf("1.39", query))
		}()
		if aborted {
			if n := rec.Body.Len(); n < 8*request.ChunkSize {
				t.Errorf("stopped after %d calls: the connection ended after %d bytes", calls, n)
			}
			break
		}
		if refused++; rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), "Not decided") {
			t.Fatalf("stopped after %d calls: %d %.300s", calls, rec.Code, rec.Body)
		}
	}
	if refused < 5 {
		t.Errorf("%d searches were refused", refused)
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

// A scheduler that asks for few candidates gets one of each host from a random one on, and only the summaries that it
// needs. Other clients get what they got before.
func TestCandidatesForScheduling(t *testing.T) {
	s := fleet(10, 4)
	s.service.Pick = func(n int) int { return n - 3 }
	query := candidatesOf("1.39", "resources=VCPU:1&resources1=CUSTOM_VF:1&limit=5")
	plain, brief := httptest.NewRecorder(), httptest.NewRecorder()
	s.ServeHTTP(plain, query)
	query.Header.Set(api.CandidatesHeader, api.ForScheduling)
	s.ServeHTTP(brief, query)
	var all, few api.CandidatesDoc
	for doc, from := range map[*api.CandidatesDoc]*httptest.ResponseRecorder{&all: plain, &few: brief} {
		if err := json.Unmarshal(from.Body.Bytes(), doc); err != nil || from.Code != http.StatusOK {
			t.Fatal(from.Code, err, from.Body)
		}
	}
	if len(all.Summaries) != 2*5 || len(all.Requests) != 5 {
		t.Errorf("a plain query: %d candidates, %d summaries", len(all.Requests), len(all.Summaries))
	}
	hosts := map[string]bool{}
	for _, r := range few.Requests {
		for id := range r.Allocations {
			summary, known := few.Summaries[id]
			root := few.Summaries[summary.Root]
			if !known || len(summary.Traits)+len(root.Traits) > 0 || root.Resources["VCPU"].Capacity != 64 {
				t.Errorf("%s: %+v, its root: %+v", id, summary, root)
			}
			hosts[string(summary.Root)[34:]] = true
		}
	}
	if got := slices.Sorted(maps.Keys(hosts)); !slices.Equal(got, []string{"00", "01", "07", "08", "09"}) {
		t.Errorf("the candidates are on hosts %v", got)
	}
	whole := httptest.NewRecorder()
	query.Header.Set(api.CandidatesHeader, api.ForPlanning)
	s.ServeHTTP(whole, query)
	var trees api.CandidatesDoc
	err, traits := json.Unmarshal(whole.Body.Bytes(), &trees), 0
	for _, summary := range trees.Summaries {
		traits += len(summary.Traits)
	}
	if err != nil || len(trees.Requests) != 5 || len(trees.Summaries) != 5*(1+4) || traits != 5*(2+4) {
		t.Errorf("for planning: %d candidates, %d summaries, %d traits, %v", len(trees.Requests), len(trees.Summaries),
			traits, err)
	}
	if plain.Header().Get(api.LimitHeader) != "" || brief.Header().Get(api.LimitHeader) != "0" {
		t.Errorf("limits %q and %q", plain.Header().Get(api.LimitHeader), brief.Header().Get(api.LimitHeader))
	}
	if len(few.Summaries) != 2*5 {
		t.Errorf("%d summaries of 5 hosts with one provider each", len(few.Summaries))
	}
}
