package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/network/server/request"
)

// TestBulkCreate creates lists of networks, subnets and ports: all of a list, or none.
func TestBulkCreate(t *testing.T) {
	f := start(t)
	create := func(token, kind, list string) (int, []any) {
		t.Helper()
		status, answer := f.do(token, "POST", "/v2.0/"+kind, `{"`+kind+`": `+list+`}`)
		made, _ := answer[kind].([]any)
		return status, made
	}
	status, networks := create("demo", "networks", `[{"name": "a"}, {"name": "b"}]`)
	if status != http.StatusCreated || len(networks) != 2 || networks[1].(map[string]any)["name"] != "b" {
		t.Fatalf("%d %v", status, networks)
	}
	n := networks[0].(map[string]any)["id"].(string)
	if status, made := create("demo", "subnets",
		`[{"network_id": "`+n+`", "cidr": "10.0.0.0/29", "ip_version": 4}]`); status !=
		http.StatusCreated || len(made) != 1 {
		t.Fatalf("%d %v", status, made)
	}
	port := `{"network_id": "` + n + `", "name": "p"}`
	status, ports := create("demo", "ports", "["+port+", "+port+"]")
	if status != http.StatusCreated || len(ports) != 2 ||
		fmt.Sprint(ports[0].(map[string]any)["fixed_ips"]) == fmt.Sprint(ports[1].(map[string]any)["fixed_ips"]) {
		t.Fatalf("%d %v", status, ports)
	}
	if _, shown := ports[0].(map[string]any)["binding:host_id"]; shown {
		t.Errorf("a user sees the binding: %v", ports[0])
	}
	// 10.0.0.0/29 has 5 addresses for ports, of which 3 are left.
	f.fails(409, "IpAddressGenerationFailure", "demo", "POST", "/v2.0/ports",
		`{"ports": [`+strings.Repeat(port+", ", 3)+port+`]}`)
	f.fails(403, "PolicyNotAuthorized", "demo", "POST", "/v2.0/networks",
		`{"networks": [{"name": "c"}, {"shared": true}]}`)
	f.fails(400, "HTTPBadRequest", "demo", "POST", "/v2.0/ports", `{"ports": []}`)
	f.fails(400, "HTTPBadRequest", "demo", "POST", "/v2.0/ports", `{"ports": [null]}`)
	f.fails(400, "HTTPBadRequest", "demo", "POST", "/v2.0/ports", `{"ports": {}}`)
	f.fails(400, "HTTPBadRequest", "demo", "POST", "/v2.0/networks",
		`{"networks": [`+strings.Repeat("{}, ", request.MaxBulk)+`{}]}`)
	if got := f.names("demo", "/v2.0/ports", "ports"); len(got) != 2 {
		t.Errorf("ports %v", got)
	}
	if got := f.names("demo", "/v2.0/networks?sort_key=name", "networks"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("networks %v", got)
	}
}
