package server

import (
	"context"
	"slices"
	"testing"

	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/fault"
)

// The ids of a group and a rule that groupNetworks creates.
const (
	newGroup = "77777777-7777-4777-8777-777777777777"
	newRule  = "88888888-8888-4888-8888-888888888888"
)

// CreateSecurityGroup creates the group newGroup, once.
func (n *groupNetworks) CreateSecurityGroup(_ context.Context, a map[string]any) (g network.SecurityGroup, _ error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.ContainsFunc(n.groups, func(g network.SecurityGroup) bool { return g.ID == newGroup }) {
		return g, fault.New(fault.Conflict, "Quota exceeded")
	}
	g = network.SecurityGroup{ID: newGroup}
	g.Name, _ = a["name"].(string)
	g.Description, _ = a["description"].(string)
	g.Project, _ = a["tenant_id"].(string)
	n.groups = append(n.groups, g)
	return g, nil
}

// changeGroup changes a group.
func (n *groupNetworks) changeGroup(id string, change func(*network.SecurityGroup)) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.groups {
		if n.groups[i].ID == id {
			change(&n.groups[i])
			return nil
		}
	}
	return fault.New(fault.NotFound, "no group %s", id)
}

// UpdateSecurityGroup changes the name and the description of a group.
func (n *groupNetworks) UpdateSecurityGroup(_ context.Context, id string, a map[string]any) (
	changed network.SecurityGroup, err error) {
	err = n.changeGroup(id, func(g *network.SecurityGroup) {
		g.Name, _ = a["name"].(string)
		g.Description, _ = a["description"].(string)
		changed = *g
	})
	return changed, err
}

// DeleteSecurityGroup removes a group; one without rules is in use.
func (n *groupNetworks) DeleteSecurityGroup(_ context.Context, id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, g := range n.groups {
		if g.ID == id && g.Name == "used" {
			return fault.New(fault.Conflict, "Security Group %s in use.", id)
		} else if g.ID == id {
			n.groups = slices.Delete(n.groups, i, i+1)
			return nil
		}
	}
	return fault.New(fault.NotFound, "no group %s", id)
}

// CreateSecurityGroupRule adds the rule newRule to a group.
func (n *groupNetworks) CreateSecurityGroupRule(_ context.Context, a map[string]any) (
	r network.SecurityGroupRule, err error) {
	r = network.SecurityGroupRule{ID: newRule}
	r.Group, _ = a["security_group_id"].(string)
	r.Direction, _ = a["direction"].(string)
	r.Protocol, _ = a["protocol"].(string)
	r.RemoteCIDR, _ = a["remote_ip_prefix"].(string)
	r.RemoteGroup, _ = a["remote_group_id"].(string)
	if port, given := a["port_range_min"].(int); given {
		r.MinPort = &port
	}
	if port, given := a["port_range_max"].(int); given {
		r.MaxPort = &port
	}
	twice := false
	err = n.changeGroup(r.Group, func(g *network.SecurityGroup) {
		if twice = len(g.Rules) > 0; !twice {
			g.Rules = []network.SecurityGroupRule{r}
		}
	})
	if twice {
		return r, fault.New(fault.Conflict, "the rule exists").Of("POST /v2.0/security-group-rules")
	}
	return r, err
}

// DeleteSecurityGroupRule removes newRule.
func (n *groupNetworks) DeleteSecurityGroupRule(_ context.Context, id string) error {
	if id != newRule {
		return fault.New(fault.NotFound, "no rule %s", id)
	}
	return n.changeGroup(newGroup, func(g *network.SecurityGroup) { g.Rules = nil })
}

// TestGroupProxies creates, changes and deletes security groups and their rules by the paths until 2.35.
func TestGroupProxies(t *testing.T) {
	n := &groupNetworks{groups: []network.SecurityGroup{{ID: "66666666-6666-4666-8666-666666666666", Name: "secret",
		Project: "p2"}}}
	h := startWith(t, func(o *Options) { o.Networks = n })
	groups, rules := "/os-security-groups", "/os-security-group-rules"
	rule := func(keys string) string {
		return `{"security_group_rule": {"parent_group_id": "` + newGroup + `"` + keys + `}}`
	}
	other := n.groups[0].ID
	h.exchanges("ann:p1", []exchange{
		{"2.1", "GET", groups, "", 200, `{"security_groups":[]}`},
		{"2.36", "GET", groups, "", 404, "there is nothing"},
		{"2.36", "POST", rules, `{}`, 404, "there is nothing"},
		{"2.1", "POST", groups, `{"security_group": {"description": "x"}}`, 400, "name"},
		{"2.1", "POST", groups, `{"security_group": {"name": " "}}`, 400, "cannot be empty"},
		{"2.1", "POST", groups, `{"security_group": {"name": "web", "colour": 1}}`, 400, "colour"},
		{"2.1", "POST", groups, `{"security_group": {"name": "web", "description": "x"}}`, 200, `{"security_group":{"id":"` +
			newGroup + `","name":"web","description":"x","tenant_id":"p1","rules":[]}}`},
		{"2.1", "POST", groups, `{"security_group": {"name": "two"}}`, 403, "Quota exceeded"},
		{"2.35", "GET", groups + "/" + newGroup, "", 200, `"name":"web"`},
		{"2.1", "GET", groups + "/" + other, "", 404, "not found"},
		{"2.1", "GET", groups + "/x", "", 400, "should be a UUID"},
		{"2.1", "PUT", groups + "/" + newGroup, `{"security_group": {"name": "used", "description": ""}}`, 200,
			`"name":"used"`},
		{"2.1", "PUT", groups + "/" + other, `{"security_group": {"name": "b"}}`, 404, "not found"},
		{"2.1", "POST", rules, rule(`, "ip_protocol": "tcp", "from_port": 22, "to_port": 22, "colour": 1`), 400, "colour"},
		{"2.1", "POST", rules, rule(`, "ip_protocol": "sctp", "from_port": 22, "to_port": 22`), 400, "sctp"},
		{"2.1", "POST", rules, rule(`, "ip_protocol": "tcp", "from_port": 23, "to_port": 22`), 400, "port range"},
		{"2.1", "POST", rules, rule(`, "ip_protocol": "tcp", "from_port": -1, "to_port": 22`), 400, "port range"},
		{"2.1", "POST", rules, rule(`, "ip_protocol": "tcp", "from_port": 1, "to_port": 65536`), 400, "65535"},
		{"2.1", "POST", rules, rule(`, "ip_protocol": "icmp", "from_port": 1, "to_port": 256`), 400, "ICMP"},
		{"2.1", "POST", rules, rule(`, "ip_protocol": "tcp"`), 400, "from_port"},
		{"2.1", "POST", rules, rule(""), 400, "ip_protocol"},
		{"2.1", "POST", rules, rule(`, "ip_protocol": "tcp", "from_port": 1, "to_port": 2, "cidr": "x"`), 400, "cidr x"},
		{"2.1", "POST", rules, `{"security_group_rule": {"parent_group_id": "` + other +
			`", "ip_protocol": "tcp", "from_port": "1", "to_port": 2}}`, 404, "not found"},
		{"2.1", "POST", rules, rule(`, "ip_protocol": "tcp", "from_port": 22, "to_port": "80"`), 200,
			`{"security_group_rule":{"id":"` + newRule + `","parent_group_id":"` + newGroup + `","ip_protocol":"tcp",` +
				`"from_port":22,"to_port":80,"group":{},"ip_range":{"cidr":"0.0.0.0/0"}}}`},
		{"2.1", "POST", rules, rule(`, "ip_protocol": "tcp", "from_port": 22, "to_port": 22`), 400,
			`"message":"the rule exists"`},
		{"2.1", "GET", groups, "", 200, `"rules":[{"id":"` + newRule},
		{"2.1", "DELETE", rules + "/" + other, "", 404, "not found"},
		{"2.1", "DELETE", rules + "/x", "", 400, "should be a UUID"},
		{"2.1", "DELETE", rules + "/" + newRule, "", 202, ""},
		{"2.1", "POST", rules, rule(`, "ip_protocol": "icmp", "from_port": -1, "to_port": -1, "group_id": "` + newGroup +
			`"`), 200, `"from_port":-1,"to_port":-1,"group":{"name":"used","tenant_id":"p1"},"ip_range":{}`},
		{"2.1", "DELETE", rules + "/" + newRule, "", 202, ""},
		{"2.1", "POST", rules, rule(`, "group_id": "` + other + `"`), 404, "not found"},
		{"2.1", "PUT", groups + "/" + newGroup, `{"security_group": {"name": "` + other + `"}}`, 200, other},
		{"2.1", "POST", rules, rule(`, "group_id": "` + other + `"`), 404, "not found"},
		{"2.1", "PUT", groups + "/" + newGroup, `{"security_group": {"name": "used"}}`, 200, `"name":"used"`},
		{"2.1", "POST", rules, rule(`, "group_id": "` + newGroup + `"`), 200, `"ip_protocol":null,"from_port":null`},
		{"2.1", "DELETE", groups + "/" + newGroup, "", 400, "in use"},
		{"2.1", "PUT", groups + "/" + newGroup, `{"security_group": {"name": "free"}}`, 200, `"name":"free"`},
		{"2.1", "DELETE", groups + "/" + other, "", 404, "not found"},
	})
	h.exchanges("admin", []exchange{
		{"2.1", "GET", groups, "", 200, `{"security_groups":[]}`},
		{"2.1", "GET", groups + "?all_tenants=1&limit=1", "", 200, `[{"id":"` + newGroup},
		{"2.1", "GET", groups + "?all_tenants=1&offset=1", "", 200, `[{"id":"` + other},
		{"2.1", "GET", groups + "?offset=-1", "", 400, "offset"},
	})
	h.exchanges("ann:p1", []exchange{{"2.1", "DELETE", groups + "/" + newGroup, "", 202, ""},
		{"2.1", "GET", groups + "?all_tenants=1", "", 200, `{"security_groups":[]}`}})
}

// TestNetworkProxies lists and shows networks by the paths until 2.35, also without a network service.
func TestNetworkProxies(t *testing.T) {
	n := &groupNetworks{sharedNetwork: "p1"}
	h := startWith(t, func(o *Options) { o.Networks = n })
	h.exchanges("ann:p1", []exchange{
		{"2.1", "GET", "/os-networks", "", 200, `"label":"net"`},
		{"2.1", "GET", "/os-networks/" + imageID, "", 200, `{"network":{"broadcast":null`},
		{"2.35", "GET", "/os-tenant-networks", "", 200, `{"networks":[{"cidr":"None","id":"` + imageID + `","label":"net"}`},
		{"2.1", "GET", "/os-tenant-networks/" + imageID, "", 200, `"label":"net"`},
		{"2.1", "GET", "/os-tenant-networks/x", "", 404, "Network x could not be found."},
		{"2.36", "GET", "/os-networks", "", 404, "there is nothing"},
	})
	h.exchanges("bob:p2", []exchange{{"2.1", "GET", "/os-networks", "", 200, `{"networks":[]}`}})
	h.exchanges("admin", []exchange{{"2.1", "GET", "/os-networks", "", 200, `"vpn_public_port":null`}})
	none := start(t)
	none.exchanges("ann:p1", []exchange{
		{"2.1", "GET", "/os-networks", "", 200, `{"networks":[]}`},
		{"2.1", "GET", "/os-security-groups", "", 200, `{"security_groups":[]}`},
		{"2.1", "POST", "/os-security-groups", `{"security_group": {"name": "a"}}`, 501, "no security groups"},
	})
}

// TestImageProxies lists, shows and deletes images by the paths until 2.35.
func TestImageProxies(t *testing.T) {
	images := &fakeImages{images: map[string]image.Image{
		plainID: {ID: plainID, Name: "plain", Status: "active", Size: 7, MinDisk: 2, Created: "2026-01-02T03:04:05Z",
			Updated: "2026-01-02T03:04:06Z", Properties: map[string]string{"a": "b", "auto_disk_config": "True"}},
		cellsID: {ID: cellsID, Name: "copy", Status: "queued", MinRAM: 64, Updated: "2026-02-02T03:04:06Z",
			Properties: map[string]string{"image_type": "snapshot", "instance_uuid": newGroup}}}}
	h := startWith(t, func(o *Options) { o.Images = images })
	one := "/images/" + plainID
	h.exchanges("ann:p1", []exchange{
		{"2.1", "GET", "/images", "", 200, `{"images":[{"id":"` + plainID + `","links":[{"rel":"self","href":"` + h.url +
			`/v2.1/images/` + plainID},
		{"2.36", "GET", "/images", "", 404, "there is nothing"},
		{"2.1", "GET", "/images?limit=1", "", 200, `"images_links":[{"rel":"next","href":"` + h.url +
			`/v2.1/images?limit=1\u0026marker=` + plainID},
		{"2.1", "GET", "/images/detail?marker=" + plainID, "", 200, `"progress":25,"server":{"id":"` + newGroup},
		{"2.1", "GET", "/images/detail?marker=x", "", 400, "marker [x] not found"},
		{"2.35", "GET", one, "", 200, `"status":"ACTIVE","updated":"2026-01-02T03:04:06Z"}`},
		{"2.35", "GET", one, "", 200, `{"image":{"OS-DCF:diskConfig":"AUTO","OS-EXT-IMG-SIZE:size":7,` +
			`"created":"2026-01-02T03:04:05Z"`},
		{"2.1", "GET", "/images/" + goneID, "", 404, "could not be found"},
		{"2.1", "GET", "/images/x", "", 404, "Image x could not be found."},
		{"2.1", "GET", one + "/metadata", "", 200, `{"metadata":{"a":"b","auto_disk_config":"True"}}`},
		{"2.1", "GET", one + "/metadata/a", "", 200, `{"meta":{"a":"b"}}`},
		{"2.1", "GET", one + "/metadata/z", "", 404, "no property z"},
		{"2.1", "PUT", one + "/metadata", `{}`, 501, "changed in the image service"},
		{"2.1", "GET", "/images?minDisk=x", "", 400, "whole number"},
		{"2.1", "GET", "/images?changes-since=x", "", 400, "not a valid time"},
	})
	for query, want := range map[string]string{"name=copy": cellsID, "status=saving": cellsID, "status=ACTIVE": plainID,
		"minDisk=1": plainID, "minRam=64": cellsID, "type=snapshot": cellsID,
		"server=" + h.url + "/servers/" + newGroup: cellsID,
		"changes-since=2026-02-01T00:00:00Z":       cellsID} {
		r := h.ask("GET", "/v2.1/images?"+query, "")
		if list, _ := r.dig("images").([]any); len(list) != 1 || r.dig("images/0/id") != want {
			t.Errorf("%s: %d %s", query, r.status, r.text)
		}
	}
	h.exchanges("ann:p1", []exchange{{"2.1", "DELETE", one, "", 204, ""},
		{"2.1", "GET", one, "", 404, "could not be found"},
		{"2.1", "DELETE", one, "", 404, "could not be found"}})
	none := start(t)
	none.exchanges("ann:p1", []exchange{{"2.1", "GET", "/images/detail", "", 200, `{"images":[]}`},
		{"2.1", "GET", one, "", 404, "could not be found"}})
}

// TestV2 asks by the paths of the version without microversions.
func TestV2(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	for _, path := range []string{"/v2", "/v2/"} {
		if r := h.ask("GET", path, ""); r.status != 200 || r.dig("version/id") != "v2.0" || r.dig("version/version") != "" {
			t.Errorf("%s: %d %s", path, r.status, r.text)
		}
	}
	if r := h.ask("GET", "/", ""); r.dig("versions/0/id") != "v2.0" || r.dig("versions/1/id") != "v2.1" {
		t.Error(r.text)
	}
	r := h.ask("POST", "/v2/p1/servers", `{"server": {"name": "a", "flavorRef": "small", "colour": 1}, "shape": 2}`,
		"OpenStack-API-Version", "compute 2.52")
	id, _ := r.dig("server/id").(string)
	if r.status != 202 || r.dig("server/links/0/href") != h.url+"/v2/p1/servers/"+id ||
		r.header.Get("OpenStack-API-Version") != "" {
		t.Errorf("%d %s %v", r.status, r.text, r.header)
	}
	r = h.ask("GET", "/v2/servers/"+id, "", "OpenStack-API-Version", "compute 2.52")
	if server, _ := r.dig("server").(map[string]any); r.status != 200 || server["tags"] != nil {
		t.Errorf("%d %s", r.status, r.text)
	}
	if r := h.ask("GET", "/v2/servers?limit=1", ""); r.dig("servers_links/0/href") != h.url+
		"/v2/servers?limit=1&marker="+id {
		t.Error(r.text)
	}
	if r := h.ask("PUT", "/v2/os-services/enable", `{"host": "h", "binary": "nova-compute", "colour": 1}`,
		"X-Auth-Token", "admin"); r.status != 404 {
		t.Errorf("%d %s", r.status, r.text)
	}
	if r := h.ask("GET", "/v2/images", ""); r.status != 404 { // of the Image API
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := h.ask("GET", "/v2/colours", ""); r.status != 404 {
		t.Errorf("%d %s", r.status, r.text)
	}
}

// TestBootDisk creates servers with a list of disks.
func TestBootDisk(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	disk := func(more string) string {
		return `{"server": {"name": "a", "flavorRef": "small", "block_device_mapping_v2": [` + more + `]}}`
	}
	local := `{"boot_index": 0, "uuid": "` + imageID + `", "source_type": "image", "destination_type": "local"`
	h.exchanges("ann:p1", []exchange{
		{"2.1", "POST", "/servers", disk(local + `, "delete_on_termination": true, "volume_size": null}`), 202, `"id"`},
		{"2.1", "GET", "/servers/detail", "", 200, `"image":{"id":"` + imageID},
		{"2.1", "POST", "/servers", disk(local + `}, {"boot_index": -1}`), 400, "Berth has no volumes"},
		{"2.1", "POST", "/servers", disk(local + `, "device_type": "cdrom"}`), 400, "Berth has no volumes"},
		{"2.1", "POST", "/servers", disk(`{"boot_index": 0, "uuid": "x", "source_type": "image",` +
			` "destination_type": "local"}`), 400, "not the UUID"},
		{"2.1", "POST", "/servers", disk(`{"boot_index": 0, "uuid": "` + imageID + `", "source_type": "volume",` +
			` "destination_type": "volume"}`), 400, "Berth has no volumes"},
		{"2.1", "POST", "/servers", `{"server": {"name": "a", "flavorRef": "small", "imageRef": "` + newGroup +
			`", "block_device_mapping_v2": [` + local + `}]}}`, 400, "not that of imageRef"},
	})
}
