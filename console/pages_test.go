package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/console/view"
	"github.com/openberth/berth/internal/browser"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/resource"
)

const (
	serverID  = "10000000-0000-4000-8000-000000000003"
	refusedID = "30000000-0000-4000-8000-000000000001"
)

// withServers adds the answers about two servers to the services: one on cmp-00004, and one that was refused.
func (s *site) withServers() {
	placed := doc{"id": serverID, "name": "db-00003", "status": "ACTIVE", "tenant_id": "red", "image": "",
		"created": "2026-11-25T17:09:12Z", "updated": "2026-11-25T17:09:12Z", "OS-EXT-SRV-ATTR:host": "cmp-00004",
		"OS-EXT-SRV-ATTR:hypervisor_hostname": "cmp-00004", "flavor": doc{"original_name": "nvme2", "vcpus": 4, "ram": 8192},
		"addresses": doc{"net": []any{doc{"addr": "192.0.2.20", "version": 4}}}}
	refused := doc{"id": refusedID, "name": "<b>train</b>", "status": "ERROR", "tenant_id": "red", "image": "",
		"created": "2026-11-25T17:09:12Z", "updated": "2026-11-25T17:09:12Z", "flavor": doc{"original_name": "accel1"},
		"fault": doc{"code": 500, "message": "No valid host was found; see `berth server why train`",
			"created": "2026-11-25T17:09:12Z"}}
	s.apis["/v2.1/servers/"+serverID], s.apis["/v2.1/servers/"+refusedID] = doc{"server": placed}, doc{"server": refused}
	s.apis["/v2.1/servers/detail"] = doc{"servers": []any{placed, refused}}
	at := time.Date(2026, 11, 25, 17, 9, 12, 0, time.UTC)
	s.apis["/berth/v1/servers/"+serverID+"/why"] = doc{"why": doc{"id": serverID, "host": "cmp-00004", "query": "a=b",
		"pci_requests": []any{}, "search": doc{"at": at, "funnel": []any{doc{"clause": "hosts", "left": 9},
			doc{"clause": "have the devices free", "left": 2, "removed_hosts": []any{"cmp-00006"}}}, "nearest": []any{
			doc{"host": "cmp-00007", "deficits": []any{doc{"text": "one device is held", "resource_class": "CUSTOM_ACCEL",
				"asks": 2, "free": 1, "of": 2}}}, doc{"host": "cmp-00004", "deficits": []any{doc{"cause": "NUMATopologyFilter",
				"text": "no NUMA node has 30 threads for dedicated CPUs left (node 0 has 24)"}}}}},
		"trail": []any{doc{"at": at, "text": "asks for VCPU:4", "times": 1},
			doc{"at": at.Add(4 * time.Millisecond), "text": "claiming " + serverID, "times": 3},
			doc{"at": at.Add(14 * time.Millisecond), "text": "guest runs", "times": 1}}}}
	s.apis["/berth/v1/servers/"+refusedID+"/why"] = doc{"why": doc{"id": refusedID, "query": "resources=VCPU:1",
		"search": doc{"at": at, "funnel": []any{doc{"clause": "hosts", "left": 60}, doc{"clause": "offer CUSTOM_ACCEL"}}},
		"trail":  []any{doc{"at": at, "text": "no valid host", "times": 1}}, "falls": []any{doc{"step": "NUMATopologyFilter",
			"reason": "no node has 32768 MiB", "hosts": 7, "first_hosts": []any{"cmp-00001", "cmp-00002"}}}}}
	s.apis["/berth/v1/explain"] = doc{"reason": "no host has CUSTOM_ACCEL:1", "funnel": []any{
		doc{"clause": "hosts", "left": 60}, doc{"clause": "CUSTOM_ACCEL:1", "left": 0}}, "nearest": []any{
		doc{"host": "cmp-00005", "deficits": []any{doc{"text": "CUSTOM_ACCEL: 0 of 2 are free"}}}}}
	s.apis["/berth/v1/hosts/cmp-00004/drain"] = doc{"moves": []any{doc{"server": serverID, "name": "db-00003",
		"action": "cold", "to": "cmp-00005", "reason": "its devices are pinned", "note": "a port will be created"}}}
	s.apis["/v2.0/ports"] = doc{"ports": []any{doc{"id": "p1", "name": "edge-p13", "status": "ACTIVE",
		"binding:vnic_type": "direct", "binding:profile": doc{"pci_slot": "0000:18:00.3"},
		"fixed_ips": []any{doc{"ip_address": "192.0.2.20"}}}}}
}

const rackA = "a0000000-0000-4000-8000-000000000001" // the id of the aggregate rack-a

// usageHistory answers as Placement: with one gap for all classes, and at the end with one for the VFs.
func usageHistory(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	from, err := time.Parse(time.RFC3339, q.Get("from"))
	to, _ := time.Parse(time.RFC3339, q.Get("to"))
	step, _ := strconv.Atoi(q.Get("step"))
	if id := q.Get("aggregate"); err != nil || step == 0 || id != "" && id != rackA {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	steps := int(to.Sub(from).Minutes()) / step
	h := placement.UsageHistory{From: from, Step: step, Classes: map[resource.Class][]*placement.StockAt{}}
	for class, all := range map[resource.Class]int{"CUSTOM_ACCEL": 120, "SRIOV_NET_VF": 480, "VCPU": 960} {
		list := make([]*placement.StockAt, steps)
		for i := range list {
			if i < steps/3 || i > steps/2 {
				list[i] = &placement.StockAt{Total: all, Reserved: all / 20, Used: all/2 + all/4*(i%12)/11}
			}
		}
		list[steps-1].Used = all / 2
		if class == "SRIOV_NET_VF" {
			list[steps-1], list[steps-2].Used = nil, 5
		}
		h.Classes[class] = list
	}
	_ = jsonTo(w, h)
}

// How the classes were used is missing if Placement keeps no history, and a span that there is not is refused.
func TestClassesWithoutHistory(t *testing.T) {
	s := newSite(t, WithToken, func() view.Source { return made(3) })
	v := s.visitor(t)
	v.signIn(url.Values{"token": {"admin"}})
	get := func(path string) string {
		_, _, text := v.page(v.Get(s.URL + path))
		return text
	}
	for path, want := range map[string]string{"/classes": "Placement keeps no usage history",
		"/classes?over=year": "write over=day, over=week or over=month"} {
		if text := get(path); !strings.Contains(text, want) {
			t.Errorf("%s: %s", path, text)
		}
	}
	s.apis["/berth/v1/usage-history"] = doc{"from": "2026-11-27T12:00:00Z", "step_minutes": 10, "classes": doc{}}
	if text := get("/classes"); !strings.Contains(text, "Nothing was recorded in the last day") {
		t.Error(text)
	}
	s.apis["/berth/v1/usage-history"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_ = jsonTo(w, doc{"errors": []any{doc{"title": "Forbidden", "detail": "Policy does not allow usages."}}})
	})
	if text := get("/classes"); !strings.Contains(text, "Policy does not allow usages.") ||
		!strings.Contains(text, "CUSTOM_ACCEL") {
		t.Error(text)
	}
}

// Each page passes the checks at both widths and in both themes, and has what the APIs returned.
func TestPages(t *testing.T) {
	testenv.Need(t, "chromium")
	s := newSite(t, WithToken, func() view.Source {
		source := made(60)
		source.Aggregates[0].UUID = rackA
		return source
	})
	s.withServers()
	s.apis["/berth/v1/usage-history"] = http.HandlerFunc(usageHistory)
	s.apis["/berth/v1/events"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	b := browser.Start(t)
	s.signIn(b, "admin", "/fleet")
	for path, want := range map[string][]string{
		"/hosts/cmp-00004": {"put the card back", "db-00003", "Socket 1", "0000:11:00.0", "Pages of 1 GiB", "3/8",
			"4/24 pinned", "5 free", "a second condition",
			"NIC Switch agent:ens1, egress", "10\u202f000/25\u202f000 Mbit/s", "4\u202f000/25\u202f000 Mbit/s",
			"CPUs 36-39, 2 shared CPUs, 4 × 1 GiB", "0000:18:00.2 SRIOV_NET_VF"},
		"/hosts/cmp-00008": {"up, disabled", "not offered"},
		// with an anchor the page is not loaded again for another theme
		"/hosts/cmp-00004#d-0000:15:00.0": {"db-00003"},
		"/servers":                        {"db-00003", "<b>train</b>", "of all projects"},
		"/servers/" + serverID: {"ACTIVE on cmp-00004", "14 ms from the first", "+4 ms", "claiming db-00003", "3 times",
			"edge-p13", "0000:18:00.3", "192.0.2.20", "as recorded at 2026-11-25 17:09:12", "have the devices free", "−7",
			"cmp-00006", "6 others", "one device is held", "cmp-00004_0000:14:00.0", "MEMORY_MB", "8\u202f192",
			"8\u202f192 of 131\u202f072", "Migrate…", "Serial console"},
		"/servers/" + serverID + "/migrate": {"This will happen",
			"The guest is stopped on cmp-00004 and started on cmp-00005", "Not live: its devices are pinned",
			"a port will be created", "Leave it on cmp-00004"},
		"/servers/" + refusedID: {"No valid host was found", "berth server why train", "NUMATopologyFilter", "cmp-00002",
			"5 others", "as recorded at 2026-11-25 17:09:12", "offer CUSTOM_ACCEL", "−60", "Now: no host has CUSTOM_ACCEL:1"},
		"/events?kind=allocation": {"Changes of providers"},
		"/classes": {"8 classes, 60 of 60 hosts", "rack-c", "20 hosts", "13 of 40", "40 of 120", "61 of 120",
			"8 of 120", "11 of 120"},
		"/classes?over=week": {"in steps of 1 hour", "60 of 120 used, 6 reserved, at most 90", "SRIOV_NET_VF",
			"5 of 480 used, 24 reserved on ", "not recorded"},
		"/classes?aggregate=rack-a": {"20 of 60 hosts", "in steps of 10 minutes", "60 of 120 used"},
		"/classes?aggregate=rack-b": {"compute does not report its id"},
	} {
		for _, width := range []int{1280, 390} {
			for _, dark := range []bool{false, true} {
				b.Size(width, 800)
				b.Dark(dark)
				b.Open(s.URL + path)
				check(t, b, s)
				name := strings.NewReplacer("/", "", "?", "-", "#", "-", ":", "-").Replace(path)
				picture(t, b, fmt.Sprintf("%s-%d-%v", name, width, dark))
			}
		}
		text := b.Evaluate("document.body.innerText").(string)
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s lacks %q: %s", path, part, text)
			}
		}
	}
	b.Open(s.URL + "/servers/" + serverID)
	for _, label := range []string{"CUSTOM_ACCEL: 2 needed, 1 of 2 free",
		"CUSTOM_ACCEL 0000:14:00.0: 1 held by db-00006",
		"8 shared CPUs (0-3,16-19) with 0 CPUs of guests with NUMA cells; 0 of 24 dedicated CPUs (4-15,20-31) are pinned"} {
		if n := b.Evaluate(fmt.Sprintf(`document.querySelectorAll('.miss [aria-label=%q]').length`, label)); n != 1.0 {
			t.Errorf("the nearest misses have no drawing %q: %v", label,
				b.Evaluate(`[...document.querySelectorAll(".miss")].map(m => m.outerHTML).join("")`))
		}
	}
	why := s.apis["/berth/v1/servers/"+refusedID+"/why"].(doc)["why"].(doc)
	delete(why, "search")
	b.Open(s.URL + "/servers/" + refusedID)
	text := b.Evaluate("document.body.innerText").(string)
	if !strings.Contains(text, "as Placement would answer now") || !strings.Contains(text, "0 of 2 are free") {
		t.Errorf("a server without a recorded search: %s", text)
	}
	b.Size(1280, 800)
	b.Open(s.URL + "/fleet?q=cmp-00004")
	b.Evaluate(`document.querySelector('a.cell[aria-label*="0000:15:00.0"]').click()`)
	b.Await("the card of the cell", `location.pathname === "/hosts/cmp-00004" &&
		document.querySelector(".card:target")?.id === "d-0000:15:00.0"`)
	b.Open(s.URL + "/hosts/no-such")
	if text := b.Evaluate("document.body.innerText").(string); !strings.Contains(text, "the cloud has no host no-such") {
		t.Error(text)
	}
}

// Who may not read the cloud sees the own servers and their ports, with ids in place of names, and no hosts and events.
func TestPagesOfMember(t *testing.T) {
	testenv.Need(t, "chromium")
	s := newSite(t, WithToken, nil)
	s.withServers()
	mine := s.apis["/v2.1/servers/detail"]
	s.apis["/v2.1/servers/detail"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("all_tenants") != "" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_ = jsonTo(w, mine)
	})
	s.apis["/berth/v1/events"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_ = jsonTo(w, doc{"errors": []any{doc{"title": "Forbidden", "detail": "Policy does not allow events."}}})
	})
	b := browser.Start(t)
	b.Size(1280, 800)
	s.signIn(b, "member", "/servers")
	check(t, b, s)
	for path, want := range map[string][]string{"/servers": {"of your project", "db-00003"}, "/fleet": {"Not permitted"},
		"/classes":         {"Not permitted"},
		"/hosts/cmp-00004": {"Not permitted"}, "/servers/" + serverID: {"claiming " + serverID, "edge-p13"},
		"/events": {"Policy does not allow events.", "Not connected"}} {
		b.Open(s.URL + path)
		for _, part := range want {
			b.Await(path+" has "+part, fmt.Sprintf(`document.body.innerText.includes(%q)`, part))
		}
		b.Complaints = slices.DeleteFunc(b.Complaints, func(c string) bool { return strings.Contains(c, "status of 403") })
		check(t, b, s)
	}
}

// Events appear as they come, at the top; a broken stream continues after the last event; the page can be paused.
func TestEventsPage(t *testing.T) {
	testenv.Need(t, "chromium")
	s := newSite(t, WithToken, func() view.Source { return made(3) })
	lines, cursors := make(chan string), make(chan string, 10)
	s.apis["/berth/v1/events"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cursors <- r.Header.Get("Last-Event-ID") + " " + r.URL.RawQuery
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		for {
			select {
			case line := <-lines:
				if line == "end" {
					return
				}
				_, _ = w.Write([]byte(line))
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	event := func(n int, total string) string {
		return fmt.Sprintf("id: c%d\ndata: {\"action\":\"changed\",\"kind\":\"inventory\",\"time\":\"2026-11-27T04:00:00Z\","+
			"\"object\":{\"provider\":\"20000000-0000-4000-8000-000000000001\",\"resource_class\":\"CUSTOM_ACCEL\","+
			"\"total\":%s}}\n\n", n, total)
	}
	b := browser.Start(t)
	b.Size(1280, 800)
	s.signIn(b, "admin", "/events?kind=inventory&other=x")
	if got := <-cursors; got != " kind=inventory" {
		t.Errorf("the stream was requested with %q", got)
	}
	lines <- event(1, "7")
	row := `(document.querySelector("#events tbody tr")?.innerText ?? "")`
	b.Await("the event", row+`.includes("CUSTOM_ACCEL: 7 in all")`)
	if got := b.Evaluate(`document.querySelector("#events tbody a").pathname`); got != "/hosts/cmp-00001" {
		t.Errorf("the subject leads to %v", got)
	}
	b.Evaluate(`document.getElementById("pause").click()`)
	lines <- event(2, "8")
	b.Await("the event that waits", `document.getElementById("pause").textContent === "Continue (1)"`)
	b.Evaluate(`document.getElementById("pause").click()`)
	b.Await("the second event", row+`.includes("8 in all")`)
	lines <- "end"
	if got := <-cursors; got != "c2 kind=inventory" {
		t.Errorf("the stream was requested again with %q", got)
	}
	lines <- event(3, `9,"name":"<img src=x onerror=alert(1)>"`)
	b.Await("the third event", row+`.includes("9 in all")`)
	lines <- "data: {\"action\":\"reset\",\"reason\":\"too far behind\"}\n\ndata: {\"action\":\"state\"," +
		"\"kind\":\"provider\",\"object\":{}}\n\nid: c9\ndata: {\"action\":\"synced\"}\n\n"
	b.Await("the note about changes that were missed", row+`.includes("changes were missed: too far behind") &&
		document.querySelectorAll("#events tbody tr").length === 4`)
	check(t, b, s)
	for _, one := range s.console.sessions.byID {
		s.console.sessions.remove(one)
	}
	b.Await("the end of the session", `document.getElementById("state").textContent.startsWith("Not connected")`)
}
