package server

import (
	"testing"

	api "github.com/openberth/berth/api/network"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/operations"
)

// TestBindingsOfAPort uses the client of compute: list, add, activate, delete; and the paths that only others use.
func TestBindingsOfAPort(t *testing.T) {
	f := start(t)
	ctx, client := t.Context(), f.client("admin")
	for _, host := range []string{"cmp1", "cmp2"} {
		must(t, operations.Agents{Service: f.ops}.ReportAgent(ctx, host, "Open vSwitch agent", api.AgentReport{
			Devices: []api.AgentDevice{{Name: "br-ex", PhysicalNetworks: []string{"physnet0"}}}}))
	}
	n := f.create("admin", "/v2.0/networks", "network", `{"provider:network_type": "flat",
		"provider:physical_network": "physnet0"}`)["id"].(string)
	port, err := client.CreatePort(ctx, map[string]any{"network_id": n, "device_owner": "compute:nova", "device_id": "s",
		"binding:host_id": "cmp1"})
	must(t, err)
	b, err := client.BindPort(ctx, port.ID, "cmp2", "normal", map[string]any{"migrating_to": "cmp2"})
	if err != nil || b.Host != "cmp2" || b.Status != "INACTIVE" || b.VIF != "ovs" || b.Profile["migrating_to"] != "cmp2" {
		t.Fatalf("%+v %v", b, err)
	}
	path := "/v2.0/ports/" + port.ID + "/bindings"
	if status, answer := f.do("admin", "GET", path+"?status=INACTIVE&fields=host", ""); status != 200 ||
		len(answer["bindings"].([]any)) != 1 {
		t.Errorf("%d %v", status, answer)
	}
	if status, answer := f.do("admin", "PUT", path+"/cmp2", `{"binding": {"profile": {}}}`); status != 200 ||
		len(answer["binding"].(map[string]any)["profile"].(map[string]any)) > 0 {
		t.Errorf("%d %v", status, answer)
	}
	must(t, client.ActivatePortBinding(ctx, port.ID, "cmp2"))
	if err := client.ActivatePortBinding(ctx, port.ID, "cmp2"); fault.CodeOf(err) != "PortBindingAlreadyActive" {
		t.Errorf("%v", err)
	}
	all, err := client.PortBindings(ctx, port.ID)
	if err != nil || len(all) != 2 || all[0].Host != "cmp2" || all[0].Status != "ACTIVE" || all[1].Status != "INACTIVE" {
		t.Errorf("%+v %v", all, err)
	}
	must(t, client.DeletePortBinding(ctx, port.ID, "cmp1"))
	must(t, client.DeletePortBinding(ctx, port.ID, "cmp1"))
	f.fails(404, "PortBindingNotFound", "admin", "GET", path+"/cmp1", "")
	f.fails(409, "PortBindingAlreadyExists", "admin", "POST", path, `{"binding": {"host": "cmp2"}}`)
	f.fails(409, "PortBindingError", "admin", "POST", path, `{"binding": {"host": "cmp3"}}`)
	f.fails(400, "HTTPBadRequest", "admin", "POST", path, `{"binding": {}}`)
	f.fails(404, "PortNotFound", "demo", "GET", path, "")
}
