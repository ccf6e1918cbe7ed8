package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/api/rest"
)

// document is an object as an API shows it.
type document map[string]any

// kind is a kind of objects of the Networking or the Compute API that can be created, listed, shown, changed and
// deleted in the same way.
type kind struct {
	noun     string // such as "security group"
	command  string // that lists them, such as "berth security-group list"
	service  func(*Globals) *rest.Client
	path     string // of the collection
	one, all string // the keys of one object and of a list
	id       string // the attribute that paths have
	paging   paging
	wrapped  bool // each element of a list is below the key of one object
	columns  []column[document]
	names    map[string]string // attributes that are ids, with the kinds of their objects
}

// paging is how the lists of a kind are read in parts.
type paging string

// The ways of paging; empty: a list has one part.
const (
	byMarker paging = "marker"
	byOffset paging = "offset"
)

func imageService(g *Globals) *rest.Client   { return g.images().REST }
func networkService(g *Globals) *rest.Client { return g.networks().REST }
func computeService(g *Globals) *rest.Client { return g.compute().REST }

// kinds are all kinds, by their nouns.
var kinds = map[string]*kind{
	"network": {noun: "network", command: "berth network list", service: networkService, path: "/v2.0/networks",
		one: "network", all: "networks", id: "id", paging: byMarker, names: map[string]string{"qos_policy_id": "QoS policy"}},
	"subnet": {noun: "subnet", command: "berth subnet list", service: networkService, path: "/v2.0/subnets",
		one: "subnet", all: "subnets", id: "id", paging: byMarker, names: map[string]string{"network_id": "network"},
		columns: []column[document]{attribute("ID", "id"), attribute("Name", "name"), attribute("Network", "network_id"),
			attribute("Subnet", "cidr"), attribute("Gateway", "gateway_ip"), attribute("DHCP", "enable_dhcp"),
			long(attribute("Allocation pools", "allocation_pools")), long(attribute("DNS", "dns_nameservers")),
			long(attribute("Project", "project_id"))}},
	"port": {noun: "port", command: "berth port list", service: networkService, path: "/v2.0/ports",
		one: "port", all: "ports", id: "id", paging: byMarker,
		names: map[string]string{"network_id": "network", "qos_policy_id": "QoS policy",
			"security_groups": "security group"}},
	"QoS policy": {noun: "QoS policy", command: "berth qos policy list", service: networkService,
		path: "/v2.0/qos/policies", one: "policy", all: "policies", id: "id", paging: byMarker},
	"security group": {noun: "security group", command: "berth security-group list", service: networkService,
		path: "/v2.0/security-groups", one: "security_group", all: "security_groups", id: "id", paging: byMarker,
		columns: []column[document]{attribute("ID", "id"), attribute("Name", "name"),
			{name: "Rules", text: func(d document) string { return strconv.Itoa(len(listOf(d["security_group_rules"]))) }},
			attribute("Description", "description"), long(attribute("Stateful", "stateful")),
			long(attribute("Project", "project_id"))}},
	"security group rule": {noun: "security group rule", command: "berth security-group rule list GROUP",
		service: networkService, path: "/v2.0/security-group-rules", one: "security_group_rule",
		all: "security_group_rules", id: "id", paging: byMarker,
		names: map[string]string{"security_group_id": "security group", "remote_group_id": "security group"},
		columns: []column[document]{attribute("ID", "id"), attribute("Group", "security_group_id"),
			attribute("Direction", "direction"), attribute("Ethertype", "ethertype"), attribute("Protocol", "protocol"),
			{name: "Ports", text: portsOfRule}, attribute("Remote prefix", "remote_ip_prefix"),
			attribute("Remote group", "remote_group_id"), long(attribute("Description", "description"))}},
	"key pair": {noun: "key pair", command: "berth keypair list", service: computeService, path: "/v2.1/os-keypairs",
		one: "keypair", all: "keypairs", id: "name", paging: byMarker, wrapped: true,
		columns: []column[document]{attribute("Name", "name"), attribute("Type", "type"),
			attribute("Fingerprint", "fingerprint"), long(attribute("Public key", "public_key"))}},
	"aggregate": {noun: "aggregate", command: "berth aggregate list", service: computeService,
		path: "/v2.1/os-aggregates", one: "aggregate", all: "aggregates", id: "id",
		columns: []column[document]{attribute("ID", "id"), attribute("Name", "name"),
			attribute("Zone", "availability_zone"), attribute("Hosts", "hosts"), attribute("Properties", "metadata"),
			long(attribute("UUID", "uuid")), long(attribute("Created", "created_at"))}},
	"server group": {noun: "server group", command: "berth server group list", service: computeService,
		path: "/v2.1/os-server-groups", one: "server_group", all: "server_groups", id: "id", paging: byOffset,
		columns: []column[document]{attribute("ID", "id"), attribute("Name", "name"), attribute("Policy", "policy"),
			{name: "Members", text: func(d document) string { return strconv.Itoa(len(listOf(d["members"]))) }},
			attribute("Rules", "rules"), long(attribute("Project", "project_id"))}},
}

// attribute returns the column of an attribute.
func attribute(name, key string) column[document] {
	return column[document]{name: name, text: func(d document) string { return valueText(key, d[key]) }}
}

// long returns a column that is shown with --long only.
func long(c column[document]) column[document] {
	c.long = true
	return c
}

// portsOfRule returns the ports of a rule, such as "80" and "1000-2000".
func portsOfRule(d document) string {
	first, last := valueText("", d["port_range_min"]), valueText("", d["port_range_max"])
	if first == last {
		return first
	}
	return first + "-" + last
}

// isTime reports whether an attribute is a time.
func isTime(key string) bool {
	return strings.HasSuffix(key, "_at") || key == "created" || key == "updated"
}

// valueText returns the value of an attribute for people.
func valueText(key string, value any) string {
	switch v := value.(type) {
	case nil:
		return "-"
	case string:
		if isTime(key) {
			return localTimeOf(v)
		}
		return dash(v)
	case bool:
		return yes(v)
	case json.Number:
		return v.String()
	case []any:
		texts := make([]string, 0, len(v))
		for _, one := range v {
			texts = append(texts, valueText("", one))
		}
		return dash(strings.Join(texts, ", "))
	case map[string]any:
		var texts []string
		for _, name := range sortedKeys(v) {
			texts = append(texts, name+"="+valueText(name, v[name]))
		}
		return dash(strings.Join(texts, " "))
	}
	return fmt.Sprint(value)
}

func listOf(value any) []any {
	list, _ := value.([]any)
	return list
}

// fields returns the rows of one object: its id and name, then the other attributes by their names.
func (d document) fields() (rows [][]string) {
	first := []string{"id", "name"}
	for _, key := range first {
		if _, has := d[key]; has {
			rows = append(rows, []string{key, valueText(key, d[key])})
		}
	}
	for _, key := range sortedKeys(d) {
		if !slices.Contains(first, key) {
			rows = append(rows, []string{key, valueText(key, d[key])})
		}
	}
	return rows
}

// inUTC changes the times of an object to their form in JSON.
func (d document) inUTC() document {
	for key, value := range d {
		if text, is := value.(string); is && isTime(key) {
			d[key] = utcTime(text)
		}
	}
	return d
}

// pathOf returns the path of an object.
func (k *kind) pathOf(id string) string { return k.path + "/" + pathEscape(id) }

// updates returns the method that changes an object.
func (k *kind) updates() string { return http.MethodPut }

func pathEscape(id string) string { return url.PathEscape(id) }
