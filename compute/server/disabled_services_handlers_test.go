package server

import (
	"strings"
	"testing"

	"github.com/google/uuid"
)

// serviceID returns the UUID that the compute service of a host must have.
func serviceID(host string) string {
	return uuid.NewSHA1(uuid.NameSpaceDNS, []byte("nova-compute."+host)).String()
}

// TestDisableAndEnableServices disables and enables a host by name and by id, and checks what the lists show.
func TestDisableAndEnableServices(t *testing.T) {
	h := start(t)
	h.putReport("host1")
	const v53, id = "compute 2.53", "/v2.1/os-services/"
	by := id + serviceID("host1")
	for _, c := range []struct {
		name, version, path, body string
		code                      int
		shows                     string // status and reason in the list afterwards
	}{
		{"a new host", v53, by, `{"forced_down": false}`, 200, `"enabled" null`},
		{"with a reason", v53, by, `{"status": "disabled", "disabled_reason": "fans"}`, 200, `"disabled" "fans"`},
		{"without a reason", v53, by, `{"status": "disabled"}`, 200, `"disabled" null`},
		{"enable", v53, by, `{"status": "enabled"}`, 200, `"enabled" null`},
		{"both changes", v53, by, `{"status": "disabled", "forced_down": false}`, 200, `"disabled" null`},
		{"unknown status", v53, by, `{"status": "tired"}`, 400, `"disabled" null`},
		{"reason without disabling", v53, by, `{"status": "enabled", "disabled_reason": "x"}`, 400, `"disabled" null`},
		{"empty reason", v53, by, `{"status": "disabled", "disabled_reason": ""}`, 400, `"disabled" null`},
		{"nothing", v53, by, `{}`, 400, `"disabled" null`},
		{"unknown service", v53, id + "8b5f46a4-3b7c-4d51-a4c1-2f4b1a1f7f10", `{"status": "enabled"}`, 404,
			`"disabled" null`},
		{"by name", "compute 2.52", id + "enable", `{"host": "host1", "binary": "nova-compute"}`, 200, `"enabled" null`},
		{"by name, off", "compute 2.1", id + "disable", `{"host": "host1", "binary": "nova-compute"}`, 200,
			`"disabled" null`},
		{"by name, reason", "compute 2.1", id + "disable-log-reason",
			`{"host": "host1", "binary": "nova-compute", "disabled_reason": "dust"}`, 200, `"disabled" "dust"`},
		{"reason missing", "compute 2.1", id + "disable-log-reason", `{"host": "host1", "binary": "nova-compute"}`, 400,
			`"disabled" "dust"`},
		{"other binary", "compute 2.1", id + "enable", `{"host": "host1", "binary": "nova-scheduler"}`, 400,
			`"disabled" "dust"`},
		{"unknown host", "compute 2.1", id + "enable", `{"host": "host2", "binary": "nova-compute"}`, 404,
			`"disabled" "dust"`},
		{"by name since 2.53", v53, id + "enable", `{"host": "host1", "binary": "nova-compute"}`, 404, `"disabled" "dust"`},
	} {
		got := h.ask("PUT", c.path, c.body, "X-Auth-Token", "admin", "OpenStack-API-Version", c.version)
		if got.status != c.code {
			t.Errorf("%s: status %d: %s", c.name, got.status, got.text)
		}
		list := h.ask("GET", "/v2.1/os-services?binary=nova-compute", "", "X-Auth-Token", "admin").text
		status, reason, _ := strings.Cut(c.shows, " ")
		if !strings.Contains(list, `"status":`+status) || !strings.Contains(list, `"disabled_reason":`+reason) {
			t.Errorf("%s: the list has not %s: %s", c.name, c.shows, list)
		}
	}
	if got := h.ask("PUT", by, `{"status": "enabled"}`, "OpenStack-API-Version", v53); got.status != 403 {
		t.Errorf("a user may enable a host: %d", got.status)
	}
	hosts, err := h.hosts.Hosts(t.Context())
	if err != nil || !hosts[0].Disabled || hosts[0].DisabledReason != "dust" ||
		hosts[0].Conditions[0].Since.IsZero() ||
		hosts[0].Conditions[0].Text != "an operator has disabled this host: dust; `berth host enable host1` reverses that" {
		t.Errorf("%v %+v", err, hosts)
	}
}

// TestDeleteService deletes a service by its UUID, and by what is not one of a host.
func TestDeleteService(t *testing.T) {
	h := start(t)
	h.putReport("host1")
	path := "/os-services/"
	h.exchanges("ann:p1", []exchange{{"2.53", "DELETE", path + serviceID("host1"), "", 403, "role admin"}})
	_, rest, _ := strings.Cut(h.ask("GET", "/v2.1/os-services?binary=nova-scheduler", "", "X-Auth-Token", "admin",
		"OpenStack-API-Version", "compute 2.53").text, `"id":"`)
	scheduler, _, _ := strings.Cut(rest, `"`)
	h.exchanges("admin", []exchange{
		{"2.52", "DELETE", path + "1", "", 400, "by its UUID"},
		{"2.53", "DELETE", path + "1", "", 404, "Service 1 could not be found."},
		{"2.53", "DELETE", path + scheduler, "", 400, "Only nova-compute services"},
		{"2.53", "DELETE", path + serviceID("host1"), "", 204, ""},
		{"2.53", "DELETE", path + serviceID("host1"), "", 404, "could not be found"},
		{"2.53", "GET", "/os-services?binary=nova-compute", "", 200, `{"services":[]}`},
	})
}
