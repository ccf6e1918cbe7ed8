package server

import (
	"strings"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
)

func TestAggregates(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	h.putReport("host1")
	h.putReport("host2")
	const path = "/os-aggregates"
	long, longer := strings.Repeat("ж", 255), strings.Repeat("ж", 256)
	metadata := func(key, value string) string {
		return `{"set_metadata": {"metadata": {"` + key + `": ` + value + `}}}`
	}
	h.exchanges("ann:p1", []exchange{{"2.1", "GET", path, "", 403, "role admin"}})
	h.exchanges("admin", []exchange{
		{"2.40", "POST", path, `{"aggregate": {"name": "north", "availability_zone": "z1"}}`, 200,
			`"name":"north","availability_zone":"z1"`},
		{"2.1", "POST", path, `{"aggregate": {"name": "north"}}`, 409, "Aggregate north already exists."},
		{"2.1", "POST", path, `{"aggregate": {"name": "x", "availability_zone": "a:b"}}`, 400, "without colons"},
		{"2.1", "POST", path, `{"aggregate": {"name": "x", "metadata": {}}}`, 400, "metadata"},
		{"2.41", "POST", path, `{"aggregate": {"name": "south", "availability_zone": "z2"}}`, 200, `"uuid":"`},
		{"2.1", "POST", path, `{"aggregate": {"name": "plain"}}`, 200, `"availability_zone":null`},
		{"2.1", "GET", path + "/1", "", 200, `"hosts":[],"metadata":{"availability_zone":"z1"}`},
		{"2.1", "GET", path + "/9", "", 404, "Aggregate 9 could not be found."},
		{"2.1", "GET", path + "/x", "", 400, "an integer"},
		{"2.1", "POST", path + "/1/action", `{"add_host": {"host": "host1"}}`, 200, `"hosts":["host1"]`},
		{"2.1", "POST", path + "/1/action", `{"add_host": {"host": "host1"}}`, 409, "already has host host1"},
		{"2.1", "POST", path + "/1/action", `{"add_host": {"host": "none"}}`, 404, "Compute host none could not be found."},
		{"2.1", "POST", path + "/2/action", `{"add_host": {"host": "host1"}}`, 409, "already in availability zone(s) z1"},
		{"2.1", "POST", path + "/3/action", `{"add_host": {"host": "host1"}}`, 200, `"hosts":["host1"]`},
		{"2.1", "PUT", path + "/3", `{"aggregate": {"availability_zone": "z3"}}`, 400, "already in availability zone(s) z1"},
		{"2.1", "PUT", path + "/3", `{"aggregate": {"name": "flat"}}`, 200, `"name":"flat"`},
		{"2.1", "PUT", path + "/3", `{"aggregate": {}}`, 400, "name"},
		{"2.1", "POST", path + "/3/action", `{"set_metadata": {"metadata": {"ssd": "true", "x": "y"}}}`, 200,
			`"metadata":{"ssd":"true","x":"y"}`},
		{"2.1", "POST", path + "/3/action", `{"set_metadata": {"metadata": {"x": null}}}`, 200, `"metadata":{"ssd":"true"}`},
		{"2.1", "POST", path + "/3/action", metadata(long, `"`+long+`"`), 200, long},
		{"2.1", "POST", path + "/3/action", metadata(long, "null"), 200, `"metadata":{"ssd":"true"}`},
		{"2.1", "POST", path + "/3/action", metadata("x", `"`+longer+`"`), 400, "255 characters"},
		{"2.1", "POST", path + "/3/action", `{"fly": {}}`, 400, "no such action"},
		{"2.1", "DELETE", path + "/3", "", 400, "Host aggregate is not empty"},
		{"2.1", "POST", path + "/3/action", `{"remove_host": {"host": "host2"}}`, 404, "Cannot remove host host2"},
		{"2.1", "POST", path + "/3/action", `{"remove_host": {"host": "host1"}}`, 200, `"hosts":[]`},
		{"2.1", "DELETE", path + "/3", "", 200, ""},
		{"2.81", "POST", path + "/1/images", `{"cache": []}`, 501, "cannot be told to fetch images"},
		{"2.80", "POST", path + "/1/images", `{"cache": []}`, 404, ""},
		{"2.1", "GET", "/os-availability-zone/detail", "", 200, `"zoneName":"z1"`},
		{"2.1", "GET", "/os-services", "", 200, `"zone":"z1"`},
	})
	h.exchanges("ann:p1", []exchange{{"2.1", "GET", "/os-availability-zone", "", 200,
		`{"availabilityZoneInfo":[{"zoneName":"nova"`}})
}

// A server is created in a zone, or by administrators on a host; it keeps its zone, and its host too.
func TestServersInZones(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	h.putReport("host1")
	h.putReport("host2")
	h.exchanges("admin", []exchange{
		{"2.1", "POST", "/os-aggregates", `{"aggregate": {"name": "north", "availability_zone": "z1"}}`, 200, ""},
		{"2.1", "POST", "/os-aggregates/1/action", `{"add_host": {"host": "host1"}}`, 200, ""},
	})
	server := func(more string) string {
		return `{"server": {"name": "a", "flavorRef": "small", "imageRef": "", "networks": "none", ` + more + `}}`
	}
	h.exchanges("ann:p1", []exchange{
		{"2.74", "POST", "/servers", server(`"availability_zone": "z2"`), 400, "no host is in zone z2"},
		{"2.74", "POST", "/servers", server(`"availability_zone": "a:b:c:d"`), 400, "Unable to parse availability_zone"},
		{"2.74", "POST", "/servers", server(`"availability_zone": "z1:host1"`), 403, ""},
		{"2.74", "POST", "/servers", server(`"host": "host1"`), 403, ""},
		{"2.73", "POST", "/servers", server(`"host": "host1"`), 400, "host"},
	})
	h.exchanges("admin", []exchange{
		{"2.74", "POST", "/servers", server(`"availability_zone": "z1:none"`), 400, "Compute host none could not be found."},
		{"2.74", "POST", "/servers", server(`"availability_zone": "z1:host2"`), 400, "zone nova, not in z1"},
		{"2.74", "POST", "/servers", server(`"availability_zone": "z1:host1:node9"`), 400, "has no node node9"},
	})
	for more, want := range map[string]lifecycle.Server{
		`"availability_zone": "z1"`:             {Zone: "z1"},
		`"availability_zone": "z1:host1:host1"`: {Zone: "z1", Target: "host1"},
		`"availability_zone": "z1::host1"`:      {Zone: "z1", Target: "host1"},
		`"availability_zone": ":host2"`:         {Target: "host2"},
		`"hypervisor_hostname": "host2"`:        {Target: "host2"},
	} {
		made := h.ask("POST", "/v2.1/servers", server(more), "X-Auth-Token", "admin", "OpenStack-API-Version", "compute 2.74")
		id, _ := made.dig("server/id").(string)
		if made.status != 202 {
			t.Fatal(more, made.text)
		}
		if s := h.read(id); s.Zone != want.Zone || s.Target != want.Target {
			t.Errorf("%s: zone %q, host %q", more, s.Zone, s.Target)
		}
		shown := h.ask("GET", "/v2.1/servers/"+id, "", "X-Auth-Token", "admin", "OpenStack-API-Version", "compute 2.96")
		if want.Zone != "" && !strings.Contains(shown.text, `"pinned_availability_zone":"`+want.Zone+`"`) {
			t.Error(shown.text)
		}
	}
}

// A host with servers does not change its zone.
func TestZoneOfHostWithServers(t *testing.T) {
	h := start(t)
	h.putReport("host1")
	h.flavor("one", nil)
	h.runningServer("web")
	h.exchanges("admin", []exchange{
		{"2.1", "POST", "/os-aggregates", `{"aggregate": {"name": "north", "availability_zone": "z1"}}`, 200, ""},
		{"2.1", "POST", "/os-aggregates", `{"aggregate": {"name": "plain"}}`, 200, ""},
		{"2.1", "POST", "/os-aggregates/1/action", `{"add_host": {"host": "host1"}}`, 409, "contain instances"},
		{"2.1", "POST", "/os-aggregates/2/action", `{"add_host": {"host": "host1"}}`, 200, ""},
		{"2.1", "PUT", "/os-aggregates/2", `{"aggregate": {"availability_zone": "z1"}}`, 400, "contain instances"},
		{"2.1", "POST", "/os-aggregates/2/action", `{"set_metadata": {"metadata": {"availability_zone": "z1"}}}`, 400,
			"contain instances"},
		{"2.1", "POST", "/os-aggregates/2/action", `{"remove_host": {"host": "host1"}}`, 200, ""},
	})
}

// A shelved server is unshelved in a zone and on a host that the request names.
func TestUnshelveInZone(t *testing.T) {
	h := start(t)
	h.flavor("one", nil)
	h.putReport("host1")
	id := h.runningServer("web")
	h.exchanges("admin", []exchange{
		{"2.1", "POST", "/os-aggregates", `{"aggregate": {"name": "north", "availability_zone": "z1"}}`, 200, ""},
		{"2.1", "POST", "/os-aggregates", `{"aggregate": {"name": "south", "availability_zone": "z2"}}`, 200, ""},
	})
	h.putReport("host2")
	if _, err := h.store.Change(t.Context(), id, func(s lifecycle.Server) lifecycle.Server {
		s.State, s.Shelved, s.Host, s.Choices = lifecycle.Shelved, true, "", nil
		return s
	}); err != nil {
		t.Fatal(err)
	}
	action := "/servers/" + id + "/action"
	h.exchanges("admin", []exchange{
		{"2.1", "POST", "/os-aggregates/1/action", `{"add_host": {"host": "host1"}}`, 200, ""},
		{"2.76", "POST", action, `{"unshelve": {"availability_zone": "z1"}}`, 400, "availability_zone"},
		{"2.77", "POST", action, `{"unshelve": {"availability_zone": "z9"}}`, 400, "no host is in zone z9"},
		{"2.77", "POST", action, `{"unshelve": {"availability_zone": null}}`, 400, "null"},
		{"2.77", "POST", action, `{"unshelve": {"host": "host1"}}`, 400, "host"},
		{"2.91", "POST", action, `{"unshelve": {"availability_zone": "z1", "host": "host2"}}`, 400, "not in z1"},
	})
	h.exchanges("admin", []exchange{
		{"2.91", "POST", action, `{"unshelve": {"availability_zone": "z1", "host": "host1"}}`, 202, ""}})
	if s := h.read(id); s.Zone != "z1" || s.Target != "host1" || s.State != lifecycle.Scheduling {
		t.Errorf("zone %q, host %q, %s", s.Zone, s.Target, s.State)
	}
}
