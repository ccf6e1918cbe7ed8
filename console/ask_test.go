package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/console/view"
	"github.com/openberth/berth/internal/browser"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/resource"
)

// rootOf is the id of the root provider of a host of made.
func rootOf(host int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", host-1) }

// withCandidates adds the answers about requests to the services. Placement has candidates on cmp-00002 and cmp-00004,
// except for a request of CUSTOM_ACCEL:9.
func (s *site) withCandidates() {
	s.apis["/v2.1/flavors/detail"] = doc{"flavors": []any{doc{"id": "1", "name": "small", "vcpus": 1, "ram": 512},
		doc{"id": "2", "name": "accel1", "vcpus": 2, "ram": 512, "extra_specs": doc{"pci_passthrough:alias": "a:1"}}}}
	s.apis["/berth/v1/headroom"] = doc{"fits": 5, "exact": true, "runs_out": []any{doc{"resource_class": "VCPU",
		"hosts": 2}}, "hosts": []any{doc{"host": "cmp-00002", "fits": 2, "refused": "no node has 4 CPUs"},
		doc{"host": "cmp-00003", "fits": 3, "exact": true, "lacks": []any{"VCPU"}},
		doc{"host": "cmp-00008", "excluded": "disabled"}}}
	s.apis["/berth/v1/explain"] = doc{"reason": "no host has CUSTOM_ACCEL:9", "funnel": []any{
		doc{"clause": "hosts", "left": 60}, doc{"clause": "CUSTOM_ACCEL:9", "left": 0}}, "minimal": []any{"CUSTOM_ACCEL:9"},
		"help": doc{"clause": "the amount of CUSTOM_ACCEL", "hosts": 1}, "nearest": []any{doc{"host": "cmp-00005",
			"deficits": []any{doc{"text": "CUSTOM_ACCEL: asks 9, 1 of 2 free", "free": 1, "of": 2, "held_by": []any{
				doc{"resource_provider_uuid": rootOf(5), "name": "cmp-00005_0000:14:00.0", "consumer_uuids": []any{
					serverID}}}}}}}}
	candidate := func(host int) (request, summary doc) {
		amounts := doc{"CUSTOM_ACCEL": 1, "VCPU": 2}
		return doc{"allocations": doc{rootOf(host): doc{"resources": amounts}}, "mappings": doc{"": []any{rootOf(host)}}},
			doc{"root_provider_uuid": rootOf(host), "resources": doc{"VCPU": doc{"used": 4, "capacity": 16},
				"CUSTOM_ACCEL": doc{"used": 0, "capacity": 1}}, "traits": []any{}}
	}
	s.apis["/allocation_candidates"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests, summaries := []any{}, doc{}
		w.Header().Set(placement.LimitHeader, "1000")
		switch text := r.URL.RawQuery; {
		case strings.Contains(text, "CUSTOM_WRONG"):
			w.WriteHeader(http.StatusBadRequest)
			_ = jsonTo(w, doc{"errors": []any{doc{"title": "Bad Request", "detail": "There is no class CUSTOM_WRONG."}}})
			return
		case !strings.Contains(text, "CUSTOM_ACCEL%3A9"):
			for _, host := range []int{4, 2} {
				request, summary := candidate(host)
				requests, summaries[rootOf(host)] = append(requests, request), summary
			}
		}
		_ = jsonTo(w, doc{"allocation_requests": requests, "provider_summaries": summaries})
	})
}

// An answer has the candidates and what fits, or why there are none; a request that is not valid gets the reason.
func TestAnswers(t *testing.T) {
	t.Parallel()
	s := newSite(t, WithToken, func() view.Source { return made(60) })
	s.withServers()
	s.withCandidates()
	v := s.visitor(t)
	v.signIn(url.Values{"token": {"admin"}})
	for query, want := range map[string][]string{
		"": {"Choose a flavor"},
		"flavor=small&resources=&required1=": {"2 candidates, on 2 hosts", "/hosts/cmp-00004", "VCPU 4 of 16",
			"5 more servers fit; VCPU on 2 hosts runs out first", ">3<", ">at least 2<", ">at least 5<",
			"counted by compute", "no node has 4 CPUs",
			"1 host not counted", "cmp-00008: disabled"},
		"flavor=accel1": {"Asked without the devices of pci_passthrough:alias=a:1"},
		"resources=VCPU: 2&resources1=CUSTOM_ACCEL:1&required1=CUSTOM_FAST&resources2=CUSTOM_NVME:1": {
			"2 candidates, on 2 hosts", "by what Placement has", "55 more servers fit; CUSTOM_ACCEL on 47 hosts",
			"rack-a", "further hosts", `value="CUSTOM_FAST"`},
		"resources_A=VCPU:1&required_A=CUSTOM_FAST&required_A=CUSTOM_X&more=limit%3D5": {`id="resources_A"`,
			"Group _A", `value="limit=5&amp;required_A=CUSTOM_X"`},
		"resources=CUSTOM_ACCEL:9": {"No host fits", "no host has CUSTOM_ACCEL:9", "−60", "These cannot hold together",
			"Most in the way: the amount of CUSTOM_ACCEL. Without it 1 host has room.", "asks 9, 1 of 2 free",
			">db-00003</a>", ">0 more servers fit<"},
		"resources=CUSTOM_WRONG:1":             {"There is no class CUSTOM_WRONG."},
		"resources=VCPU":                       {`class="fault"`, "VCPU"},
		"flavor=smal":                          {"no flavor has the id or the name &#34;smal&#34;", "<option selected>smal"},
		"flavor=small&resources=VCPU:1":        {"not both"},
		"port=vnic_type=direct":                {"choose a flavor"},
		"flavor=small&port=bandwidth":          {`class="fault"`, "bandwidth"},
		"more=%25zz":                           {"are not query parameters"},
		"resources=VCPU:1&nonsense=1":          {"there is no parameter &#34;nonsense&#34;"},
		"resources=VCPU:1&more=in_tree%3Dnone": {`class="fault"`, "in_tree"},
	} {
		for _, path := range []string{"/ask", "/ask/answer"} {
			_, status, text := v.page(v.Get(s.URL + path + "?" + strings.ReplaceAll(query, " ", "%20")))
			if status != http.StatusOK {
				t.Errorf("%s?%s: %d %s", path, query, status, text)
			}
			for _, part := range want {
				inForm := strings.Contains(part, "value=") || strings.Contains(part, "id=") || strings.Contains(part,
					"Group _") || strings.Contains(part, "<option")
				if (path == "/ask" || !inForm) && !strings.Contains(text, part) {
					t.Errorf("%s?%s lacks %q: %s", path, query, part, text)
				}
			}
		}
	}
}

// Who may not read the cloud gets what the APIs permit, and the reason for the rest. With OpenStack's services the room
// is counted from Placement, and has the reason. The end of the sign-in leads to the sign-in page.
func TestAnswersWithoutRightsAndServices(t *testing.T) {
	t.Parallel()
	s := newSite(t, WithToken, nil)
	s.withCandidates()
	forbidden := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_ = jsonTo(w, doc{"errors": []any{doc{"title": "Forbidden", "detail": "Policy does not allow " + r.URL.Path}}})
	})
	s.apis["/berth/v1/headroom"] = forbidden
	v := s.visitor(t)
	v.signIn(url.Values{"token": {"member"}})
	_, status, text := v.page(v.Get(s.URL + "/ask?flavor=small"))
	for _, part := range []string{"2 candidates", rootOf(4), "Not shown:", "Policy does not allow /berth/v1/headroom"} {
		if status != http.StatusOK || !strings.Contains(text, part) {
			t.Errorf("%q is missing: %d %s", part, status, text)
		}
	}
	s.apis["/allocation_candidates"], s.apis["/v2.1/flavors/detail"] = forbidden, forbidden
	_, _, text = v.page(v.Get(s.URL + "/ask?resources=VCPU:1"))
	for _, part := range []string{"Flavors are not shown: ", "candidates: ",
		"Policy does not allow /allocation_candidates",
		"how many more fit: Policy"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing: %s", part, text)
		}
	}
	delete(s.apis, "/berth/v1/explain")
	s.apis["/allocation_candidates"] = doc{"allocation_requests": []any{}, "provider_summaries": doc{}}
	v = s.visitor(t)
	v.signIn(url.Values{"token": {"admin"}})
	_, _, text = v.page(v.Get(s.URL + "/ask?resources=VCPU:1"))
	if !strings.Contains(text, "No host fits") || !strings.Contains(text, "0 more servers fit: no host is in service") {
		t.Error(text)
	}
	s.apis["/allocation_candidates"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	})
	if path, _, _ := v.page(v.Get(s.URL + "/ask?resources=VCPU:1")); path != "/sign-in" {
		t.Error(path)
	}
}

// A count waits for a place, and a browser that has gone takes none.
func TestCountsAreLimited(t *testing.T) {
	t.Parallel()
	ask := resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 1}}}}
	own, all := make(chan struct{}, 1), make(chan struct{}, 1)
	count := func(ctx context.Context) view.AskSource {
		q := question{cloud: view.New(made(1)), ask: ask}
		q.room(ctx, askForm{}, own, all)
		return q.source
	}
	all <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if got := count(ctx); got.Room != nil || !strings.Contains(got.Missing[0], "did not wait") || len(own) != 0 {
		t.Errorf("%+v", got)
	}
	<-all
	if got := count(ctx); got.Room != nil || len(own)+len(all) != 0 {
		t.Errorf("%+v", got)
	}
	if got := count(t.Context()); got.Room == nil || got.Room.Fits != 12 || len(own)+len(all) != 0 {
		t.Errorf("%+v", got)
	}
}

// The answer follows what is typed, without loading the page again, and the address is that of the request.
func TestAskPage(t *testing.T) {
	testenv.Need(t, "chromium")
	s := newSite(t, WithToken, func() view.Source { return made(60) })
	s.withServers()
	s.withCandidates()
	b := browser.Start(t)
	b.Size(1280, 800)
	s.signIn(b, "admin", "/ask")
	check(t, b, s)
	b.Evaluate(`window.same = true; document.getElementById("resources").focus()`)
	answer := `document.getElementById("answer").innerText`
	b.Type("CUSTOM_ACCEL:1")
	b.Await("the answer", answer+`.includes("2 candidates, on 2 hosts")`)
	if got := b.Evaluate("location.search"); got != "?resources=CUSTOM_ACCEL%3A1" {
		t.Errorf("the address has %v", got)
	}
	b.Evaluate(`{ const e = document.getElementById("resources"); e.value = "CUSTOM_ACCEL:9";
		e.dispatchEvent(new Event("input", {bubbles: true})); }`)
	b.Await("the explanation", answer+`.includes("These cannot hold together")`)
	check(t, b, s)
	reading := true
	s.apis["/allocation_candidates"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if reading {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_ = jsonTo(w, doc{"allocation_requests": []any{}, "provider_summaries": doc{}})
	})
	b.Evaluate(`document.querySelector("#ask button").click()`)
	b.Await("the part that is missing", answer+`.includes("Not shown")`)
	if got := b.Evaluate("window.same"); got != true {
		t.Error("the page was loaded again")
	}
	s.withCandidates()
	b.Complaints = nil
	for _, query := range []string{"flavor=small", "resources=CUSTOM_ACCEL:9", "resources=VCPU:2"} {
		for _, width := range []int{1280, 390} {
			for _, dark := range []bool{false, true} {
				b.Size(width, 800)
				b.Dark(dark)
				b.Open(s.URL + "/ask?" + query)
				check(t, b, s)
				picture(t, b, fmt.Sprintf("ask-%s-%d-%v", query[:6], width, dark))
			}
		}
	}
	for _, one := range s.console.sessions.byID {
		s.console.sessions.remove(one)
	}
	b.Evaluate(`document.querySelector("#ask button").click()`)
	b.Await("the sign-in page", `location.pathname === "/sign-in" && location.search.includes("resources")`)
	b.Complaints = slices.DeleteFunc(b.Complaints, func(c string) bool { return strings.Contains(c, "status of 401") })
}
