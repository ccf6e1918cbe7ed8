package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

func TestErrorBodies(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	h.flavor("gpu", map[string]string{"pci_passthrough:alias": "gpu:1"})
	const (
		servers = "/v2.1/servers"
		specs   = "/v2.1/flavors/small/os-extra_specs"
		devices = "/berth/v1/devices"
	)
	admin := []string{"X-Auth-Token", "admin"}
	checked := []string{"X-Auth-Token", "admin", "OpenStack-API-Version", "compute 2.86"}
	at := func(version string) []string { return []string{"OpenStack-API-Version", "compute " + version} }
	create := func(rest string) string { return `{"server": {"name": "a", "flavorRef": "small"` + rest + `}}` }
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		key, wantText      string
	}{
		// paths and methods
		{"GET", "/v2.1/nothing", "", nil, 404, "itemNotFound", "/v2.1/nothing"},
		{"GET", "/v2.1/p1/nothing", "", nil, 404, "itemNotFound", "nothing"},
		{"PATCH", servers, "", nil, 405, "badMethod", "PATCH"},
		{"DELETE", "/", "", nil, 405, "badMethod", "DELETE"},
		{"POST", servers + "/detail", "", nil, 405, "badMethod", "POST"},
		// authentication and authorization
		{"GET", servers, "", []string{"X-Auth-Token", ""}, 401, "unauthorized", "X-Auth-Token"},
		{"GET", devices, "", nil, 403, "forbidden", "service or admin"},
		{"POST", "/v2.1/flavors", "{}", nil, 403, "forbidden", "admin"},
		{"GET", servers + "?all_tenants=1", "", nil, 403, "forbidden", "all_tenants"},
		{"GET", servers + "?status=deleted", "", nil, 403, "forbidden", "admins"},
		{"GET", "/v2.1/p2/servers", "", nil, 400, "badRequest", `"p2"`},
		// versions
		{"GET", servers, "", at("2.105"), 406, "computeFault", "Version 2.105 is not supported by the API. Minimum is 2.1 " +
			"and maximum is 2.104."},
		{"GET", servers, "", at("3.1"), 406, "computeFault", "3.1"},
		{"GET", servers, "", at("2.0"), 406, "computeFault", "2.0"},
		{"GET", servers, "", []string{"X-OpenStack-Nova-API-Version", "2.199"}, 406, "computeFault", "2.199"},
		{"GET", servers, "", at("new"), 400, "badRequest", "new"},
		// bodies
		{"POST", servers, "", nil, 400, "badRequest", "Malformed request body"},
		{"POST", servers, "{", nil, 400, "badRequest", "Malformed request body"},
		{"POST", servers, create("") + "{}", nil, 400, "badRequest", "Malformed request body"},
		{"POST", servers, "[]", nil, 400, "badRequest", "Malformed request body"},
		{"POST", servers, `{"server": null}`, nil, 400, "badRequest", `"server"`},
		{"POST", servers, `{"servers": {}}`, nil, 400, "badRequest", `"server"`},
		{"POST", servers, "a=b", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "badMediaType",
			"application/json"},
		{"POST", servers, `"` + strings.Repeat("x", request.MaxBody) + `"`, nil, 413, "overLimit", "larger"},
		// creating a server
		{"POST", servers, `{"server": {"flavorRef": "small"}}`, nil, 400, "badRequest", "server.name: it is missing"},
		{"POST", servers, `{"server": {"name": "", "flavorRef": "small"}}`, nil, 400, "badRequest", "0 characters"},
		{"POST", servers, `{"server": {"name": " a", "flavorRef": "small"}}`, nil, 400, "badRequest", "server.name"},
		{"POST", servers, `{"server": {"name": "` + strings.Repeat("x", 256) + `", "flavorRef": "small"}}`, nil, 400,
			"badRequest", "256 characters"},
		{"POST", servers, `{"server": {"name": 5, "flavorRef": "small"}}`, nil, 400, "badRequest",
			"it is 5, and should be a text"},
		{"POST", servers, `{"server": {"name": "a"}}`, nil, 400, "badRequest", "server.flavorRef"},
		{"POST", servers, `{"server": {"name": "a", "flavorRef": "huge"}}`, nil, 400, "badRequest",
			"Flavor huge could not be found"},
		{"POST", servers, create(`, "colour": "red"`), nil, 400, "badRequest",
			`Additional properties are not allowed: "colour" in server`},
		{"POST", servers, `{"server": {"name": "a", "flavorRef": "small"}, "colour": 1}`, nil, 400, "badRequest", `"colour"`},
		{"POST", servers, create(`, "key_name": "k"`), nil, 400, "badRequest",
			"Invalid key_name provided: user ann has no key pair k"},
		{"POST", servers, create(`, "block_device_mapping_v2": [{}]`), nil, 400, "badRequest", "Berth has no volumes"},
		{"POST", servers, create(`, "user_data": "%"`), nil, 400, "badRequest", "user_data: it is not base64"},
		{"POST", servers, create(`, "user_data": "` + strings.Repeat("eHh4", 16384) + `"`), nil, 400, "badRequest",
			"it has 65536 characters; from 0 to 65535 are allowed"},
		{"POST", servers, create(`, "config_drive": "maybe"`), nil, 400, "badRequest", "config_drive"},
		{"POST", servers, create(`, "personality": [{}]`), nil, 400, "badRequest", "does not support server.personality"},
		{"POST", servers, create(`, "personality": [], "networks": "none"`), at("2.57"), 400, "badRequest",
			`Additional properties are not allowed: "personality"`},
		{"POST", servers, create(`, "networks": [{"uuid": "70a599e0-31e7-49b7-b260-868f441e862b"}]`), nil, 400, "badRequest",
			"no network service"},
		{"POST", servers, create(`, "networks": [{"uuid": "x"}]`), at("2.37"), 400, "badRequest", `"x" is not a UUID`},
		{"POST", servers, create(`, "networks": "none"`), nil, 400, "badRequest",
			"since version 2.37, and this request has version 2.1"},
		{"POST", servers, create(``), at("2.37"), 400, "badRequest", "networks: it is missing"},
		{"POST", servers, create(`, "networks": "all"`), at("2.37"), 400, "badRequest", `not "all"`},
		{"POST", servers, create(`, "security_groups": [{"name": "web"}]`), nil, 400, "badRequest", "Security group web"},
		{"POST", servers, create(`, "availability_zone": "z1"`), nil, 400, "badRequest", "no host is in zone z1"},
		{"POST", servers, create(`, "imageRef": "cirros"`), nil, 400, "badRequest", `"cirros" is not the UUID`},
		{"POST", servers, create(`, "description": "d"`), nil, 400, "badRequest", `"description" in server`},
		{"POST", servers, create(`, "tags": ["a"], "networks": "none"`), at("2.51"), 400, "badRequest", `"tags" in server`},
		{"POST", servers, create(`, "tags": ["a,b"], "networks": "none"`), at("2.52"), 400, "badRequest", `"a,b"`},
		{"POST", servers, create(`, "min_count": 3, "max_count": 2`), nil, 400, "badRequest",
			"3, more than max_count, which is 2"},
		{"POST", servers, create(`, "max_count": 0`), nil, 400, "badRequest", "server.max_count"},
		{"POST", servers, create(`, "max_count": 5000`), nil, 400, "badRequest", "from 1 to 4096"},
		{"POST", servers, create(`, "metadata": {"k": 1}`), nil, 400, "badRequest", "an object of texts"},
		{"POST", servers, `{"server": {"name": "a", "flavorRef": "small"}, "os:scheduler_hints": {"same_host": "g"}}`, nil,
			400, "badRequest", "is not the UUID of a server"},
		{"POST", servers, `{"server": {"name": "a", "flavorRef": "small"}, "OS-SCH-HNT:scheduler_hints": {"colour": 1}}`,
			nil, 400, "badRequest", "Additional properties"},
		{"PUT", "/v2.1/os-services/enable", `{"host": "h", "binary": "nova-compute", "colour": 1}`, admin, 400,
			"badRequest", `"colour" in the body`},
		{"POST", servers, `{"server": {"name": "a", "flavorRef": "small"}, "os:scheduler_hints": {"group": "g"}}`, nil, 400,
			"badRequest", "the UUID of a server group"},
		// servers that do not exist
		{"GET", servers + "/x", "", nil, 404, "itemNotFound", "Instance x could not be found."},
		{"DELETE", servers + "/x", "", nil, 404, "itemNotFound", "Instance x could not be found."},
		{"GET", "/berth/v1/servers/x/why", "", nil, 404, "itemNotFound", "Instance x could not be found."},
		// lists
		{"GET", servers + "?limit=-1", "", nil, 400, "badRequest", `"-1"`},
		{"GET", servers + "?limit=all", "", nil, 400, "badRequest", `"all"`},
		{"GET", servers + "?marker=x", "", nil, 400, "badRequest", "marker"},
		{"GET", servers + "?name=%28", "", nil, 400, "badRequest", "regular expression"},
		{"GET", servers + "?status=HAPPY", "", at("2.38"), 400, "badRequest", `"HAPPY"`},
		{"GET", servers + "?changes-since=now", "", nil, 400, "badRequest", `"now" is not a valid time`},
		{"GET", "/v2.1/flavors?marker=x", "", nil, 400, "badRequest", "marker"},
		{"GET", "/v2.1/flavors?minRam=x", "", nil, 400, "badRequest", "minRam"},
		{"GET", "/v2.1/flavors?is_public=maybe", "", admin, 400, "badRequest", "is_public"},
		// flavors
		{"GET", "/v2.1/flavors/x", "", nil, 404, "itemNotFound", "Flavor x could not be found."},
		{"DELETE", "/v2.1/flavors/x", "", admin, 404, "itemNotFound", "x"},
		{"POST", "/v2.1/flavors", `{"flavor": {"name": "f", "vcpus": 1, "ram": 1}}`, admin, 400, "badRequest",
			"flavor.disk: it is missing"},
		{"POST", "/v2.1/flavors", `{"flavor": {"name": "f", "vcpus": 0, "ram": 1, "disk": 0}}`, admin, 400, "badRequest",
			"from 1 to 2147483647"},
		{"POST", "/v2.1/flavors", `{"flavor": {"name": "f", "vcpus": 1.5, "ram": 1, "disk": 0}}`, admin, 400, "badRequest",
			"1.5"},
		{"POST", "/v2.1/flavors", `{"flavor": {"name": "f", "vcpus": 1, "ram": 1, "disk": 0, "id": "a/b"}}`, admin, 400,
			"badRequest", "flavor.id"},
		{"POST", "/v2.1/flavors", `{"flavor": {"name": "f", "vcpus": 1, "ram": 1, "disk": 0, "rxtx_factor": 0}}`, admin, 400,
			"badRequest", "rxtx_factor"},
		{"POST", "/v2.1/flavors",
			`{"flavor": {"name": "f", "vcpus": 1, "ram": 1, "disk": 0, "os-flavor-access:is_public": "maybe"}}`, admin, 400,
			"badRequest", "maybe"},
		{"POST", "/v2.1/flavors", `{"flavor": {"name": "f", "vcpus": 1, "ram": 1, "disk": 0, "description": "d"}}`, admin,
			400, "badRequest", "description"},
		{"POST", "/v2.1/flavors", `{"flavor": {"name": "small", "vcpus": 1, "ram": 1, "disk": 0}}`, admin, 409,
			"conflictingRequest", "small"},
		{"PUT", "/v2.1/flavors/small", `{"flavor": {"description": "d"}}`, admin, 404, "itemNotFound", "since version 2.55"},
		// extra specs
		{"GET", specs + "/x", "", nil, 404, "itemNotFound", "no extra specs with key x"},
		{"DELETE", specs + "/x", "", admin, 404, "itemNotFound", "x"},
		{"POST", specs, `{"extra_specs": {"pci_passthrough:alias": "gpu"}}`, checked, 400, "badRequest", "colon and a count"},
		{"POST", specs, `{"extra_specs": {"pci_passthrough:alias": "tpu:1"}}`, checked, 400, "badRequest",
			`no alias "tpu" is configured`},
		{"PUT", specs + "/pci_passthrough:alias", `{"pci_passthrough:alias": "gpu:0"}`, checked, 400, "badRequest", `"0"`},
		{"PUT", specs + "/a", `{"b": "1"}`, admin, 400, "badRequest", `"a"`},
		{"PUT", specs + "/a", `{"a": "1", "b": "2"}`, admin, 400, "badRequest", `"a"`},
		{"POST", specs, `{"extra_specs": {"a": {}}}`, admin, 400, "badRequest", "a text or a number"},
		{"POST", specs, `{"extra_specs": {"ä": "1"}}`, admin, 400, "badRequest", "letters"},
		{"POST", specs, `{"extra_specs": {"a": "` + strings.Repeat("x", 256) + `"}}`, admin, 400, "badRequest", "255"},
		{"POST", "/v2.1/flavors/x/os-extra_specs", `{"extra_specs": {"a": "1"}}`, admin, 404, "itemNotFound", "x"},
	} {
		r := h.ask(c.method, c.path, c.body, c.headers...)
		message, _ := r.dig(c.key + "/message").(string)
		if r.status != c.status || r.dig(c.key+"/code") != float64(c.status) || !strings.Contains(message, c.wantText) {
			t.Errorf("%s %s %.80s %v:\n got %d %.300s\nwant %d %s … %s", c.method, c.path, c.body, c.headers, r.status, r.text,
				c.status, c.key, c.wantText)
		}
		if len(r.body) != 1 || r.header.Get("Content-Type") != "application/json" ||
			!strings.HasPrefix(r.header.Get("X-Openstack-Request-Id"), "req-") {
			t.Errorf("%s %s: %d keys, headers %v", c.method, c.path, len(r.body), r.header)
		}
	}
	if list, err := h.store.Servers(t.Context(), allServers()); err != nil || len(list) != 0 {
		t.Errorf("a refused request left %d servers (%v)", len(list), err)
	}
}

func TestWrongMethodReturnsAllowedMethods(t *testing.T) {
	h := start(t)
	for path, allow := range map[string]string{
		"/":                          "GET, HEAD",
		"/v2.1/servers":              "GET, POST, HEAD",
		"/v2.1/p1/servers/x":         "DELETE, GET, PUT, HEAD",
		"/v2.1/flavors/f":            "DELETE, GET, PUT, HEAD",
		"/berth/v1/hosts/h":          "DELETE, GET, PUT, HEAD",
		"/berth/v1/hosts/h/guests/s": "GET, PUT, HEAD",
	} {
		if r := h.ask("PATCH", path, ""); r.status != 405 || r.header.Get("Allow") != allow {
			t.Errorf("%s: %d, Allow %q", path, r.status, r.header.Get("Allow"))
		}
	}
}

// stalled is a request body of which no more data arrives.
type stalled struct{}

func (stalled) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

// TestSlowBodyIsAnsweredWith408 sends a small and a large body that arrive too slowly.
func TestSlowBodyIsAnsweredWith408(t *testing.T) {
	h := start(t)
	for _, sent := range []int{10, 10 * rest.FreeBody} {
		r := httptest.NewRequest("POST", "/v2.1/servers", io.MultiReader(strings.NewReader(strings.Repeat(" ", sent)),
			stalled{}))
		r.Header.Set("X-Auth-Token", "ann:p1")
		w := httptest.NewRecorder()
		New(Options{Store: h.store, Agents: h.conductor.Agents, Conductor: h.conductor,
			Options: edge.Options{Authenticate: identity.NoAuth2}}).ServeHTTP(w, r)
		if w.Code != http.StatusRequestTimeout || !strings.Contains(w.Body.String(), `{"requestTimeout":{"code":408,`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

func TestInternalErrorIsLoggedAndHidden(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	h.conductor.room, h.conductor.fails = 0, fault.New(fault.Internal, "the secret is out")
	r := h.ask("POST", "/v2.1/servers", `{"server": {"name": "a", "flavorRef": "small"}}`)
	id := r.header.Get("X-Compute-Request-Id")
	if r.status != 500 || r.dig("computeFault/code") != 500.0 || strings.Contains(r.text, "secret") ||
		!strings.Contains(r.text, id) {
		t.Errorf("%d %s", r.status, r.text)
	}
	if log := h.log.String(); !strings.Contains(log, "the secret is out") || !strings.Contains(log, id) {
		t.Errorf("log: %s", log)
	}
	h.conductor.fails = fault.New(fault.Unavailable, "the database is busy")
	if r := h.ask("POST", "/v2.1/servers", `{"server": {"name": "a", "flavorRef": "small"}}`); r.status != 503 ||
		r.dig("serviceUnavailable/message") != "the database is busy" {
		t.Errorf("%d %s", r.status, r.text)
	}
}
