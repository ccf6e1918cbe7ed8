package server

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/server/request"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
)

// scrape returns the text of /metrics.
func scrape(t *testing.T, s *Server) string {
	t.Helper()
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	if rec.Code != 200 || !strings.HasPrefix(rec.Header().Get("Content-Type"), "text/plain") {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}

// wantLines checks that /metrics contains these lines.
func wantLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			name, _, _ := strings.Cut(line, "{")
			var have []string
			for l := range strings.Lines(text) {
				if strings.HasPrefix(l, name) {
					have = append(have, l)
				}
			}
			t.Errorf("no line %s, but\n%s", line, strings.Join(have, ""))
		}
	}
}

// healthOf requests /healthz without a token.
func healthOf(t *testing.T, s *Server) (status int, health struct {
	Status, Reason string
	Index          struct {
		Trees, Providers int
		Age              int `json:"age_seconds"`
	}
}) {
	t.Helper()
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, httptest.NewRequest("GET", "/healthz", nil))
	if err := json.Unmarshal(rec.Body.Bytes(), &health); err != nil ||
		rec.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	return rec.Code, health
}

// /healthz needs no token. It reports whether the database answers and the index is not too old.
func TestHealth(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.MaxIndexAge = 10 * time.Second })
	clock := time.Now()
	var mu sync.Mutex
	w.server.service.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return clock }
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); clock = clock.Add(d) }
	createHost(t, w.client(), "host", 4, 1)
	pass(9 * time.Second)
	if status, health := healthOf(t, w.server); status != 200 || health.Status != "ok" || health.Reason != "" ||
		health.Index.Trees != 1 || health.Index.Providers != 2 || health.Index.Age < 8 {
		t.Errorf("%d %+v", status, health)
	}
	pass(2 * time.Second)
	const tooOld = "The index is 11s old, more than the limit of 10s."
	if status, health := healthOf(t, w.server); status != 503 || health.Status != "unavailable" ||
		health.Reason != tooOld {
		t.Errorf("%d %+v", status, health)
	}
	if err := w.server.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	pass(edge.HealthAge)
	if status, health := healthOf(t, w.server); status != 200 || health.Index.Age != 1 {
		t.Errorf("after a reload: %d %+v", status, health)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if status, health := healthOf(t, w.server); status != 200 {
		t.Errorf("within edge.HealthAge: %d %+v, want the cached answer", status, health)
	}
	pass(edge.HealthAge)
	if status, health := healthOf(t, w.server); status != 503 || health.Reason != "The database does not answer." {
		t.Errorf("without a database: %d %+v", status, health)
	}
	wantLines(t, scrape(t, w.server), `berth_placement_database_errors_total{operation="Version"} 1`)
}

// Without MaxIndexAge an index of any age is healthy.
func TestHealthOfAnOldIndex(t *testing.T) {
	w := newWorld(t)
	later := time.Now().Add(1000 * time.Hour)
	w.server.service.Now = func() time.Time { return later }
	if status, health := healthOf(t, w.server); status != 200 || health.Index.Age < 999*3600 {
		t.Errorf("%d %+v", status, health)
	}
}

func TestInternalPaths(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]int{"/healthz": 405, "/metrics": 405, "/healthz/": 401, "/metrics/x": 401} {
		rec := httptest.NewRecorder()
		w.server.ServeHTTP(rec, httptest.NewRequest("POST", path, nil))
		if rec.Code != want || (want == 405) != (rec.Header().Get("Allow") == "GET, HEAD") {
			t.Errorf("POST %s: %d %v", path, rec.Code, rec.Header())
		}
	}
	rec := httptest.NewRecorder()
	w.server.ServeHTTP(rec, httptest.NewRequest("HEAD", "/healthz", nil))
	if rec.Code != 200 {
		t.Errorf("HEAD: %d", rec.Code)
	}
}

// Requests, claims and conflicts are counted by their outcome.
func TestMetrics(t *testing.T) {
	w := newWorld(t)
	_, nic := createHost(t, w.client(), "host", 4, 1)
	claim := func(on provider.ID, n int) string {
		return fmt.Sprintf(`{"allocations":{%q:{"resources":{"CUSTOM_VF":%d}}},"project_id":"p","user_id":"u",`+
			`"consumer_generation":null,"consumer_type":"X"}`, on, n)
	}
	w.want(409, "PUT", "/allocations/"+uuid.NewString(), claim(nic, 2))
	id := uuid.NewString()
	w.want(204, "PUT", "/allocations/"+id, claim(nic, 1))
	w.want(409, "PUT", "/allocations/"+id, claim(nic, 1))
	w.want(200, "GET", "/allocation_candidates?resources=VCPU:1", "")
	w.want(200, "GET", "/allocation_candidates?resources=VCPU:9", "")
	w.want(200, "GET", "/berth/v1/explain?resources=VCPU:1", "")
	w.want(404, "GET", "/nowhere", "")
	w.want(404, "GET", "/resource_providers/"+uuid.NewString(), "")
	w.want(405, "BREW", "/resource_providers", "")
	w.handle("/panics", func(*request.Call) error { panic("no") })
	w.want(500, "GET", "/panics", "")
	text := scrape(t, w.server)
	wantLines(t, text,
		`berth_placement_requests_total{method="PUT",route="/allocations/{uuid}",status="204"} 1`,
		`berth_placement_requests_total{method="PUT",route="/allocations/{uuid}",status="409"} 2`,
		`berth_placement_requests_total{method="GET",route="none",status="404"} 1`,
		`berth_placement_requests_total{method="GET",route="/resource_providers/{uuid}",status="404"} 1`,
		`berth_placement_requests_total{method="other",route="/resource_providers",status="405"} 1`,
		`berth_placement_request_duration_seconds_count{method="PUT",route="/allocations/{uuid}"} 3`,
		`berth_placement_candidates_duration_seconds_count 2`,
		`berth_placement_candidates_found_bucket{le="0"} 1`,
		`berth_placement_candidates_found_sum 1`,
		`berth_placement_explain_duration_seconds_count 2`,
		`berth_placement_claims_total{outcome="granted"} 1`,
		`berth_placement_claims_total{outcome="refused"} 2`,
		`berth_placement_claims_total{outcome="failed"} 0`,
		`berth_placement_conflicts_total{code="placement.undefined_code"} 1`,
		`berth_placement_conflicts_total{code="placement.concurrent_update"} 1`,
		`berth_placement_panics_total 1`,
		`berth_placement_requests_in_flight 0`,
		`berth_placement_index_trees 1`,
		`berth_placement_index_providers 2`,
		`berth_placement_index_lag_seconds 0`,
		`berth_placement_transaction_duration_seconds_count{operation="PutAllocations"} 3`,
	)
	// Two claims in one request: neither is granted, and both are counted.
	w.server.service.Metrics.Claims(2, nil)
	wantLines(t, scrape(t, w.server), `berth_placement_claims_total{outcome="granted"} 3`)
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if resp := w.ask("1.39", "PUT", "/allocations/"+uuid.NewString(), claim(nic, 1)); resp.StatusCode != 503 {
		t.Errorf("%d", resp.StatusCode)
	}
	wantLines(t, scrape(t, w.server), `berth_placement_claims_total{outcome="failed"} 1`,
		`berth_placement_database_errors_total{operation="PutAllocations"} 1`)
}

// lostDatabase is a store whose database file was deleted.
type lostDatabase struct{ *store.Store }

func (lostDatabase) Available() error {
	return fault.New(fault.Unavailable, "the database's file was deleted")
}

// After the database file is lost, every request is refused, also one that needs only the index, and /healthz reports
// why.
func TestRequestsAreRefusedAfterTheDatabaseFileIsLost(t *testing.T) {
	w := newWorld(t)
	createHost(t, w.client(), "host", 4, 1)
	w.want(200, "GET", "/allocation_candidates?resources=VCPU:1", "")
	w.server.database = lostDatabase{w.store}
	w.server.edge = edge.New(w.server.declare())
	for _, path := range []string{"/allocation_candidates?resources=VCPU:1", "/resource_providers", "/"} {
		w.want(503, "GET", path, "")
	}
	if status, health := healthOf(t, w.server); status != 503 || health.Reason != "The database's file was deleted, "+
		"moved or replaced; the service stops." {
		t.Errorf("%d %+v", status, health)
	}
}
