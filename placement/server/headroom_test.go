package server

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/hosttree"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// roomyRows are the providers of three hosts with GPUs, of which one is disabled, in two aggregates.
func roomyRows() (rows []index.Row) {
	for i, traits := range [][]resource.Trait{nil, {"CUSTOM_A"}, {hosttree.StatusDisabled}} {
		root := index.Row{Provider: provider.Provider{ID: provider.ID(fmt.Sprint("r", i)), Name: fmt.Sprint("cmp", i),
			Root: provider.ID(fmt.Sprint("r", i)), Traits: traits,
			Inventories: map[resource.Class]resource.Inventory{"VCPU": resource.Whole(8),
				"DISK_GB": resource.Whole(100)}},
			Used: resource.Amounts{"VCPU": 2 * i, "DISK_GB": 99}}
		root.Aggregates = []resource.AggregateID{[]resource.AggregateID{"rack1", "rack2", "rack2"}[i]}
		rows = append(rows, root)
		for d := range 3 {
			gpu := index.Row{Provider: provider.Provider{ID: provider.ID(fmt.Sprint("g", i, d)),
				Name: fmt.Sprintf("cmp%d_0000:8%d:00.0", i, d), Parent: root.ID, Root: root.ID,
				Inventories: map[resource.Class]resource.Inventory{"CUSTOM_GPU": resource.Whole(1)}}}
			if d == 2 {
				gpu.Used = resource.Amounts{"CUSTOM_GPU": 1}
			}
			rows = append(rows, gpu)
		}
	}
	return rows
}

// room sends a query for the headroom.
func (w *world) room(query string) (out api.Headroom) {
	w.t.Helper()
	decode(w.t, w.want(200, "GET", "/berth/v1/headroom?"+query, ""), &out)
	return out
}

// The headroom is counted by host and aggregate, without the hosts that are disabled, and names what runs out first.
func TestHeadroom(t *testing.T) {
	w := newWorld(t)
	show(w.server, roomyRows())
	got := w.room("resources=VCPU:1&resources1=CUSTOM_GPU:1")
	want := api.Headroom{Headroom: host.Headroom{Fits: 4, Exact: true,
		RunsOut: []host.RunsOut{{Class: "CUSTOM_GPU", Hosts: 2}},
		ByHost: []host.HostHeadroom{{Host: "cmp0", Fits: 2, Exact: true, Lacks: []string{"CUSTOM_GPU"}},
			{Host: "cmp1", Fits: 2, Exact: true, Lacks: []string{"CUSTOM_GPU"}},
			{Host: "cmp2", Exact: true, Lacks: []string{}, Excluded: "it has the trait COMPUTE_STATUS_DISABLED"}}},
		Aggregates: []api.AggregateHeadroom{{Aggregate: "rack1", Fits: 2, Room: 1},
			{Aggregate: "rack2", Fits: 2, Room: 1}},
		NoRoom: []string{}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	got = w.room("resources=VCPU:4")
	if got.Fits != 3 || got.ByHost[0].Host != "cmp0" || got.ByHost[0].Fits != 2 ||
		got.Aggregates[0].Aggregate != "rack1" {
		t.Errorf("%+v", got)
	}
	if got = w.room("resources=VCPU:1&required=CUSTOM_A&limit=1"); got.Fits != 6 || len(got.Aggregates) != 1 {
		t.Errorf("with a trait, and a limit that means nothing: %+v", got)
	}
	if got = w.room("resources=DISK_GB:2"); got.Fits != 0 || !strings.Contains(got.Reason, "DISK_GB") ||
		len(got.ByHost) != 3 || got.ByHost[0].Lacks[0] != "DISK_GB" {
		t.Errorf("%+v", got)
	}
	if got = w.room("resources=VCPU:100"); got.Fits != 0 || got.Reason == "" || len(got.ByHost) != 1 ||
		!slices.Equal(got.NoRoom, []string{"cmp0", "cmp1"}) {
		t.Errorf("%+v", got)
	}
	got = w.room("resources=VCPU:4&exclude=cmp0&exclude=cmp9")
	if got.Fits != 1 || len(got.ByHost) != 3 || got.ByHost[1].Excluded != "the query excludes it" ||
		len(got.NoRoom) > 0 {
		t.Errorf("without cmp0: %+v", got)
	}
}

// What is not a query for candidates is refused, and a count that takes too long is 503 and not a number.
func TestHeadroomThatIsRefused(t *testing.T) {
	w := newWorld(t)
	for _, query := range []string{"", "resources=VCPU", "resources=VCPU:1&flavor=small", "resources=vcpu:1",
		"resources=VCPU:1&" + url.Values{"required": {"no trait"}}.Encode()} {
		w.want(400, "GET", "/berth/v1/headroom?"+query, "")
	}
	show(w.server, roomyRows())
	began, calls := time.Now(), 0
	w.server.service.Now = func() time.Time { calls++; return began.Add(time.Duration(calls) * 10 * time.Second) }
	if text := w.want(503, "GET", "/berth/v1/headroom?resources=VCPU:1", ""); !strings.Contains(text, "took too long") {
		t.Error(text)
	}
}
