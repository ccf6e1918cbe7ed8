package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/fleet/heal"
	"github.com/openberth/berth/internal/browser"
	"github.com/openberth/berth/internal/testenv"
)

const lostID = "40000000-0000-4000-8000-000000000001"

// damage is the allocation of a consumer that compute does not know, on one host. The user "reader" may not change it.
type damage struct {
	mu         sync.Mutex
	generation int
	held       map[string]any // amounts; nil: none
	writes     []string
}

// withDamage adds a host with such an allocation to the services, of which compute is Nova: where it is Berth's, the
// page removes nothing.
func (s *site) withDamage() *damage {
	d := &damage{generation: 5, held: doc{"VCPU": 2}}
	s.apis["/"] = doc{"versions": []any{doc{"id": "v2.1", "version": "2.90"}}}
	root := rootOf(1)
	s.apis["/resource_providers"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list := []any{doc{"uuid": root, "name": "cmp-00001", "root_provider_uuid": root, "generation": 3}}
		if r.URL.Query().Get("required") != "" {
			list = []any{}
		}
		_ = jsonTo(w, doc{"resource_providers": list})
	})
	s.apis["/resource_providers/"+root+"/inventories"] = doc{"resource_provider_generation": 3, "inventories": doc{
		"VCPU": doc{"total": 8, "allocation_ratio": 1.0, "max_unit": 8}}}
	s.apis["/v2.1/os-hypervisors/detail"] = doc{"hypervisors": []any{doc{"id": root, "hypervisor_hostname": "cmp-00001",
		"service": doc{"host": "cmp-00001"}}}}
	s.apis["/v2.1/os-services"] = doc{"services": []any{doc{"host": "cmp-00001", "state": "up"}}}
	s.apis["/v2.0/ports"], s.apis["/v2.0/agents"] = doc{"ports": []any{}}, doc{"agents": []any{}}
	s.apis["/berth/v1/devices"] = doc{"devices": []any{}}
	s.apis["/resource_providers/"+root+"/allocations"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		all := doc{}
		if d.held != nil {
			all[lostID] = doc{"resources": d.held}
		}
		_ = jsonTo(w, doc{"allocations": all, "resource_provider_generation": 3})
	})
	s.apis["/allocations/"+lostID] = http.HandlerFunc(d.serve)
	return d
}

// serve answers /allocations/{consumer} as Placement does.
func (d *damage) serve(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := doc{}
	if d.held != nil {
		all[rootOf(1)] = doc{"resources": d.held}
	}
	if r.Method == http.MethodGet {
		_ = jsonTo(w, doc{"allocations": all, "consumer_generation": d.generation, "project_id": "p", "user_id": "u",
			"consumer_type": "INSTANCE"})
		return
	}
	var body struct {
		Allocations map[string]struct{ Resources map[string]any }
		Generation  *int `json:"consumer_generation"`
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	status := http.StatusNoContent
	switch {
	case r.Header.Get("X-Auth-Token") == "reader":
		status = http.StatusForbidden
	case body.Allocations == nil:
		status = http.StatusBadRequest
	case body.Generation == nil || *body.Generation != d.generation:
		status = http.StatusConflict
	default:
		d.writes = append(d.writes, fmt.Sprint(len(body.Allocations)))
		d.held, d.generation = body.Allocations[rootOf(1)].Resources, d.generation+1
	}
	w.WriteHeader(status)
	if status != http.StatusNoContent {
		_ = jsonTo(w, doc{"errors": []any{doc{"detail": "refused with " + fmt.Sprint(status)}}})
	}
}

// await loads the page of the audit until it has a text, and returns it.
func (v visitor) await(text string) string {
	v.t.Helper()
	page := ""
	testenv.Until(v.t, "the page has "+text, func() (bool, error) {
		_, _, page = v.page(v.Get(v.url + "/audit"))
		return strings.Contains(page, text), errors.New(page)
	})
	return page
}

// planField finds the id of a plan in a form.
var planField = regexp.MustCompile(`name="plan" value="([^"]+)"`)

// What two looks show is healed by the second click and restored by undo; nothing else than what was shown is changed.
func TestAudit(t *testing.T) {
	t.Parallel()
	s := newSite(t, WithToken, nil)
	s.console.wait = 50 * time.Millisecond
	var log strings.Builder
	s.console.log = slog.New(slog.NewTextHandler(&log, nil))
	d := s.withDamage()
	v := s.visitor(t)
	v.signIn(url.Values{"token": {"admin"}})
	page := v.await("1 difference in both looks")
	for _, part := range []string{"orphaned allocation (1)", "compute has no server and no migration with this id",
		"remove VCPU:2", "Plan of 1 change", lostID, "berth audit --undo FILE"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q: %s", part, page)
		}
	}
	form, plan := field.FindStringSubmatch(page)[1], planField.FindStringSubmatch(page)[1]
	_, _, file := v.page(v.Get(s.URL + "/audit/undo.json?plan=" + plan))
	if changes, err := heal.ReadUndoFile([]byte(file)); err != nil || len(changes) != 1 {
		t.Errorf("the undo file is %s: %v", file, err)
	}
	for _, c := range []struct {
		fields url.Values
		status int
	}{
		{url.Values{"plan": {plan}, "change": {lostID}}, http.StatusForbidden},
		{url.Values{"form": {form}, "plan": {"other"}, "change": {lostID}}, http.StatusConflict},
		{url.Values{"form": {form}, "change": {lostID}}, http.StatusConflict},
		{url.Values{"form": {form}, "plan": {plan}}, http.StatusBadRequest},
		{url.Values{"form": {form}, "plan": {plan}, "change": {"other"}}, http.StatusBadRequest},
	} {
		if _, status, text := v.page(v.PostForm(s.URL+"/audit/apply", c.fields)); status != c.status ||
			!strings.Contains(text, "nothing was changed") {
			t.Errorf("%v: %d %s", c.fields, status, text)
		}
	}
	if _, status, _ := v.page(v.Get(s.URL + "/audit/apply")); status != http.StatusNotFound {
		t.Errorf("GET: %d", status)
	}
	if len(d.writes) != 0 {
		t.Fatalf("changes were made: %v", d.writes)
	}
	fields := url.Values{"form": {form}, "plan": {plan}, "change": {lostID}}
	if path, status, _ := v.page(v.PostForm(s.URL+"/audit/apply", fields)); path != "/audit" || status != http.StatusOK {
		t.Errorf("%s %d", path, status)
	}
	page = v.await("No differences")
	if d.held != nil || !strings.Contains(page, ">done<") || !strings.Contains(page, "<h2>Changed") {
		t.Errorf("%v %s", d.held, page)
	}
	if _, status, _ := v.page(v.PostForm(s.URL+"/audit/apply", fields)); status != http.StatusConflict {
		t.Errorf("the same form again: %d", status)
	}
	fields.Set("plan", planField.FindStringSubmatch(page)[1])
	v.page(v.PostForm(s.URL+"/audit/undo", fields))
	page = v.await("1 difference in both looks")
	if fmt.Sprint(d.held) != "map[VCPU:2]" || !strings.Contains(page, "<h2>Undone") ||
		strings.Contains(page, "/audit/undo\"") {
		t.Errorf("%v %s", d.held, page)
	}
	if got := strings.Join(d.writes, " "); got != "0 1" {
		t.Errorf("the writes are %s", got)
	}
	fields.Set("plan", planField.FindStringSubmatch(page)[1])
	d.mu.Lock()
	d.generation++ // the owner writes in between
	d.mu.Unlock()
	v.page(v.PostForm(s.URL+"/audit/apply", fields))
	if page = v.await("not done: "); !strings.Contains(page, "was changed since it was read") || d.held == nil {
		t.Errorf("%v %s", d.held, page)
	}
	for part, n := range map[string]int{"undo=false content=\"{\\\"allocation\\\":": 2, "undo=true content": 1,
		"done=true": 2, "done=false": 1} {
		if strings.Count(log.String(), part) != n {
			t.Errorf("the log has not %d times %s: %s", n, part, log.String())
		}
	}
}

// Where compute is Berth's, the page refers to the command that asks the agents.
func TestAuditOfBerth(t *testing.T) {
	t.Parallel()
	s := newSite(t, WithToken, nil)
	s.console.wait = time.Millisecond
	s.withDamage()
	s.apis["/"] = newAPIs()["/"]
	v := s.visitor(t)
	v.signIn(url.Values{"token": {"admin"}})
	page := v.await("1 difference in both looks")
	if !strings.Contains(page, "only the agents know") || strings.Contains(page, "Plan of") {
		t.Error(page)
	}
}

// Who may read and not change sees the plan without buttons; who may not read gets the reason. A look that fails is
// reported, and another one can be requested.
func TestAuditWithoutRightsAndServices(t *testing.T) {
	t.Parallel()
	s := newSite(t, WithToken, nil)
	s.console.wait = time.Millisecond
	d := s.withDamage()
	v := s.visitor(t)
	v.signIn(url.Values{"token": {"reader"}})
	page := v.await("You cannot make these changes: ")
	if !strings.Contains(page, "remove VCPU:2") || strings.Contains(page, "/audit/apply") {
		t.Error(page)
	}
	fields := url.Values{"form": {field.FindStringSubmatch(page)[1]}, "change": {lostID}}
	for _, one := range s.console.sessions.byID {
		fields.Set("plan", one.audit.state.Plan.ID)
	}
	if _, status, _ := v.page(v.PostForm(s.URL+"/audit/apply", fields)); status != http.StatusForbidden ||
		len(d.writes) > 0 {
		t.Errorf("%d %v", status, d.writes)
	}
	all := s.apis["/resource_providers"]
	s.apis["/resource_providers"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
	})
	v.page(v.PostForm(s.URL+"/audit/look", fields))
	v.await("The last audit has failed")
	s.apis["/resource_providers"] = all
	v.page(v.PostForm(s.URL+"/audit/look", fields))
	v.await("1 difference in both looks")
	member := s.visitor(t)
	member.signIn(url.Values{"token": {"member"}})
	for range 2 {
		if page := member.await("Not permitted"); strings.Contains(page, "Compare again") {
			t.Error(page)
		}
	}
}

// The page shows the first look at once, loads itself again for the second one, and changes with two clicks.
func TestAuditPage(t *testing.T) {
	testenv.Need(t, "chromium")
	s := newSite(t, WithToken, nil)
	s.console.wait = 3 * time.Second
	s.withDamage()
	b := browser.Start(t)
	b.Size(1280, 800)
	s.signIn(b, "admin", "/audit")
	text := `document.body.innerText`
	b.Await("the first look", text+`.includes("1 difference in the first look")`)
	if got := b.Evaluate(text).(string); !strings.Contains(got, "The second look follows at") ||
		strings.Contains(got, "Plan of") {
		t.Error(got)
	}
	b.Await("the second look", text+`.includes("1 difference in both looks")`)
	s.console.sessions.mu.Lock()
	for _, one := range s.console.sessions.byID {
		one.audit.wait = 100 * time.Millisecond
	}
	s.console.sessions.mu.Unlock()
	sizes := func(name string) {
		for _, width := range []int{1280, 390} {
			for _, dark := range []bool{false, true} {
				b.Size(width, 800)
				b.Dark(dark)
				b.Open(s.URL + "/audit")
				b.Evaluate(`document.querySelectorAll("details").forEach((d) => { d.open = true; })`)
				check(t, b, s)
				picture(t, b, fmt.Sprintf("audit-%s-%d-%v", name, width, dark))
			}
		}
		b.Size(1280, 800)
	}
	sizes("plan")
	b.Open(s.URL + "/audit")
	if b.Evaluate(`document.querySelector('[action="/audit/apply"]').checkVisibility()`) != false {
		t.Error("the plan is applied with one click")
	}
	b.Evaluate(`document.querySelector("summary").click()`)
	b.Evaluate(`document.querySelector('[action="/audit/apply"] button').click()`)
	b.Await("the change", text+`.includes("No differences")`)
	sizes("undo")
	b.Evaluate(`document.querySelector('[action="/audit/undo"] button').click()`)
	b.Await("the undo", text+`.includes("in both looks")`)
	for _, one := range s.console.sessions.byID {
		s.console.sessions.remove(one)
	}
	s.console.wait = time.Millisecond
	s.signIn(b, "reader", "/audit")
	b.Await("the plan without buttons", text+`.includes("You cannot make these changes")`)
	sizes("reader")
}

// The audit of the console and the reading of the fleet use clients at the same time.
func TestAuditBesideReading(t *testing.T) {
	t.Parallel()
	s := newSite(t, WithToken, nil)
	s.console.wait = time.Millisecond
	s.withDamage()
	v := s.visitor(t)
	v.signIn(url.Values{"token": {"admin"}, "next": {"/audit"}})
	var wait sync.WaitGroup
	for _, path := range []string{"/fleet", "/audit", "/classes", "/ask?resources=VCPU:1"} {
		wait.Go(func() {
			r, err := v.Get(s.URL + path)
			if err != nil || r.StatusCode != http.StatusOK {
				t.Errorf("%s: %v %v", path, r, err)
				return
			}
			_ = r.Body.Close()
		})
	}
	wait.Wait()
	page := v.await("in both looks")
	if !strings.Contains(page, `<a href="/hosts/cmp-00001">`) {
		t.Error(page)
	}
}
