package server

import (
	"strings"
	"testing"
)

// TestPacketDecision asks what the groups of a port decide about packets.
func TestPacketDecision(t *testing.T) {
	f := start(t)
	n := f.create("demo", "/v2.0/networks", "network", `{}`)["id"].(string)
	f.create("demo", "/v2.0/subnets", "subnet", `{"network_id": "`+n+`", "cidr": "10.0.0.0/24", "ip_version": 4}`)
	web := f.group("demo", "web")
	r := f.create("demo", "/v2.0/security-group-rules", "security_group_rule", `{"security_group_id": "`+web+`",
		"direction": "ingress", "protocol": "tcp", "port_range_min": 22, "port_range_max": 22,
		"remote_ip_prefix": "192.0.2.0/24"}`)
	peer := f.create("demo", "/v2.0/ports", "port", `{"network_id": "`+n+`"}`)["id"].(string)
	port := f.create("demo", "/v2.0/ports", "port", `{"network_id": "`+n+`",
		"security_groups": ["`+web+`"]}`)["id"].(string)
	for _, c := range []struct {
		port, query, token string
		status             int
		want               string // in the answer
	}{
		{port, "from=192.0.2.1&protocol=tcp&port=22", "demo", 200, `"rule_id":"` + r["id"].(string)},
		{port, "from=192.0.2.1&protocol=6&port=22", "demo", 200, `"group_name":"web"`},
		{port, "from=192.0.2.1&protocol=tcp&port=23", "demo", 200, "no rule of its security groups permits it"},
		{port, "to=192.0.2.1&protocol=icmp", "demo", 200, `"allowed":true`},
		{port, "to=192.0.2.1&protocol=tcp&port=1&address=10.0.0.99", "demo", 200, "may not use the address"},
		{peer, "from=10.0.0.2&protocol=udp&port=53", "demo", 200, `"group_name":"default"`},
		{port, "from=2001:db8::1&protocol=tcp", "demo", 409, "has no address of the family"},
		{port, "from=x&protocol=tcp", "demo", 400, "not an address"},
		{port, "from=10.0.0.1&to=10.0.0.2&protocol=tcp", "demo", 400, "either from=ADDRESS or to=ADDRESS"},
		{port, "protocol=tcp", "demo", 400, "either from=ADDRESS or to=ADDRESS"},
		{port, "from=10.0.0.1&protocol=tcpp", "demo", 400, "protocol=tcp"},
		{port, "from=10.0.0.1&protocol=tcp&port=99999", "demo", 400, "0 to 65535"},
		{port, "from=10.0.0.1&protocol=tcp&port=22", "other", 404, "could not be found"},
	} {
		status, answer := f.text(c.token, "/berth/v1/ports/"+c.port+"/packet-decision?"+c.query)
		if status != c.status || !strings.Contains(answer, c.want) {
			t.Errorf("%s: %d %s", c.query, status, answer)
		}
	}
}
