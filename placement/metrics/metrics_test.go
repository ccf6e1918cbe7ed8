package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// busy returns a set in which every metric has a value.
func busy() *Set {
	s := New()
	s.WatchIndex(func() Index { return Index{Trees: 3, Providers: 40, Age: 1500 * time.Millisecond, Lag: time.Second} })
	s.WatchResources(func() *index.Snapshot {
		rows := []index.Row{{Provider: provider.Provider{ID: "r", Root: "r",
			Inventories: map[resource.Class]resource.Inventory{"VGPU": resource.Whole(4)},
			Aggregates:  []resource.AggregateID{"rack"}}, Used: resource.Amounts{"VGPU": 3}}}
		return index.Build(rows)
	})
	s.Begin()
	s.Wait()
	s.Panic()
	s.Request("/traits", "GET", 200, 2*time.Millisecond, 100)
	s.Candidates(time.Millisecond, 5)
	s.Explain(time.Millisecond)
	s.Claims(2, nil)
	s.Conflict("placement.concurrent_update")
	s.Transaction("PutAllocations", 3, time.Second, fault.New(fault.Unavailable, "down"))
	return s
}

func shown(t *testing.T, s *Set) string {
	t.Helper()
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	if rec.Code != 200 {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}

func wantLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// docs/monitoring/README.md lists exactly the existing metrics with their labels. Those of requests are listed for
// every service.
func TestManualListsAllMetrics(t *testing.T) {
	manual, err := os.ReadFile("../../docs/monitoring/README.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `((?:berth_(?:placement|build)|…)_[a-z_]+)` \\| ([^|]*) \\| [^|]{10,} \\|$")
	listed := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(bytes.ReplaceAll(manual, []byte("| |"), []byte("|  |"))), -1) {
		labels := strings.Fields(strings.ReplaceAll(m[2], "`", ""))
		slices.Sort(labels)
		listed[strings.Replace(m[1], "…", "berth_placement", 1)] = fmt.Sprint(labels)
	}
	families, err := busy().Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]string{}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "berth_") {
			continue
		}
		var labels []string
		for _, pair := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		have[family.GetName()] = fmt.Sprint(labels)
		if family.GetHelp() == "" {
			t.Errorf("%s has no help", family.GetName())
		}
	}
	if !maps.Equal(listed, have) {
		t.Errorf("docs/monitoring/README.md lists\n%v\nthe code has\n%v", listed, have)
	}
}

func TestHandlerExposesMetrics(t *testing.T) {
	text := shown(t, busy())
	wantLines(t, text,
		`berth_placement_requests_in_flight 1`,
		`berth_placement_panics_total 1`,
		`berth_placement_searches_waiting 1`,
		`berth_placement_requests_total{method="GET",route="/traits",status="200"} 1`,
		`berth_placement_request_duration_seconds_bucket{method="GET",route="/traits",le="0.001"} 0`,
		`berth_placement_request_duration_seconds_bucket{method="GET",route="/traits",le="0.0025"} 1`,
		`berth_placement_response_bytes_total{route="/traits"} 100`,
		`berth_placement_candidates_found_sum 5`,
		`berth_placement_candidates_duration_seconds_count 1`,
		`berth_placement_explain_duration_seconds_count 1`,
		`berth_placement_claims_total{outcome="granted"} 2`,
		`berth_placement_claims_total{outcome="refused"} 0`,
		`berth_placement_conflicts_total{code="placement.concurrent_update"} 1`,
		`berth_placement_transaction_retries_total{operation="PutAllocations"} 2`,
		`berth_placement_transaction_duration_seconds_sum{operation="PutAllocations"} 1`,
		`berth_placement_database_errors_total{operation="PutAllocations"} 1`,
		`berth_placement_capacity{class="VGPU"} 4`,
		`berth_placement_used{class="VGPU"} 3`,
		`berth_placement_aggregate_capacity{aggregate="rack",class="VGPU"} 4`,
		`berth_placement_aggregate_used{aggregate="rack",class="VGPU"} 3`,
		`berth_placement_state_errors_total 0`,
		`berth_placement_index_trees 3`,
		`berth_placement_index_providers 40`,
		`berth_placement_index_age_seconds 1.5`,
		`berth_placement_index_lag_seconds 1`,
	)
	for _, name := range []string{"berth_build_info{goversion=\"go", "go_goroutines ", "process_resident_memory_bytes "} {
		if !strings.Contains(text, "\n"+name) {
			t.Errorf("no %s", name)
		}
	}
}

// A refusal counts as refused, a disconnected client as abandoned, an error of the service as failed.
func TestClaimOutcomes(t *testing.T) {
	for _, c := range []struct {
		err                      error
		granted, refused, failed int
		counts                   bool
	}{
		{nil, 1, 0, 0, false},
		{fault.New(fault.Conflict, "no"), 0, 1, 0, false},
		{fault.New(fault.NoCapacity, "no"), 0, 1, 0, false},
		{fault.New(fault.Invalid, "no"), 0, 1, 0, false},
		{fault.New(fault.Unavailable, "down"), 0, 0, 1, true},
		{errors.New("broken"), 0, 0, 1, true},
		{fault.Wrap(fault.Unavailable, context.Canceled), 0, 0, 0, false},
		{fault.Wrap(fault.Unavailable, context.DeadlineExceeded), 0, 0, 1, true},
	} {
		s := New()
		s.Claims(1, c.err)
		s.Transaction("X", 1, time.Millisecond, c.err)
		text := shown(t, s)
		wantLines(t, text, fmt.Sprintf(`berth_placement_claims_total{outcome="granted"} %d`, c.granted),
			fmt.Sprintf(`berth_placement_claims_total{outcome="refused"} %d`, c.refused),
			fmt.Sprintf(`berth_placement_claims_total{outcome="failed"} %d`, c.failed))
		if strings.Contains(text, `database_errors_total{operation="X"} 1`) != c.counts ||
			strings.Contains(text, "retries_total{") {
			t.Errorf("%v: %s", c.err, text)
		}
	}
}

// Methods that are not standard share one series.
func TestUnknownMethodsShareASeries(t *testing.T) {
	s := New()
	for i := range 1000 {
		s.Request("", fmt.Sprintf("M%d", i), 404, time.Millisecond, 1)
	}
	wantLines(t, shown(t, s), `berth_placement_requests_total{method="other",route="none",status="404"} 1000`)
}

// BenchmarkRequest measures the cost of recording a request.
func BenchmarkRequest(b *testing.B) {
	s := New()
	b.ReportAllocs()
	for b.Loop() {
		s.Begin()
		s.Request("/allocations/{uuid}", "PUT", 204, time.Millisecond, 0)
		s.Claims(1, nil)
		s.Transaction("PutAllocations", 1, time.Millisecond, nil)
		s.End()
	}
}
