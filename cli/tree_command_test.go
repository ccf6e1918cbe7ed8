package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// The trees of Nova's hosts with their holders, by host, provider and id, and without compute.
func TestTree(t *testing.T) {
	c, g, out := newRoomyCloud(t)
	warnings := g.Stderr.(*bytes.Buffer)
	type doc = map[string]any
	holds := func(class string, n int) doc { return doc{"resources": doc{class: n}} }
	c.extra["/resource_providers/cmp1/allocations"] = doc{"allocations": doc{"s1": holds("VCPU", 2),
		"s2": holds("VCPU", 1), "s3": holds("VCPU", 1), "s4": holds("VCPU", 1), "s5": holds("VCPU", 1)}}
	c.extra["/resource_providers/cmp1_0000:81:00.0/allocations"] = doc{"allocations": doc{
		"m1": holds("CUSTOM_PCI_10DE_1EB8", 1)}}
	var servers []any
	for n, name := range []string{"", "web\x1b[2J", "db", "mail"} {
		if name != "" {
			servers = append(servers, doc{"id": fmt.Sprint("s", n), "name": name, "status": "ACTIVE", "tenant_id": "p",
				"created": "2026-01-01T00:00:00Z", "updated": "2026-01-01T00:00:00Z",
				"flavor": doc{"vcpus": 1, "original_name": "small"}})
		}
	}
	c.extra["/v2.1/servers/detail"] = doc{"servers": servers}
	c.extra["/v2.1/os-migrations"] = doc{"migrations": []any{doc{"uuid": "m1", "instance_uuid": "s2",
		"migration_type": "resize", "status": "finished"}}}
	run := func(cmd TreeCmd) string {
		t.Helper()
		out.Reset()
		if err := cmd.Run(g); err != nil {
			t.Error(err)
		}
		return out.String()
	}
	const cmp1 = `cmp1  VCPU 6/8  held by web\x1b[2J, db, mail, and 2 more
└─ cmp1_0000:81:00.0  CUSTOM_PCI_10DE_1EB8 1/1  held by resize of db
`
	if got := run(TreeCmd{}); got != cmp1+"cmp2  VCPU 0/8\ncmp3  VCPU 0/8\n" {
		t.Error(got)
	}
	long := run(TreeCmd{LongOutput: LongOutput{Long: true}})
	for _, text := range []string{"unknown consumer s5", "mail (s3, project p, flavor small: VCPU:1)",
		"cmp1_0000:81:00.0  cmp1_0000:81:00.0"} {
		if !strings.Contains(long, text) {
			t.Errorf("no %q in %s", text, long)
		}
	}
	g.Output = "json"
	var nodes []treeNode
	err := json.Unmarshal([]byte(run(TreeCmd{})), &nodes)
	if err != nil || len(nodes) != 4 || nodes[0].Usages["VCPU"] != 6 ||
		len(nodes[0].Holders) != 5 || nodes[1].Holders[0].Move != "resize" || nodes[1].Host != "cmp1" ||
		nodes[1].Kind != "pci" || nodes[0].Inventories["VCPU"].Total != 8 {
		t.Errorf("%v %s", err, out)
	}
	g.Output = "table"
	c.extra["/"] = http.StatusTeapot // not a version document
	if got := run(TreeCmd{}); !strings.Contains(got, "held by s1, s2, s3, and 2 more") ||
		!strings.Contains(warnings.String(), "warning: holders are shown by id:") {
		t.Errorf("%s %s", got, warnings)
	}
}

// Many traits are shortened, few are not.
func TestShortTraits(t *testing.T) {
	few := []string{"COMPUTE_NODE", "CUSTOM_A", "HW_CPU_X86_AVX"}
	if got := shortTraits(few); len(got) != 3 {
		t.Errorf("%q", got)
	}
	many := append([]string{"HW_NUMA_ROOT"}, few...)
	for i := range 10 {
		many = append(many, fmt.Sprint("HW_CPU_X86_", i))
	}
	if got := strings.Join(shortTraits(many), " "); got != "HW_NUMA_ROOT CUSTOM_A COMPUTE_…×1 HW_CPU_…×11" {
		t.Error(got)
	}
}
