package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
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
	if err := json.Unmarshal([]byte(w.want(200, "GET", "/berth/v1/explain?resources=VCPU:2", "")), &answer); err != nil {
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

// packing returns a host and a query for amounts that would fit on its devices only if an amount could be split. The
// search takes long.
func packing() (rows []index.Row, query string) {
	root := provider.ID("00000000-0000-4000-8000-000000000000")
	rows = []index.Row{{Provider: provider.Provider{ID: root, Name: "host", Root: root}}}
	for i := range 8 {
		id := provider.ID(fmt.Sprintf("10000000-0000-4000-8000-%012d", i))
		rows = append(rows, index.Row{Provider: provider.Provider{ID: id, Name: string(id), Parent: root, Root: root,
			Inventories: map[resource.Class]resource.Inventory{"CUSTOM_VF": resource.Whole(101)}}})
	}
	values := url.Values{"group_policy": {"none"}}
	for i := range 26 {
		amount := 20 + 2*(i*7%11)
		if i < 12 {
			amount += 2
		}
		values.Set(fmt.Sprintf("resources_%d", i), fmt.Sprintf("CUSTOM_VF:%d", amount))
	}
	return rows, values.Encode()
}

// A search that exceeds the time limit is answered with an error, never with an empty list.
func TestSearchTimeout(t *testing.T) {
	s := fleet(1, 1)
	rows, query := packing()
	s.index.snapshot.Store(index.Build(rows))
	for _, path := range []string{"/allocation_candidates", "/berth/v1/explain"} {
		clock := time.Now()
		s.now = func() time.Time { clock = clock.Add(time.Second); return clock }
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
