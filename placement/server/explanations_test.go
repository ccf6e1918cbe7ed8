package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/placement/explain"
	"github.com/openberth/berth/resource"
)

// The explanation names the providers that are in use and their consumers.
func TestExplainNamesConsumers(t *testing.T) {
	w := newWorld(t)
	host, _ := createHost(t, w.client(), "host", 4, 1)
	const consumer = "c0000000-0000-4000-8000-000000000001"
	w.want(204, "PUT", "/allocations/"+consumer,
		fmt.Sprintf(`{"allocations":{"%s":{"resources":{"VCPU":3}}},"project_id":"p","user_id":"u",`+
			`"consumer_generation":null,"consumer_type":"INSTANCE"}`, host))
	var answer api.Explanation
	if err := json.Unmarshal([]byte(w.want(200, "GET", "/berth/v1/explain?resources=VCPU:2", "")),
		&answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Nearest) != 1 || len(answer.Nearest[0].Deficits) != 1 {
		t.Fatalf("%+v", answer)
	}
	d := answer.Nearest[0].Deficits[0]
	want := []api.ExplainHolder{{Provider: host, Name: "host", Consumers: []resource.ConsumerID{consumer}}}
	if d.Cause != "held" || d.Text != "VCPU: asks 2, 1 of 4 free" ||
		!slices.EqualFunc(d.HeldBy, want, func(a, b api.ExplainHolder) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		t.Errorf("%+v", d)
	}
}

// An empty list has a reason, and explain returns the details.
func TestReasonForNoCandidates(t *testing.T) {
	w := newWorld(t)
	host, _ := createHost(t, w.client(), "host", 4, 1)
	ask := resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 9}}}}
	why := explain.Why(w.server.service.Index.Snapshot(), ask, nil)
	found, err := w.client().Candidates(t.Context(), ask)
	if err != nil || len(found.List) != 0 || found.Reason != why.Reason || found.Reason == "" {
		t.Errorf("%+v, %v, want %q", found, err, why.Reason)
	}
	if found.Why != nil {
		t.Errorf("a client that does not schedule gets %+v", found.Why)
	}
	scheduler := w.client()
	scheduler.REST = scheduler.REST.WithHeader(api.CandidatesHeader, api.ForScheduling)
	found, err = scheduler.Candidates(t.Context(), ask)
	if err != nil || found.Why == nil || found.Why.Reason != why.Reason || len(found.Why.Nearest) != 1 ||
		!slices.Equal(found.Why.Funnel[len(found.Why.Funnel)-1].Removed, []string{"host"}) {
		t.Errorf("%+v, %v", found, err)
	}
	long, err := w.client().Explain(t.Context(), ask)
	if err != nil || long.Reason != why.Reason || len(long.Nearest) == 0 || long.Nearest[0].Root != host ||
		long.Nearest[0].Host != "host" {
		t.Errorf("%+v, %v, want %+v", long, err, why)
	}
	var answer struct {
		Reason  string
		Funnel  []struct{ Clause string }
		Minimal []string
		Nearest []any
	}
	resp := w.ask("1.0", "GET", "/berth/v1/explain?resources=VCPU:9", "")
	if err := json.Unmarshal([]byte(bodyOf(t, resp)), &answer); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%d %v", resp.StatusCode, err)
	}
	if answer.Reason != why.Reason || len(answer.Funnel) != len(why.Funnel) ||
		!slices.Equal(answer.Minimal, why.Minimal) ||
		answer.Nearest == nil {
		t.Errorf("%+v, want %+v", answer, why)
	}
	if resp := w.ask("1.39", "GET", "/berth/v1/explain?resources=VCPU", ""); resp.StatusCode != 400 {
		t.Errorf("%d", resp.StatusCode)
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
