package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// newHistoryWorld returns a server that keeps a usage history, and its clock.
func newHistoryWorld(t *testing.T) (*world, *time.Time) {
	t.Helper()
	w := newWorld(t, func(o *Options) { o.KeepHistory = true })
	if err := w.store.CreateHistory(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 27, 11, 58, 20, 0, time.UTC)
	w.server.service.Now = func() time.Time { return now }
	w.server.verifiedAt.Store(&now) // the index is as new as the clock
	return w, &now
}

// A minute in which nothing was recorded is null, never zero; what was used is there in each other minute.
func TestUsageHistory(t *testing.T) {
	w, now := newHistoryWorld(t)
	host, _ := createHost(t, w.client(), "host", 4, 2)
	record := func() {
		t.Helper()
		if dropped, err := w.server.recordUsage(t.Context()); err != nil || dropped != 0 {
			t.Fatal(dropped, err)
		}
	}
	record() // 11:58
	w.want(204, "PUT", "/allocations/c0000000-0000-4000-8000-000000000001",
		fmt.Sprintf(`{"allocations":{"%s":{"resources":{"VCPU":3}}},"project_id":"p","user_id":"u",`+
			`"consumer_generation":null,"consumer_type":"INSTANCE"}`, host))
	record() // not again
	*now = now.Add(time.Minute)
	record() // 11:59
	*now = now.Add(3 * time.Minute)
	record() // 12:02
	old := now.Add(-2 * time.Minute)
	w.server.verifiedAt.Store(&old)
	*now = now.Add(time.Minute)
	record() // 12:03: the index is old
	got, err := w.client().UsageHistory(t.Context(), api.HistoryQuery{From: now.Add(-6 * time.Minute), To: *now})
	if err != nil {
		t.Fatal(err)
	}
	free, used := `{"total":4,"reserved":0,"used":0}`, `{"total":4,"reserved":0,"used":3}`
	want := `[null,` + free + `,` + used + `,null,null,` + used + `]`
	if text, _ := json.Marshal(got.Classes["VCPU"]); string(text) != want || got.Step != 1 ||
		!got.From.Equal(time.Date(2026, 11, 27, 11, 57, 0, 0, time.UTC)) || len(got.Classes) < 2 {
		t.Errorf("%s %d %s", text, got.Step, got.From)
	}
	got, err = w.client().UsageHistory(t.Context(), api.HistoryQuery{From: now.Add(-6 * time.Minute), To: *now,
		Step: 5 * time.Minute, Classes: []resource.Class{"VCPU"}})
	if text, _ := json.Marshal(got); err != nil ||
		string(text) != `{"from":"2026-11-27T11:55:00Z","step_minutes":5,"classes":{"VCPU":[`+used+`,`+used+`]}}` {
		t.Errorf("%s %v", text, err)
	}
	const rack = "a0000000-0000-4000-8000-000000000001"
	w.want(200, "PUT", "/resource_providers/"+string(host)+"/aggregates", fmt.Sprintf(
		`{"resource_provider_generation":%d,"aggregates":["%s"]}`, generationOf(t, w, host), rack))
	w.server.verifiedAt.Store(now)
	*now = now.Add(time.Minute)
	record() // 12:04
	got, err = w.client().UsageHistory(t.Context(), api.HistoryQuery{From: now.Add(-2 * time.Minute),
		To: now.Add(time.Minute), Classes: []resource.Class{"VCPU"}, Aggregate: rack})
	if text, _ := json.Marshal(got.Classes); err != nil || string(text) != `{"VCPU":[null,null,`+used+`]}` {
		t.Errorf("%s %v", text, err)
	}
	day := w.want(200, "GET", "/berth/v1/usage-history?class=VCPU", "")
	if n := strings.Count(day, "null") + 3; n != 24*60 {
		t.Errorf("a day has %d minutes", n)
	}
	month := w.want(200, "GET", "/berth/v1/usage-history?class=VCPU&from=2026-10-28T00:00:00Z", "")
	if !strings.Contains(month, `"step_minutes":30`) {
		t.Error(month[:100])
	}
}

// A wrong query is refused with what to write.
func TestUsageHistoryRefusals(t *testing.T) {
	w, _ := newHistoryWorld(t)
	for query, want := range map[string]string{
		"from=yesterday": "is not a time such as", "to=1960-01-01T00:00:00Z": "after 1970", "step=0": "from 1 to 44640",
		"step=1h": "number of minutes", "class=CUSTOM_NO": "CUSTOM_NO", "since=1": "from, to and step",
		"from=2026-11-27T11:58:30Z": "at least a minute", "from=2026-12-27T11:58:30Z": "at least a minute",
		"aggregate=rack": "is not a UUID", "from=2026-11-20T11:58:30Z&step=6": "step=7",
		"class=" + strings.Repeat("A&class=", 100): "at most 100",
	} {
		if text := w.want(400, "GET", "/berth/v1/usage-history?"+query, ""); !strings.Contains(text, want) {
			t.Errorf("%s: %s", query, text)
		}
	}
	w.server.opts.KeepHistory = false
	if _, err := w.client().UsageHistory(t.Context(), api.HistoryQuery{}); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

// Run records the minute that begins while it runs.
func TestRunRecordsUsage(t *testing.T) {
	w, _ := newHistoryWorld(t)
	createHost(t, w.client(), "host", 4, 2)
	began, base := time.Now(), time.Date(2026, 11, 27, 12, 0, 59, 900_000_000, time.UTC)
	w.server.service.Now = func() time.Time { return base.Add(time.Since(began)) }
	w.server.verifiedAt.Store(&base)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.server.Run(ctx) }()
	defer func() { stop(); <-ended }()
	testenv.Until(t, "the minute is recorded", func() bool {
		got, err := w.client().UsageHistory(t.Context(), api.HistoryQuery{From: base.Add(-time.Minute),
			To: base.Add(2 * time.Minute), Classes: []resource.Class{"VCPU"}})
		if err != nil {
			t.Fatal(err)
		}
		if list := got.Classes["VCPU"]; list != nil {
			if len(list) != 3 || list[0] != nil || list[1] != nil || list[2] == nil || list[2].Total != 4 {
				t.Errorf("%+v", list)
			}
			return true
		}
		return false
	})
}

// generationOf returns the generation of a provider.
func generationOf(t *testing.T, w *world, id provider.ID) int {
	t.Helper()
	p, err := w.store.Provider(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return p.Generation
}
