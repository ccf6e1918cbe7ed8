package bench

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
)

// node is a provider to create, with its children.
type node struct {
	stock  map[string]inventory
	traits []string
	below  []node
}

// inventory contains the specified fields of an inventory; the server has defaults for the others.
type inventory map[string]int

func whole(total int) inventory { return inventory{"total": total} }

// plant creates a tree over the API as an agent does: the provider, its inventories, its traits, then its children. It
// returns the provider's ID and the number of calls.
func plant(c *Conn, n node, name, parent string) (id string, calls int, err error) {
	id = uuid.NewString()
	send := func(want int, method, path string, body any) error {
		data, err := json.Marshal(body)
		if err == nil {
			_, err = c.Want(want, method, "/resource_providers"+path, data)
			calls++
		}
		return err
	}
	made := map[string]string{"uuid": id, "name": name + " " + id}
	if parent != "" {
		made["parent_provider_uuid"] = parent
	}
	if err := send(200, "POST", "", made); err != nil {
		return id, calls, err
	}
	generation := 0
	if len(n.stock) > 0 {
		if err := send(200, "PUT", "/"+id+"/inventories", map[string]any{"resource_provider_generation": generation,
			"inventories": n.stock}); err != nil {
			return id, calls, err
		}
		generation++
	}
	if len(n.traits) > 0 {
		if err := send(200, "PUT", "/"+id+"/traits", map[string]any{"resource_provider_generation": generation,
			"traits": n.traits}); err != nil {
			return id, calls, err
		}
	}
	for i, child := range n.below {
		_, more, err := plant(c, child, fmt.Sprintf("%s.%d", name, i), id)
		calls += more
		if err != nil {
			return id, calls, err
		}
	}
	return id, calls, nil
}

// Names creates the custom classes and traits of this package. It can be repeated.
func Names(addr string) error {
	c := Dial(addr)
	defer c.Close()
	ensure := func(path string) error {
		status, answer, err := c.Do("PUT", path, nil)
		if err == nil && status != 201 && status != 204 {
			err = fmt.Errorf("PUT %s: %d: %.500s", path, status, answer)
		}
		return err
	}
	for _, trait := range []string{"CUSTOM_FOO", red, blue, physnet, portNetwork, portDirect} {
		if err := ensure("/traits/" + trait); err != nil {
			return err
		}
	}
	classes := []string{function}
	for _, w := range Wides() {
		classes = append(classes, w.classes...)
	}
	for _, class := range classes {
		if err := ensure("/resource_classes/" + class); err != nil {
			return err
		}
	}
	return nil
}

// NestedCalls is the number of API calls for a nested tree.
const NestedCalls = 17

// Nested creates one nested tree: a compute node, two NUMA nodes, an FPGA and a GPU on the first, two FPGAs on the
// second.
func Nested(c *Conn) error {
	fpga := node{stock: map[string]inventory{"FPGA": whole(1)}}
	tree := node{stock: map[string]inventory{"DISK_GB": whole(20480)}, traits: []string{"COMPUTE_VOLUME_MULTI_ATTACH"},
		below: []node{
			{stock: map[string]inventory{"VCPU": {"total": 4, "reserved": 2}, "MEMORY_MB": {"total": 2048, "min_unit": 512,
				"step_size": 256}},
				traits: []string{"HW_NUMA_ROOT"}, below: []node{fpga, {stock: map[string]inventory{"VGPU": whole(8)}}}},
			{stock: map[string]inventory{"VCPU": whole(4), "MEMORY_MB": {"total": 2048, "min_unit": 256, "max_unit": 1024}},
				traits: []string{"HW_NUMA_ROOT", "CUSTOM_FOO"}, below: []node{fpga, fpga}},
		}}
	_, calls, err := plant(c, tree, "nested", "")
	if err == nil && calls != NestedCalls {
		err = fmt.Errorf("a nested tree needed %d calls, not %d", calls, NestedCalls)
	}
	return err
}

const (
	red, blue = "CUSTOM_BENCH_RED", "CUSTOM_BENCH_BLUE"
	physnet   = "CUSTOM_BENCH_PHYSNET"
	function  = "CUSTOM_BENCH_VF"
)

// Wide is a set of hosts with many devices of one unit each. Every Wide has its own classes, so that one server can
// contain all.
type Wide struct {
	Devices int // on each host
	Hosts   int
	classes []string // of the devices, in turn
	mixed   bool     // every second device of a class is red, the others blue
}

// Wides returns the wide worlds: with one class, and with two classes and traits.
func Wides() []Wide {
	var all []Wide
	for _, n := range []int{8, 10, 16, 64} {
		class := fmt.Sprintf("CUSTOM_BENCH_%d", n)
		all = append(all, Wide{n, 1, []string{class}, false}, Wide{n, 1, []string{class + "_A", class + "_B"}, true})
	}
	return append(all, Wide{8, 32, []string{"CUSTOM_BENCH_32X8"}, false})
}

// Load creates the hosts.
func (w Wide) Load(addr string) error {
	host := node{stock: map[string]inventory{"VCPU": whole(1 << 10), "MEMORY_MB": whole(1 << 20)}}
	for i := range w.Devices {
		host.below = append(host.below, node{stock: map[string]inventory{w.class(i): whole(1)}, traits: w.traits(i)})
	}
	_, err := Run(addr, min(w.Hosts, 4), Times(w.Hosts), func(c *Conn, _ int) error {
		_, _, err := plant(c, host, "wide", "")
		return err
	})
	return err
}

// class returns the class of the i-th device and of the i-th group.
func (w Wide) class(i int) string { return w.classes[i%len(w.classes)] }

// traits returns the traits of the i-th device, which the i-th group requires.
func (w Wide) traits(i int) []string {
	if !w.mixed {
		return nil
	}
	return []string{[]string{red, blue}[i/len(w.classes)%2]}
}

// Halls creates hosts to claim from: each is a compute node with two network cards of 64 functions. It returns the
// IDs of the hosts.
func Halls(addr string, hosts int) ([]string, error) {
	card := node{stock: map[string]inventory{function: whole(64)}, traits: []string{physnet}}
	host := node{stock: map[string]inventory{"VCPU": whole(1 << 12), "MEMORY_MB": whole(1 << 22),
		"DISK_GB": whole(1 << 17)}, below: []node{card, card}}
	ids := make([]string, hosts)
	_, err := Run(addr, 4, Times(hosts), func(c *Conn, n int) (err error) {
		ids[n], _, err = plant(c, host, "hall", "")
		return err
	})
	return ids, err
}
