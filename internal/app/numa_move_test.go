package app

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/resource"
)

// The agent does not move CPUs to the providers of nodes while a consumer has some that no guest has, or more or fewer
// than its guest. The commands of the conditions end that.
func TestRemediesOfWaitingNUMAMove(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.sys = twoNodes(func(m *machine, node int) { m.devices(node, 1, "10de", "2330", "030200") })
	const conf = "[compute]\ncpu_dedicated_set = 0-7\ncpu_shared_set = 8-15\n"
	l.up(conf + "[berth]\nnuma_in_placement = false\n")
	server := l.bootCPUs("pinned", "ACTIVE", 2, map[string]string{"hw:cpu_policy": "dedicated"})
	root := l.provider("cmp1").ID
	set := func(consumer string, cpus int) {
		t.Helper()
		held, err := l.cloud.PlacementClient().Allocation(t.Context(), resource.ConsumerID(consumer))
		if err != nil {
			t.Fatal(err)
		}
		if len(held.Allocation) == 0 {
			held = placement.ConsumerAllocation{Allocation: resource.Allocation{root: {}}, Project: "p", User: "u",
				ConsumerType: "INSTANCE"}
		}
		held.Allocation[root]["PCPU"] = cpus
		if err := l.cloud.PlacementClient().PutAllocation(t.Context(), resource.ConsumerID(consumer), held); err != nil {
			t.Fatal(err)
		}
	}
	unknown := uuid.NewString()
	set(unknown, 1)
	l.down()
	l.up(conf)
	defer func() { l.down() }()
	waits := func(remedy string) {
		t.Helper()
		l.until("a condition with "+remedy, func() bool { return strings.Contains(l.conditions(), remedy) })
		if node := l.provider("cmp1_NUMA0"); len(node.Inventories) > 0 {
			t.Errorf("the node has %v", node.Inventories)
		}
	}
	heal := func(remove ...string) {
		t.Helper()
		c := cli.HostHealCmd{Host: "cmp1", Apply: true, Remove: remove}
		if err := c.Run(l.globals()); err != nil {
			t.Error(err)
		}
	}
	waits(fmt.Sprintf("remove its allocation with `berth host heal cmp1 --apply --remove %s`", unknown))
	set(server.ID, 3)
	heal(unknown)
	waits("set its PCPU in Placement to 2")
	set(server.ID, 1)
	waits("write what is missing with `berth host heal cmp1 --apply`")
	heal()
	l.until("the CPUs are on the node", func() bool {
		return l.allocation(server.ID)[l.provider("cmp1_NUMA0").ID]["PCPU"] == 2
	})
	l.quiet()
}
