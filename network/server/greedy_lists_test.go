package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestListsOfObjectsAreLimited has a user who sends objects with long lists: each is refused at once, because the
// records are read for each port while no other client can write.
func TestListsOfObjectsAreLimited(t *testing.T) {
	f := start(t)
	network := f.create("demo", "/v2.0/networks", "network", `{}`)["id"].(string)
	many := func(n int, each string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(each+",", n), ",") + "]"
	}
	subnet := func(attributes string) string {
		return fmt.Sprintf(`{"subnet": {"network_id": %q, "ip_version": 4, "cidr": "10.0.0.0/16", %s}}`, network,
			attributes)
	}
	for _, attributes := range []string{`"dns_nameservers": ` + many(6, `"10.0.0.9"`),
		`"host_routes": ` + many(21, `{"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}`),
		`"allocation_pools": ` + many(257, `{"start": "10.0.0.9", "end": "10.0.0.9"}`)} {
		f.fails(http.StatusBadRequest, "HTTPBadRequest", "demo", "POST", "/v2.0/subnets", subnet(attributes))
	}
	sub := f.create("demo", "/v2.0/subnets", "subnet", fmt.Sprintf(`{"network_id": %q, "ip_version": 4,
		"cidr": "10.0.0.0/16"}`, network))["id"].(string)
	f.fails(http.StatusBadRequest, "HTTPBadRequest", "demo", "POST", "/v2.0/ports",
		fmt.Sprintf(`{"port": {"network_id": %q, "fixed_ips": %s}}`, network, many(51, `{"subnet_id": "`+sub+`"}`)))
	port := f.create("demo", "/v2.0/ports", "port", fmt.Sprintf(`{"network_id": %q, "fixed_ips": %s}`, network,
		many(50, `{"subnet_id": "`+sub+`"}`)))["id"].(string)
	var tags []string
	for n := range 128 {
		tags = append(tags, fmt.Sprintf(`"%d"`, n))
	}
	f.put("/v2.0/ports/"+port+"/tags", `{"tags": [`+strings.Join(tags, ",")+`]}`)
	for path, body := range map[string]string{"": `{"tags": [` + strings.Join(tags, ",") + `, "more"]}`,
		"/more": "", "/" + strings.Repeat("x", 256): ""} {
		if status, _ := f.do("demo", "PUT", "/v2.0/ports/"+port+"/tags"+path, body); status != http.StatusBadRequest {
			t.Errorf("PUT tags%.20s: %d", path, status)
		}
	}
}
