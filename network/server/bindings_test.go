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
	if b.VIFDetails["bridge_name"] != "br-ex" || b.VIFDetails["vlan"] != "0" {
		t.Errorf("the port of a flat network: %v", b.VIFDetails)
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

// TestBridgeAndVLANOfAPort binds a port in a VLAN network to an agent of each type, and one in a network without a
// physical network: vif_details name the bridge and the VLAN.
func TestBridgeAndVLANOfAPort(t *testing.T) {
	f := start(t)
	ctx, client, agents := t.Context(), f.client("admin"), operations.Agents{Service: f.ops}
	for kind, device := range map[string]string{"Open vSwitch agent": "br-ex", "NIC Switch agent": "ens1f0"} {
		must(t, agents.ReportAgent(ctx, "cmp1", kind, api.AgentReport{Devices: []api.AgentDevice{{Name: device,
			PhysicalNetworks: []string{"physnet0"}}}}))
	}
	vlan := f.create("admin", "/v2.0/networks", "network", `{"provider:network_type": "vlan",
		"provider:physical_network": "physnet0", "provider:segmentation_id": 100}`)["id"]
	local := f.create("admin", "/v2.0/networks", "network", `{"provider:network_type": "local"}`)["id"]
	for _, c := range []struct {
		network      any
		vnic         string
		bridge, vlan any
	}{{vlan, "normal", "br-ex", "100"}, {vlan, "macvtap", nil, "100"}, {local, "normal", nil, nil}} {
		port, err := client.CreatePort(ctx, map[string]any{"network_id": c.network, "binding:host_id": "cmp1",
			"binding:vnic_type": c.vnic})
		if d := port.VIFDetails; err != nil || d["bridge_name"] != c.bridge || d["vlan"] != c.vlan ||
			d["connectivity"] != "l2" {
			t.Errorf("%+v: %v %v", c, d, err)
		}
	}
}
