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

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/pci"
)

// cloud is a source of state.
type cloud struct {
	projects int
	caches   int // hosts with copies of images, beside the others
	err      error
}

func (c cloud) Hosts(context.Context) ([]schedule.Host, error) {
	gpu := func(state pci.State, disabled bool) pci.Offered {
		return pci.Offered{ResourceClass: "CUSTOM_GPU", State: state, Disabled: disabled}
	}
	all := []schedule.Host{
		{Name: "h1", Devices: []pci.Offered{gpu(pci.Available, false), gpu(pci.Available, true), gpu(pci.Allocated, true)}},
		{Name: "h2", Conditions: []condition.Condition{
			condition.New(condition.Transfer, "", "an image is copied"),
			condition.New(condition.Sync, "", "a disk is full"),
		}, NotFollowed: "it is old"},
		{Name: "silent"}, {Name: "dead"}, {Name: "stuck", HypervisorState: schedule.HypervisorState{Down: "no KVM"}},
	}
	for n := range c.caches {
		all = append(all, schedule.Host{Name: fmt.Sprintf("cache%d", n)})
	}
	return all, c.err
}

func (cloud) Dead(context.Context) ([]string, error) { return []string{"dead"}, nil }

func (cloud) DisabledHosts(context.Context) (map[string]string, error) {
	return map[string]string{"h2": "", "dead": "broken"}, nil
}

func (c cloud) ServerCounts(context.Context) (store.ServerCounts, error) {
	counts := store.ServerCounts{Statuses: map[string]int{"ACTIVE": 7, "ERROR": 1}, Projects: map[string]int{}}
	for n := range c.projects {
		counts.Projects[fmt.Sprintf("p%03d", n)] = 1 + n
	}
	return counts, nil
}

func (cloud) IsSilent(host string) bool { return host == "silent" }

func (cloud) LastSign(host string) (bool, time.Duration) {
	return true, map[string]time.Duration{"h1": 3 * time.Second, "h2": 9 * time.Second, "silent": time.Hour}[host]
}

func (c cloud) ImageCache(name string) (size host.ImageCache, known bool) {
	size, known = map[string]host.ImageCache{"h1": {Bytes: 7e9, Limit: 10e9}, "h2": {Bytes: 12e9, Limit: 11e9},
		"silent": {Bytes: 1}}[name]
	if n := 0; c.caches > 0 {
		_, err := fmt.Sscanf(name, "cache%d", &n)
		return host.ImageCache{Bytes: int64(n), Limit: int64(n % 2)}, err == nil && n < c.caches
	}
	return size, known
}

func (c cloud) source() Source { return Source{Store: c, Agents: c, Backlog: func() int { return 12 }} }

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// busy returns a set in which every metric has a value.
func busy() *Set {
	s := New()
	s.Watch(cloud{projects: 1}.source())
	s.Begin()
	s.Panic()
	s.Request("/v2.1/servers", "GET", 200, time.Millisecond, 100)
	s.Step(lifecycle.Schedule, 2*time.Second, lifecycle.Chosen{}, nil)
	build(s, "a", lifecycle.Active)
	return s
}

// build records a server that is scheduled for 2 s, spawned for 5 s, and then in a state.
func build(s *Set, id string, end lifecycle.State) {
	states := []lifecycle.State{lifecycle.Preparing, lifecycle.Spawning, lifecycle.Spawning, end}
	times := []time.Duration{0, 2 * time.Second, 4 * time.Second, 7 * time.Second}
	for i := 1; i < len(states); i++ {
		before, after := lifecycle.Server{ID: id, Created: begin}, lifecycle.Server{ID: id, Created: begin}
		before.State, after.State = states[i-1], states[i]
		s.Stored(before, after, begin.Add(times[i]))
	}
}

func shown(s *Set) string {
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	return "\n" + rec.Body.String()
}

func wantLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, "\nberth_compute_"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if t.Failed() {
		t.Log(regexp.MustCompile("(?m)^(#|go_|process_).*\n").ReplaceAllString(text, ""))
	}
}

// docs/monitoring/README.md lists exactly the existing metrics with their labels.
func TestManualListsAllMetrics(t *testing.T) {
	manual, err := os.ReadFile("../../docs/monitoring/README.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `((?:berth_(?:compute|build)|…)_[a-z_]+)` \\| ([^|]*) \\| [^|]{6,} \\|$")
	listed := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(bytes.ReplaceAll(manual, []byte("| |"), []byte("|  |"))), -1) {
		labels := strings.Fields(strings.ReplaceAll(m[2], "`", ""))
		slices.Sort(labels)
		listed[strings.Replace(m[1], "…", "berth_compute", 1)] = fmt.Sprint(labels)
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
	}
	if !maps.Equal(listed, have) {
		t.Errorf("docs/monitoring/README.md lists\n%v\nthe code has\n%v", listed, have)
	}
}

func TestState(t *testing.T) {
	wantLines(t, shown(busy()),
		`hosts{state="up",status="enabled"} 1`, `hosts{state="up",status="disabled"} 1`,
		`hosts{state="down",status="enabled"} 2`, `hosts{state="down",status="disabled"} 1`,
		`hosts_with_conditions{level="error"} 1`, `hosts_with_conditions{level="warning"} 0`,
		`hosts_with_conditions{level="info"} 0`, `hosts_behind 1`, `agent_quiet_seconds 9`, `backlog 12`,
		`servers{status="ACTIVE"} 7`, `servers{status="ERROR"} 1`, `project_servers{project="p000"} 1`,
		`devices{class="CUSTOM_GPU",state="available"} 1`, `devices{class="CUSTOM_GPU",state="disabled"} 1`,
		`devices{class="CUSTOM_GPU",state="allocated"} 1`, `state_errors_total 0`,
		`image_cache_bytes{host="h1"} 7e+09`, `image_cache_limit_bytes{host="h1"} 1e+10`,
		`image_cache_bytes{host="h2"} 1.2e+10`, `image_cache_limit_bytes{host="h2"} 1.1e+10`,
		`image_caches_over_limit 1`)
	if strings.Contains(shown(busy()), `{host="silent"}`) {
		t.Error("old sizes of a host that is down are shown")
	}
}

// TestManyImageCaches checks that only the hosts with most have series of their own, and that all are compared with
// their limits.
func TestManyImageCaches(t *testing.T) {
	s := New()
	s.Watch(cloud{caches: 150}.source())
	text := shown(s)
	wantLines(t, text, `image_cache_bytes{host="cache149"} 149`, `image_cache_bytes{host="cache50"} 50`,
		`image_cache_bytes{host=""} 1225`, `image_cache_limit_bytes{host="cache51"} 1`, `image_caches_over_limit 74`)
	bytes, limits := strings.Count(text, "\nberth_compute_image_cache_bytes{"),
		strings.Count(text, "\nberth_compute_image_cache_limit_bytes{")
	if bytes != MaxImageCaches+1 || limits != MaxImageCaches/2 {
		t.Errorf("%d and %d series", bytes, limits)
	}
}

// TestManyProjects checks that only the largest projects have series of their own.
func TestManyProjects(t *testing.T) {
	s := New()
	s.Watch(cloud{projects: 150}.source())
	text := shown(s)
	wantLines(t, text, `project_servers{project=""} 1275`, `project_servers{project="p149"} 150`)
	if n := strings.Count(text, "\nberth_compute_project_servers{"); n != MaxProjects+1 {
		t.Errorf("%d series", n)
	}
}

// TestUnreadableState checks that old numbers do not hide a failure.
func TestUnreadableState(t *testing.T) {
	s := New()
	s.Watch(cloud{err: errors.New("no database")}.source())
	shown(s)
	text := shown(s)
	wantLines(t, text, `state_errors_total 2`)
	if strings.Contains(text, "berth_compute_hosts") {
		t.Error(text)
	}
}

func TestBuilds(t *testing.T) {
	s := New()
	build(s, "a", lifecycle.Active)
	build(s, "b", lifecycle.Error)
	build(s, "c", lifecycle.Deleted)
	// a server that runs, and one that this process has not seen before
	s.Stored(lifecycle.Server{State: lifecycle.Active, Launched: begin},
		lifecycle.Server{State: lifecycle.Error, Launched: begin}, begin)
	s.Stored(lifecycle.Server{State: lifecycle.Spawning, Created: begin},
		lifecycle.Server{State: lifecycle.Active, Created: begin}, begin.Add(time.Second))
	wantLines(t, shown(s), `builds_total{result="active"} 2`, `builds_total{result="error"} 1`,
		`builds_total{result="deleted"} 1`, `build_duration_seconds_count{phase="scheduling"} 3`,
		`build_duration_seconds_sum{phase="scheduling"} 6`, `build_duration_seconds_sum{phase="spawning"} 15`,
		`build_duration_seconds_sum{phase="total"} 8`, `build_duration_seconds_count{phase="total"} 2`)
	if len(s.building) != 0 {
		t.Errorf("%v is kept", s.building)
	}
}

func TestSearches(t *testing.T) {
	s := New()
	devices := []schedule.FilterFailure{{Filter: schedule.FilterDevices}, {Filter: schedule.FilterNUMA}}
	for _, event := range []lifecycle.Event{lifecycle.Chosen{}, lifecycle.NoValidHost{},
		lifecycle.NoValidHost{Candidates: 3, FilterFailures: devices}, lifecycle.Refused{}} {
		s.Step(lifecycle.Schedule, time.Second, event, nil)
	}
	s.Step(lifecycle.Claim, time.Second, lifecycle.ClaimLost{}, nil)
	s.Step(lifecycle.Claim, time.Second, nil, errors.New("no"))
	wantLines(t, shown(s), `searches_total{result="found"} 1`, `searches_total{result="Placement"} 1`,
		`searches_total{result="PciPassthroughFilter"} 1`, `searches_total{result="request"} 1`, `lost_claims_total 1`,
		`step_duration_seconds_count{result="failed",step="claim"} 1`)
}
