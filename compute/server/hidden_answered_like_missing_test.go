package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/openberth/berth/compute/lifecycle"
)

// visibleParts returns all that a client sees of a response, with the requested id replaced by "ID".
func visibleParts(r reply, id string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.header)) {
		switch name {
		case "Date", "X-Compute-Request-Id", "X-Openstack-Request-Id":
		default:
			fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(r.header[name], ","))
		}
	}
	return fmt.Sprintf("%d\n%s\n%s", r.status, b.String(), strings.ReplaceAll(r.text, id, "ID"))
}

// TestHiddenObjectIsAnsweredLikeMissingOne checks that a server of another project, or a flavor that is not public, is
// answered exactly like one that does not exist.
func TestHiddenObjectIsAnsweredLikeMissingOne(t *testing.T) {
	h := start(t)
	unknown := uuid.NewString()
	private := uuid.NewString()
	h.flavor("small", nil)
	if r := h.at("2.1", "POST", "/v2.1/flavors",
		fmt.Sprintf(`{"flavor": {"id": %q, "name": "private", "vcpus": 1, "ram": 1, "disk": 0,
		"os-flavor-access:is_public": false}}`, private)); r.status != 200 {
		t.Fatal(r.text)
	}
	bob := h.client("bob:p2")
	theirs, deleted := h.server(bob, "theirs", "small"), h.server(bob, "deleted", "small")
	h.apply(deleted, lifecycle.DeleteRequested{})
	mine := h.server(h.client("ann:p1"), "mine", "small")
	for _, c := range []struct{ method, path, body, hidden string }{
		{"GET", "/v2.1/servers?marker=ID", "", theirs},
		{"GET", "/v2.1/servers?marker=ID", "", deleted},
		{"GET", "/v2.1/servers?marker=ID&limit=0", "", theirs},
		{"GET", "/v2.1/servers?marker=ID&limit=1&name=mine", "", theirs},
		{"GET", "/v2.1/servers?marker=ID&status=PAUSED", "", theirs},
		{"GET", "/v2.1/servers/detail?marker=ID", "", theirs},
		{"GET", "/v2.1/servers/detail?marker=ID&changes-since=2020-01-01", "", deleted},
		{"GET", "/v2.1/servers/ID", "", theirs},
		{"GET", "/v2.1/servers/ID", "", deleted},
		{"DELETE", "/v2.1/servers/ID", "", theirs},
		{"DELETE", "/v2.1/servers/ID", "", deleted},
		{"POST", "/v2.1/servers/ID/action", `{"os-stop": null}`, theirs},
		{"POST", "/v2.1/servers/ID/action", `{"forceDelete": null}`, deleted},
		{"POST", "/v2.1/servers/ID/action", `{"migrate": null}`, theirs},
		{"POST", "/v2.1/servers/ID/action", `nonsense`, theirs},
		{"GET", "/v2.1/servers/ID/migrations", "", theirs},
		{"GET", "/v2.1/os-migrations?instance_uuid=ID", "", theirs},
		{"GET", "/berth/v1/servers/ID/why", "", theirs},
		{"GET", "/berth/v1/servers/ID/why", "", deleted},
		{"GET", "/v2.1/flavors?marker=ID", "", private},
		{"GET", "/v2.1/flavors?marker=ID&is_public=None", "", private},
		{"GET", "/v2.1/flavors/detail?marker=ID&minRam=1", "", private},
		{"GET", "/v2.1/flavors/ID", "", private},
		{"PUT", "/v2.1/flavors/ID", `{"flavor": {"description": "d"}}`, private},
		{"DELETE", "/v2.1/flavors/ID", "", private},
		{"GET", "/v2.1/flavors/ID/os-extra_specs", "", private},
		{"GET", "/v2.1/flavors/ID/os-extra_specs/k", "", private},
		{"DELETE", "/v2.1/flavors/ID/os-extra_specs/k", "", private},
		{"GET", "/v2.1/servers?flavor=ID", "", private},
		{"POST", "/v2.1/servers", `{"server": {"name": "a", "flavorRef": "ID"}}`, private},
		{"POST", "/v2.1/servers/" + mine + "/action", `{"resize": {"flavorRef": "ID"}}`, private},
	} {
		of := func(id string) string {
			path, body := strings.ReplaceAll(c.path, "ID", id), strings.ReplaceAll(c.body, "ID", id)
			r := h.ask(c.method, path, body, "OpenStack-API-Version", "compute 2.55")
			return visibleParts(r, id)
		}
		if hidden, missing := of(c.hidden), of(unknown); hidden != missing {
			t.Errorf("%s %s %s: hidden\n%s\nunknown\n%s", c.method, c.path, c.body, hidden, missing)
		}
	}
	// Users who may see an object may use it as a marker.
	for token, paths := range map[string][]string{
		"ann:p1": {"/v2.1/servers?marker=" + mine},
		"bob:p2": {"/v2.1/servers?marker=" + theirs, "/v2.1/servers/detail?marker=" + deleted},
		"admin":  {"/v2.1/servers?all_tenants=1&marker=" + theirs, "/v2.1/flavors?is_public=None&marker=" + private},
	} {
		for _, path := range paths {
			if r := h.ask("GET", path, "", "X-Auth-Token", token); r.status != 200 {
				t.Errorf("%s as %s: %d %s", path, token, r.status, r.text)
			}
		}
	}
}
