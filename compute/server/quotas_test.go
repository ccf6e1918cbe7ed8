package server

import (
	"fmt"
	"strings"
	"testing"
)

// TestQuotasAreSet sets and resets limits of projects, users and the default class.
func TestQuotasAreSet(t *testing.T) {
	h, _ := withHost(t) // a server of p1 with 2 cores
	const set = "/os-quota-sets/p1"
	h.exchanges("admin", []exchange{
		{"2.57", "PUT", set, `{"quota_set": {"cores": 4, "instances": "3"}}`, 200, `{"quota_set":{"cores":4,"instances":3,`},
		{"2.57", "PUT", set, `{"quota_set": {"cores": 1}}`, 400, "Quota limit 1 for cores must be greater than or equal to"},
		{"2.57", "PUT", set, `{"quota_set": {"cores": 1, "force": true}}`, 200, `"cores":1,`},
		{"2.57", "PUT", set, `{"quota_set": {"cores": -2}}`, 400, "cores"},
		{"2.57", "PUT", set, `{"quota_set": {"cores": "x"}}`, 400, "cores"},
		{"2.57", "PUT", set, `{"quota_set": {"volumes": 1}}`, 400, "volumes"},
		{"2.57", "PUT", set, `{"quota_set": {}, "more": 1}`, 400, "more"},
		{"2.57", "PUT", set, `{"quota_set": {"injected_files": 1}}`, 400, "injected_files"},
		{"2.56", "PUT", set, `{"quota_set": {"injected_files": 1}}`, 200, `"injected_files":1`},
		{"2.36", "PUT", set, `{"quota_set": {"floating_ips": 1}}`, 400, "floating_ips"},
		{"2.35", "PUT", set, `{"quota_set": {"floating_ips": 1}}`, 200, `"floating_ips":1`},
		{"2.57", "GET", set, "", 200, `"cores":1,"id":"p1","instances":3,`},
		{"2.57", "GET", set + "?user_id=ann", "", 200, `"instances":3,`},
		{"2.57", "PUT", set + "?user_id=ann", `{"quota_set": {"instances": 4}}`, 400, "less than or equal to 3."},
		{"2.57", "PUT", set + "?user_id=ann", `{"quota_set": {"instances": 2}}`, 200, `"instances":2,`},
		{"2.57", "GET", set + "/detail?user_id=ann", "", 200, `"instances":{"in_use":1,"limit":2,"reserved":0}`},
		{"2.57", "GET", set, "", 200, `"instances":3,`},
		{"2.57", "DELETE", set + "?user_id=ann", "", 202, ""},
		{"2.57", "GET", set + "?user_id=ann", "", 200, `"instances":3,`},
		{"2.57", "PUT", set, `{"quota_set": {"class:CUSTOM_FPGA": 2, "class:VGPU": 0}}`, 200,
			`{"class:CUSTOM_FPGA":2,"class:VGPU":0,"cores":1,`},
		{"2.57", "PUT", set, `{"quota_set": {"class:GPU": 2}}`, 400, "class:GPU"},
		{"2.57", "DELETE", set, "", 202, ""},
		{"2.57", "GET", set, "", 200, `{"cores":-1,`},
		{"2.50", "PUT", "/os-quota-class-sets/default", `{"quota_class_set": {"cores": 7, "server_groups": 3}}`, 200,
			`{"quota_class_set":{"cores":7,`},
		{"2.50", "PUT", "/os-quota-class-sets/x", `{"quota_class_set": {"cores": 9}}`, 200, `"cores":9`},
		{"2.50", "PUT", "/os-quota-class-sets/x", `{"quota_class_set": {"floating_ips": 9}}`, 400, "floating_ips"},
		{"2.49", "PUT", "/os-quota-class-sets/x", `{"quota_class_set": {"floating_ips": 9}}`, 200, `"floating_ips":9`},
		{"2.57", "GET", set + "/defaults", "", 200, `{"cores":7,"id":"p1",`},
		{"2.57", "GET", set, "", 200, `{"cores":7,`},
		{"2.57", "GET", "/limits?tenant_id=p1", "", 200, `"maxTotalCores":7`},
		{"2.57", "PUT", set + "?user_id=" + strings.Repeat("u", 256), `{"quota_set": {}}`, 400, "256 characters"},
		{"2.57", "PUT", "/os-quota-sets/" + strings.Repeat("p", 256), `{"quota_set": {}}`, 400, "256 characters"},
		{"2.57", "PUT", "/os-quota-class-sets/" + strings.Repeat("%C3%A4", 200), `{"quota_class_set": {}}`, 200, ""},
		{"2.57", "PUT", "/os-quota-class-sets/" + strings.Repeat("%C3%A4", 256), `{"quota_class_set": {}}`, 400,
			"256 characters"},
	})
}

// TestQuotasRefuse refuses servers, resizes, metadata and key pairs that exceed limits.
func TestQuotasRefuse(t *testing.T) {
	h, id := withHost(t) // a server of p1 with 2 cores
	create := func(more string) string {
		return fmt.Sprintf(`{"server": {"name": "n", "flavorRef": "web", "networks": "none"%s}}`, more)
	}
	h.exchanges("admin", []exchange{
		{"2.57", "PUT", "/os-quota-sets/p1", `{"quota_set": {"instances": 4, "metadata_items": 1, "key_pairs": 0}}`, 200, ""},
		{"2.57", "PUT", "/os-quota-sets/p2", `{"quota_set": {"ram": 512}}`, 200, ""},
	})
	h.exchanges("ann:p1", []exchange{
		{"2.57", "POST", "/servers", create(`, "max_count": 4, "min_count": 4`), 403,
			"Quota exceeded for instances: Requested 4, but already used 1 of 4 instances"},
		{"2.57", "POST", "/servers", create(`, "metadata": {"a": "1", "b": "2"}`), 403, "metadata items exceeds 1"},
		{"2.57", "POST", "/servers/" + id + "/metadata", `{"metadata": {"a": "1", "b": "2"}}`, 403, "exceeds 1"},
		{"2.57", "GET", "/limits", "", 200, `"totalInstancesUsed":1`},
		{"2.57", "POST", "/servers", create(`, "max_count": 9`), 202, ""}, // 3 of 9
		{"2.57", "GET", "/limits", "", 200, `"totalInstancesUsed":4`},
		{"2.57", "POST", "/servers", create(""), 403, "already used 4 of 4 instances"},
		{"2.57", "POST", "/os-keypairs", `{"keypair": {"name": "k"}}`, 403, "Quota exceeded, too many key pairs."},
	})
	h.exchanges("bob:p2", []exchange{
		{"2.57", "POST", "/servers", create(""), 202, ""},
		{"2.57", "POST", "/servers", create(""), 403,
			"Quota exceeded for ram: Requested 512, but already used 512 of 512 ram"},
	})
	r := h.at("2.57", "GET", "/v2.1/os-quota-sets/p1", "")
	if r.status != 200 || strings.Contains(r.text, "class:") {
		t.Errorf("classes without limits are shown: %s", r.text)
	}
}
