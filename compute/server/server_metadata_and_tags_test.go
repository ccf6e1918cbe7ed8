package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/server/request"
)

// running creates a server of ann in project p1 whose guest runs on host cmp1, and returns its id.
func (h *fixture) running(name string) string {
	h.Helper()
	h.flavor(name, nil)
	id := h.server(h.client("ann:p1"), name, name)
	h.assign(id, "cmp1")
	h.apply(id, lifecycle.GuestRunning{Host: "cmp1", Consumer: id})
	return id
}

// exchange is a request, and the status and a part of the response that it must have.
type exchange struct {
	version, method, path, body string
	status                      int
	part                        string
}

// exchanges sends requests as a user; the path is relative to /v2.1.
func (h *fixture) exchanges(user string, list []exchange) {
	h.Helper()
	for _, e := range list {
		r := h.ask(e.method, "/v2.1"+e.path, e.body, "X-Auth-Token", user, "OpenStack-API-Version", "compute "+e.version)
		if r.status != e.status || !strings.Contains(r.text, e.part) {
			h.Errorf("%s: %s %s at %s: %d %s, want %d %s", user, e.method, e.path, e.version, r.status, r.text, e.status,
				e.part)
		}
	}
}

func TestMetadata(t *testing.T) {
	h := start(t)
	id := h.running("web")
	path := "/servers/" + id + "/metadata"
	full := make([]string, 128)
	for i := range full {
		full[i] = fmt.Sprintf(`"k%d": ""`, i)
	}
	h.exchanges("ann:p1", []exchange{
		{"2.1", "GET", path, "", 200, `{"metadata":{}}`},
		{"2.1", "POST", path, `{"metadata": {"a": "b", "c": "d"}}`, 200, `{"a":"b","c":"d"}`},
		{"2.1", "POST", path, `{"metadata": {"a": "x"}}`, 200, `{"a":"x","c":"d"}`},
		{"2.1", "PUT", path + "/c", `{"meta": {"c": "e"}}`, 200, `{"meta":{"c":"e"}}`},
		{"2.1", "PUT", path + "/c", `{"meta": {"z": "e"}}`, 400, "that of the path"},
		{"2.1", "GET", path + "/c", "", 200, `{"meta":{"c":"e"}}`},
		{"2.1", "GET", path + "/z", "", 404, "Metadata item was not found"},
		{"2.1", "POST", path, `{"metadata": {"a": null}}`, 400, "it is null"},
		{"2.1", "POST", path, `{"metadata": {"a": 1}}`, 400, "should be a text"},
		{"2.1", "POST", path, `{"metadata": {"ä": "1"}}`, 400, "a key has"},
		{"2.1", "POST", path, `{"meta": {}}`, 400, "metadata"},
		{"2.1", "PUT", path, `{"metadata": {` + strings.Join(full, ",") + `}}`, 200, `"k127":""`},
		{"2.1", "POST", path, `{"metadata": {"one": "more"}}`, 403, "exceeds 128"},
		{"2.1", "PUT", path, `{"metadata": {"a": "b"}}`, 200, `{"metadata":{"a":"b"}}`},
		{"2.1", "DELETE", path + "/a", "", 204, ""},
		{"2.1", "DELETE", path + "/a", "", 404, "not found"},
		{"2.1", "PUT", "/servers/" + id, `{"server": {"name": "new"}}`, 200, `"name":"new"`},
		{"2.1", "PUT", "/servers/" + id, `{"server": {"description": "d"}}`, 400, "description"},
		{"2.19", "PUT", "/servers/" + id, `{"server": {"description": "d"}}`, 200, `"description":"d"`},
		{"2.19", "PUT", "/servers/" + id, `{"server": {"description": null}}`, 200, `"description":null`},
		{"2.1", "PUT", "/servers/" + id, `{"server": {"name": ""}}`, 400, "server.name"},
	})
	h.apply(id, lifecycle.ActionRequested{ID: "x", Action: lifecycle.Stop})
	h.exchanges("ann:p1", []exchange{
		{"2.1", "POST", path, `{"metadata": {"a": "x"}}`, 409, "task_state powering-off"}})
	h.exchanges("bob:p2", []exchange{
		{"2.1", "GET", path, "", 404, "could not be found"},
		{"2.1", "POST", path, `{"metadata": {"a": "x"}}`, 404, "could not be found"},
		{"2.1", "PUT", "/servers/" + id, `{"server": {"name": "x"}}`, 404, "could not be found"},
	})
	h.exchanges("admin", []exchange{{"2.1", "GET", path, "", 200, `{"metadata":{}}`}})
	if s := h.read(id); s.Name != "new" || s.Description != "" {
		t.Errorf("name %q, description %q", s.Name, s.Description)
	}
}

func TestTags(t *testing.T) {
	h := start(t)
	id := h.running("web")
	path := "/servers/" + id + "/tags"
	full := make([]string, request.MaxTags)
	for i := range full {
		full[i] = fmt.Sprintf("%q", fmt.Sprint("t", i))
	}
	h.exchanges("ann:p1", []exchange{
		{"2.25", "GET", path, "", 404, "there is nothing"},
		{"2.26", "GET", path, "", 200, `{"tags":[]}`},
		{"2.26", "PUT", path + "/b", "", 201, ""},
		{"2.26", "PUT", path + "/b", "", 204, ""},
		{"2.26", "PUT", path + "/a", "", 201, ""},
		{"2.26", "PUT", path + "/a,b", "", 400, "not a valid tag"},
		{"2.26", "GET", path, "", 200, `{"tags":["a","b"]}`},
		{"2.26", "GET", path + "/a", "", 204, ""},
		{"2.26", "GET", path + "/c", "", 404, "has no tag 'c'"},
		{"2.26", "GET", "/servers?tags=a,b", "", 200, id},
		{"2.26", "GET", "/servers?tags-any=a,z", "", 200, id},
		{"2.26", "GET", "/servers?tags=a,z", "", 200, `{"servers":[]}`},
		{"2.26", "GET", "/servers?not-tags=a,b", "", 200, `{"servers":[]}`},
		{"2.26", "GET", "/servers?not-tags=a,z", "", 200, id},
		{"2.26", "GET", "/servers?not-tags-any=a,z", "", 200, `{"servers":[]}`},
		{"2.26", "DELETE", path + "/a", "", 204, ""},
		{"2.26", "DELETE", path + "/a", "", 404, "has no tag 'a'"},
		{"2.26", "PUT", path, `{"tags": [` + strings.Join(full, ",") + `]}`, 200, `"t49"`},
		{"2.26", "PUT", path + "/more", "", 400, "limit 50"},
		{"2.26", "PUT", path, `{"tags": ["a/b"]}`, 400, "not a valid tag"},
		{"2.26", "PUT", path, `{}`, 400, "body.tags"},
		{"2.26", "DELETE", path, "", 204, ""},
		{"2.26", "GET", path, "", 200, `{"tags":[]}`},
	})
	h.exchanges("bob:p2", []exchange{
		{"2.26", "GET", path, "", 404, "could not be found"},
		{"2.26", "PUT", path + "/x", "", 404, "could not be found"},
		{"2.26", "DELETE", path, "", 404, "could not be found"},
	})
	building := h.server(h.client("ann:p1"), "building", "web")
	h.exchanges("ann:p1", []exchange{
		{"2.26", "PUT", "/servers/" + building + "/tags/x", "", 409, "vm_state building"}})
}

func TestInstanceActions(t *testing.T) {
	h := start(t)
	id := h.running("web")
	path := "/servers/" + id + "/os-instance-actions"
	stop := h.at("2.1", "POST", "/v2.1/servers/"+id+"/action", `{"os-stop": null}`) // by an administrator
	request := stop.header.Get("X-Openstack-Request-Id")
	if request == "" || request != stop.header.Get("X-Compute-Request-Id") {
		t.Fatalf("%d %v", stop.status, stop.header)
	}
	r := h.at("2.58", "GET", "/v2.1"+path, "")
	created, _ := r.dig("instanceActions/1/request_id").(string)
	if r.dig("instanceActions/0/action") != "stop" || r.dig("instanceActions/1/action") != "create" ||
		r.dig("instanceActions/0/request_id") != request || !strings.HasPrefix(created, "req-") ||
		r.dig("instanceActions/0/project_id") != "admin" || r.dig("instanceActions/0/user_id") != "admin" ||
		r.dig("instanceActions/1/project_id") != "p1" || r.dig("instanceActions/1/user_id") != "ann" ||
		r.dig("instanceActions/0/updated_at") == nil {
		t.Fatal(r.text)
	}
	h.exchanges("ann:p1", []exchange{
		{"2.58", "GET", path + "?limit=1", "", 200, "marker=" + request},
		{"2.58", "GET", path + "?marker=" + request, "", 200, `"action":"create"`},
		{"2.58", "GET", path + "?marker=none", "", 400, "marker [none] not found"},
		{"2.58", "GET", path + "?changes-since=2100-01-01", "", 200, `{"instanceActions":[]}`},
		{"2.58", "GET", path + "?who=ann", "", 400, "Additional properties are not allowed ('who' was unexpected)"},
		{"2.57", "GET", path + "?who=ann", "", 200, `"action":"create"`},
		{"2.65", "GET", path + "?changes-before=2100-01-01", "", 400, "changes-before"},
		{"2.66", "GET", path + "?changes-before=2000-01-01", "", 200, `{"instanceActions":[]}`},
		{"2.66", "GET", path + "?changes-before=2100-01-01", "", 200, `"action":"create"`},
		{"2.66", "GET", path + "?changes-since=2100-01-02&changes-before=2100-01-01", "", 400, "less than or equal"},
		{"2.62", "GET", path + "/" + request, "", 200, `"hostId":"`},
		{"2.84", "GET", path + "/" + request, "", 200, `"details":null`},
		{"2.51", "GET", path + "/" + request, "", 200, `"event":"compute_stop_instance"`},
		{"2.51", "GET", path + "/" + created, "", 200, `"event":"compute__do_build_and_run_instance"`},
		{"2.1", "GET", path + "/req-none", "", 404, "Action for request_id req-none on instance"},
	})
	h.exchanges("bob:p2", []exchange{
		{"2.58", "GET", path, "", 404, "could not be found"},
		{"2.58", "GET", path + "/" + request, "", 404, "could not be found"},
	})
	h.exchanges("admin", []exchange{
		{"2.1", "GET", path + "/" + request, "", 200, `"event":"stop requested: powering-off"`},
		{"2.62", "GET", path + "/" + request, "", 200, `"host":"`}})
	if r := h.ask("GET", "/v2.1"+path+"/"+request, ""); r.dig("instanceAction/events") != nil ||
		r.dig("instanceAction/updated_at") != nil {
		t.Errorf("a user sees events before 2.51: %s", r.text)
	}
	h.apply(id, lifecycle.DeleteRequested{Silent: true})
	h.exchanges("ann:p1", []exchange{
		{"2.20", "GET", path, "", 404, "could not be found"},
		{"2.21", "GET", path, "", 200, `"action":"delete"`},
	})
}
