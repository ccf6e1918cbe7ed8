package server

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
)

func TestServerFieldsByVersion(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	made := h.at("2.1", "POST", "/v2.1/servers",
		`{"server": {"name": "My Server!", "flavorRef": "`+h.url+`/flavors/small", "imageRef": "`+imageID+
			`", "networks": [], "key_name": null}}`)
	id, _ := made.dig("server/id").(string)
	if made.status != 202 || id == "" {
		t.Fatalf("%d %s", made.status, made.text)
	}
	h.assign(id, "host1")
	plain := []string{"id", "name", "status", "tenant_id", "user_id", "metadata", "hostId", "image", "flavor", "created",
		"updated", "addresses",
		"accessIPv4", "accessIPv6", "links", "progress", "OS-DCF:diskConfig", "OS-EXT-AZ:availability_zone", "key_name",
		"config_drive",
		"OS-EXT-STS:vm_state", "OS-EXT-STS:task_state", "OS-EXT-STS:power_state", "OS-SRV-USG:launched_at",
		"OS-SRV-USG:terminated_at",
		"os-extended-volumes:volumes_attached"}
	place := []string{"OS-EXT-SRV-ATTR:host", "OS-EXT-SRV-ATTR:hypervisor_hostname", "OS-EXT-SRV-ATTR:instance_name"}
	extended := []string{"OS-EXT-SRV-ATTR:reservation_id", "OS-EXT-SRV-ATTR:launch_index", "OS-EXT-SRV-ATTR:hostname",
		"OS-EXT-SRV-ATTR:kernel_id",
		"OS-EXT-SRV-ATTR:ramdisk_id", "OS-EXT-SRV-ATTR:root_device_name", "OS-EXT-SRV-ATTR:user_data"}
	for _, c := range []struct {
		version, token string
		more           []string
	}{
		{"2.1", "ann:admin", nil},
		{"2.89", "ann:admin", []string{"locked", "description", "tags", "trusted_image_certificates", "locked_reason"}},
		{"2.104", "ann:admin", []string{"locked", "description", "tags", "trusted_image_certificates", "locked_reason",
			"OS-EXT-SRV-ATTR:hostname", "pinned_availability_zone", "scheduler_hints"}},
		{"2.61", "ann:admin", []string{"locked", "description", "tags"}},
		{"2.1", "admin", place},
		{"2.2", "admin", place},
		{"2.3", "admin", slices.Concat(place, extended)},
		{"2.9", "admin", slices.Concat(place, extended, []string{"locked"})},
		{"2.16", "admin", slices.Concat(place, extended, []string{"locked", "host_status"})},
		{"2.19", "admin", slices.Concat(place, extended, []string{"locked", "host_status", "description"})},
		{"2.26", "admin", slices.Concat(place, extended, []string{"locked", "host_status", "description", "tags"})},
	} {
		want := slices.Sorted(slices.Values(slices.Concat(plain, c.more)))
		one := h.ask("GET", "/v2.1/servers/"+id, "", "X-Auth-Token", c.token, "OpenStack-API-Version", "compute "+c.version)
		if minor, _ := strconv.Atoi(c.version[2:]); minor >= 71 { // only one server shows its groups
			got, _ := one.dig("server").(map[string]any)
			if list, ok := got["server_groups"].([]any); !ok || len(list) != 0 {
				t.Errorf("%s: %s", c.version, one.text)
			}
			delete(got, "server_groups")
		}
		all := h.ask("GET", "/v2.1/servers/detail", "", "X-Auth-Token", c.token, "OpenStack-API-Version",
			"compute "+c.version)
		for _, v := range []any{one.dig("server"), all.dig("servers/0")} {
			got, _ := v.(map[string]any)
			if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, want) {
				t.Errorf("%s as %s:\n got %v\nwant %v", c.version, c.token, keys, want)
			}
		}
	}
	old, now := h.at("2.46", "GET", "/v2.1/servers/"+id, ""), h.at("2.47", "GET", "/v2.1/servers/"+id, "")
	if got := fmt.Sprint(old.dig("server/flavor")); got != fmt.Sprintf("map[id:small links:[map[href:%s/flavors/small "+
		"rel:bookmark]]]", h.url) {
		t.Error(got)
	}
	if got := fmt.Sprint(now.dig("server/flavor")); got != "map[disk:3 ephemeral:0 extra_specs:map[] "+
		"original_name:small ram:512 swap:0 vcpus:2]" {
		t.Error(got)
	}
	if now.dig("server/OS-EXT-SRV-ATTR:hostname") != "my-server" || now.dig("server/image/id") != imageID ||
		now.dig("server/OS-EXT-STS:task_state") != "spawning" || now.dig("server/addresses") == nil {
		t.Error(now.text)
	}
	if list := h.at("2.61", "GET", "/v2.1/servers", ""); len(list.dig("servers/0").(map[string]any)) != 3 {
		t.Error(list.text)
	}
}

func TestFaultOfServerIsShown(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	id := h.server(h.client("ann:p1"), "s", "small")
	if r := h.ask("GET", "/v2.1/servers/"+id, ""); r.dig("server/fault") != nil {
		t.Error(r.text)
	}
	h.prepare(id)
	h.apply(id, lifecycle.NoValidHost{Candidates: 2, Reason: "2 hosts: no free gpu"})
	r := h.ask("GET", "/v2.1/servers/"+id, "")
	message, _ := r.dig("server/fault/message").(string)
	if r.dig("server/status") != "ERROR" || r.dig("server/fault/code") != 500.0 || !strings.Contains(message,
		"no free gpu") {
		t.Error(r.text)
	}
	if _, err := time.Parse("2006-01-02T15:04:05Z", fmt.Sprint(r.dig("server/fault/created"))); err != nil {
		t.Error(err)
	}
	if r.dig("server/image") != "" || r.dig("server/progress") != nil {
		t.Error(r.text)
	}
}
