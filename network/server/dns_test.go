package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestDNSNamesOfPorts: names of ports and domains of networks are set, shown, changed, filtered, and refused if they
// are not valid.
func TestDNSNamesOfPorts(t *testing.T) {
	f := start(t)
	f.ops.DNSDomain = "cloud.test"
	n := f.create("demo", "/v2.0/networks", "network", `{"dns_domain": "N.Test."}`)
	if n["dns_domain"] != "n.test." {
		t.Errorf("%v", n["dns_domain"])
	}
	plain := f.create("demo", "/v2.0/networks", "network", `{}`)["id"].(string)
	for id, cidr := range map[string]string{n["id"].(string): "10.0.0.0/24", plain: "10.1.0.0/24"} {
		f.create("demo", "/v2.0/subnets", "subnet", `{"network_id": "`+id+`", "ip_version": 4, "cidr": "`+cidr+`"}`)
	}
	port := f.create("demo", "/v2.0/ports", "port", `{"name": "a", "dns_name": "Web", "network_id": "`+
		n["id"].(string)+`"}`)
	if got := fmt.Sprint(port["dns_name"], port["dns_assignment"]); got !=
		"web[map[fqdn:web.n.test. hostname:web ip_address:10.0.0.2]]" {
		t.Error(got)
	}
	other := f.create("demo", "/v2.0/ports", "port", `{"name": "b", "network_id": "`+plain+`"}`)
	if got := fmt.Sprint(other["dns_name"], other["dns_assignment"]); got !=
		"[map[fqdn:host-10-1-0-2.cloud.test. hostname:host-10-1-0-2 ip_address:10.1.0.2]]" {
		t.Error(got)
	}
	if got := f.names("demo", "/v2.0/ports?dns_name=web", "ports"); !slices.Equal(got, []string{"a"}) {
		t.Errorf("%v", got)
	}
	own := "/v2.0/ports/" + port["id"].(string)
	f.put(own, `{"port": {"dns_name": "db.n.test."}}`)
	_, answer := f.do("demo", "GET", own, "")
	if got := fmt.Sprint(answer); !strings.Contains(got, "fqdn:db.n.test. hostname:db ") {
		t.Error(got)
	}
	f.put(own, `{"port": {"dns_name": ""}}`)
	for path, body := range map[string]string{"/v2.0/networks": `{"network": {"dns_domain": "a b"}}`,
		"/v2.0/ports": `{"port": {"network_id": "` + plain + `", "dns_name": "web_1"}}`} {
		f.fails(400, "InvalidInput", "demo", "POST", path, body)
	}
	f.fails(400, "InvalidInput", "demo", "PUT", own, `{"port": {"dns_name": "db.other."}}`)
	f.fails(400, "InvalidInput", "demo", "PUT", "/v2.0/networks/"+plain, `{"network": {"dns_domain": "-a"}}`)
}
