package explain_test

import (
	"fmt"
	"sync"

	ct "github.com/openberth/berth/placement/candidate/candidatetest"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// question is an ask of a fleet, to be answered and to be explained.
type question struct {
	name  string
	world func() *index.Snapshot
	ask   resource.Ask
}

func questions() []question {
	three := []resource.Trait{"CUSTOM_RED", "CUSTOM_BLUE", "CUSTOM_GREEN"}
	var out []question
	for _, n := range []int{8, 10, 16, 64} {
		plain := lazily(func() []index.Row { return ct.Devices("cmp", n, 0, ct.NICs, nil) })
		mixed := lazily(func() []index.Row { return ct.Devices("cmp", n, 0, ct.NICsAndGPUs, three) })
		for _, policy := range []resource.Policy{resource.PolicyNone, resource.PolicyIsolate} {
			name := fmt.Sprintf("wide/%s/%dof%d", policy, n+1, n)
			out = append(out,
				question{name, plain, ct.DeviceAsk(n+1, policy, ct.NICs, nil)},
				question{name + "/mixed", mixed, ct.DeviceAsk(n+1, policy, ct.NICsAndGPUs, three)})
		}
	}
	one := ct.DeviceAsk(1, resource.PolicyNone, ct.NICs, nil)
	for name, rows := range map[string]func(int, int) []index.Row{"equal": ct.Fleet, "varied": varied} {
		s := lazily(func() []index.Row { return rows(10000, 4) })
		busy := lazily(func() []index.Row { return rows(10000, 0) })
		ask := func(how func(g *resource.Group)) resource.Ask { return change(one, how) }
		add := func(what string, s func() *index.Snapshot, ask resource.Ask) {
			out = append(out, question{"fleet/" + name + "/" + what, s, ask})
		}
		add("no such trait", s, ask(func(g *resource.Group) { g.Required = [][]resource.Trait{{"CUSTOM_NEW"}} }))
		add("no such class", s, ask(func(g *resource.Group) { g.Resources = resource.Amounts{"CUSTOM_NEW": 1} }))
		add("too big", s, ask(func(g *resource.Group) { g.Resources = resource.Amounts{"CUSTOM_NIC": 2} }))
		add("too big alone", s, resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 65}}}})
		add("all busy", busy, one)
		add("all busy, trait", busy, ask(func(g *resource.Group) { g.Required = [][]resource.Trait{{"CUSTOM_RED"}} }))
		add("forbidden", s, ask(func(g *resource.Group) { g.Forbidden = []resource.Trait{"CUSTOM_RED"} }))
		add("five of four", s, ct.DeviceAsk(5, resource.PolicyNone, ct.NICs, ct.Red))
		add("five of four, isolate", s, ct.DeviceAsk(5, resource.PolicyIsolate, ct.NICs, ct.Red))
		add("feasible", s, ct.DeviceAsk(4, resource.PolicyNone, ct.NICs, ct.Red))
		if name == "varied" {
			add("rare and busy", s, rare(1))
			add("rare and all busy", busy, rare(1))
		}
	}
	port := ct.Ports(1)
	port.Groups = append(port.Groups, resource.Group{Resources: resource.Amounts{"VCPU": 1}})
	out = append(out,
		question{"nested/13 ports on 12 cards", lazily(func() []index.Row { return cards(12) }), ct.Ports(13)},
		question{"nested/12 ports on 12 cards", lazily(func() []index.Row { return cards(12) }), ct.Ports(12)},
		question{"nested/same_subtree impossible", lazily(func() []index.Row { return apart(10000) }), port})
	return append(out, moreQuestions()...)
}

// lazily returns a function that builds a fleet at its first call: there are many fleets, and a run may need only one.
func lazily(rows func() []index.Row) func() *index.Snapshot {
	return sync.OnceValue(func() *index.Snapshot { return index.Build(rows()) })
}

// change returns a copy of an ask, with all its suffixed groups changed.
func change(ask resource.Ask, change func(g *resource.Group)) resource.Ask {
	ask.Groups = append([]resource.Group(nil), ask.Groups...)
	for i := range ask.Groups {
		if g := &ask.Groups[i]; g.Suffix != "" {
			change(g)
		}
	}
	return ask
}

// hostName returns the root of the host with this number in the fleets.
func hostName(i int) provider.ID {
	return provider.ID(fmt.Sprintf("cmp-%05d-0000-4000-8000-000000000000", i))
}

// nearly returns a varied fleet in which only one host has free devices: three.
func nearly(hosts int) []index.Row {
	rows := varied(hosts, 0)
	for i := range 3 {
		rows[hosts/2*27+1+i].Used = nil
	}
	return rows
}

// zoned returns a varied fleet of which each host, with all its providers, is in one of ten aggregates. zone0 has no
// free device.
func zoned(hosts int) []index.Row {
	rows := varied(hosts, 4)
	for i := range rows {
		host := i / 27
		rows[i].Aggregates = []resource.AggregateID{resource.AggregateID(fmt.Sprintf("zone%d", host%10))}
		if host%10 == 0 && i%27 > 0 {
			rows[i].Used = resource.Amounts{"CUSTOM_NIC": 1}
		}
		if host%10 == 1 && i%27 == 0 {
			rows[i].Traits = append(rows[i].Traits, "CUSTOM_ROOT")
		}
	}
	return rows
}

// pooled returns a varied fleet whose hosts use the space of sharing providers, one for each hundred hosts. used of
// 90,000 units are used on each sharing provider.
func pooled(hosts, used int) []index.Row {
	rows := varied(hosts, 4)
	for i := 0; i < len(rows); i += 27 {
		delete(rows[i].Inventories, "DISK_GB")
		delete(rows[i].Used, "DISK_GB")
		rows[i].Aggregates = []resource.AggregateID{resource.AggregateID(fmt.Sprintf("pool%d", i/27/100))}
	}
	for i := range hosts / 100 {
		id := provider.ID(fmt.Sprintf("pool-%05d", i))
		rows = append(rows, index.Row{Used: resource.Amounts{"DISK_GB": used},
			Provider: provider.Provider{ID: id, Name: string(id), Root: id,
				Inventories: map[resource.Class]resource.Inventory{"DISK_GB": resource.Whole(90000)},
				Traits:      []resource.Trait{index.Sharing},
				Aggregates:  []resource.AggregateID{resource.AggregateID(fmt.Sprintf("pool%d", i))}}})
	}
	return rows
}

// different returns a host of devices that have all traits, and groups that each ask for a device with another trait.
func different(n int) ([]index.Row, resource.Ask) {
	var all []resource.Trait
	for i := range n + 1 {
		all = append(all, resource.Trait(fmt.Sprintf("CUSTOM_T%02d", i)))
	}
	rows := ct.Devices("cmp", n, 0, ct.NICs, nil)
	for i := range n {
		rows[1+i].Traits = all
	}
	return rows, ct.DeviceAsk(n+1, resource.PolicyNone, ct.NICs, all)
}

// moreQuestions are those that could cost much more to explain than to answer.
func moreQuestions() []question {
	var out []question
	one, five := ct.DeviceAsk(1, resource.PolicyNone, ct.NICs, nil), ct.DeviceAsk(5, resource.PolicyNone, ct.NICs, nil)
	add := func(name string, world func() *index.Snapshot, ask resource.Ask) {
		out = append(out, question{name, world, ask})
	}
	near := lazily(func() []index.Row { return nearly(10000) })
	add("nearly/four of three", near, ct.DeviceAsk(4, resource.PolicyNone, ct.NICs, nil))
	add("nearly/four of three, isolate", near, ct.DeviceAsk(4, resource.PolicyIsolate, ct.NICs, nil))
	add("nearly/four of three, red", near, ct.DeviceAsk(4, resource.PolicyNone, ct.NICs, ct.Red))
	add("nearly/feasible on one", near, ct.DeviceAsk(3, resource.PolicyNone, ct.NICs, nil))
	add("nearly/feasible on one, isolate", near, ct.DeviceAsk(3, resource.PolicyIsolate, ct.NICs, nil))

	for name, rows := range map[string]func(int, int) []index.Row{"equal": ct.Fleet, "varied": varied} {
		s := lazily(func() []index.Row { return rows(10000, 4) })
		busy := lazily(func() []index.Row { return rows(10000, 0) })
		in := func(g *resource.Group) { g.InTree = hostName(5000) }
		fiveRed := ct.DeviceAsk(5, resource.PolicyNone, ct.NICs, ct.Red)
		add("in_tree/"+name+"/feasible elsewhere", s, change(five, in))
		add("in_tree/"+name+"/busy everywhere", busy, change(one, in))
		add("in_tree/"+name+"/too many everywhere", s, change(fiveRed, in))
		add("in_tree/"+name+"/too big everywhere", s, change(one, func(g *resource.Group) {
			g.InTree, g.Resources = hostName(5000), resource.Amounts{"CUSTOM_NIC": 2}
		}))
		host := change(one, in)
		host.Groups[0].InTree, host.Groups[0].Resources = hostName(5000), resource.Amounts{"VCPU": 65}
		add("in_tree/"+name+"/unsuffixed, too big", s, host)
		add("in_tree/"+name+"/feasible", s, change(one, in))
		add("in_tree/"+name+"/wrong trait", s, change(one, func(g *resource.Group) {
			g.InTree, g.Required = hostName(5000), [][]resource.Trait{{"CUSTOM_NEW"}}
		}))
	}
	zones := lazily(func() []index.Row { return zoned(10000) })
	member := func(a ...resource.AggregateID) func(g *resource.Group) {
		return func(g *resource.Group) { g.MemberOf = [][]resource.AggregateID{a} }
	}
	add("member_of/busy", zones, change(one, member("zone0")))
	add("member_of/no member", zones, change(one, member("zone99")))
	add("member_of/one of two, too many", zones, change(five, member("zone1", "zone2")))
	add("member_of/forbidden", zones, change(one, func(g *resource.Group) {
		for zone := 1; zone < 10; zone++ {
			g.NotMemberOf = append(g.NotMemberOf, resource.AggregateID(fmt.Sprint("zone", zone)))
		}
	}))
	add("member_of/feasible", zones, change(one, member("zone9")))
	rooted := one
	rooted.RootRequired = []resource.Trait{"CUSTOM_ROOT"}
	add("root/required, too many", zones, resource.Ask{Groups: five.Groups, RootRequired: rooted.RootRequired})
	rooted.RootForbidden, rooted.RootRequired = rooted.RootRequired, nil
	add("root/forbidden, busy", zones, change(rooted, member("zone0")))
	zone1 := change(one, member("zone1"))
	add("root/forbidden alone", zones, resource.Ask{Groups: zone1.Groups, RootForbidden: rooted.RootForbidden})

	empty := lazily(func() []index.Row { return pooled(10000, 90000) })
	some := lazily(func() []index.Row { return pooled(10000, 0) })
	add("sharing/pools empty", empty, one)
	add("sharing/too many", some, five)
	add("sharing/rare and busy", some, rare(1))
	add("sharing/in_tree", some, change(five, func(g *resource.Group) { g.InTree = hostName(5000) }))
	add("sharing/feasible", some, one)

	for _, n := range []int{8, 16, 64} {
		rows, ask := different(n)
		add(fmt.Sprintf("different/%dof%d", n+1, n), lazily(func() []index.Row { return rows }), ask)
	}
	flat := one
	flat.Flat = true
	add("flat/equal", lazily(func() []index.Row { return ct.Fleet(1000, 4) }), flat)
	add("flat/varied", lazily(func() []index.Row { return varied(1000, 4) }), flat)
	for _, h := range ct.HardCases() {
		add("hard/"+h.Name, lazily(func() []index.Row { return h.Rows }), h.Ask)
	}
	return out
}

// varied returns a fleet in which no two hosts have the same in use, and free of 26 devices are free on each. Every
// thousandth host has a rare device, in use.
func varied(hosts, free int) []index.Row {
	var rows []index.Row
	for i := range hosts {
		host := ct.Devices(fmt.Sprintf("cmp-%05d-0000-4000-8000-000000000000", i), 26, 26-free, ct.NICs, ct.Red)
		host[0].Used = resource.Amounts{"VCPU": i % 50, "MEMORY_MB": i, "DISK_GB": i % 900}
		for j := range host[1:] {
			if j%5 == i%5 {
				host[j+1].Traits = append(host[j+1].Traits, "CUSTOM_BLUE")
			}
		}
		if i%1000 == 999 {
			host[26].Traits = append(host[26].Traits, "CUSTOM_RARE")
			host[26].Used = resource.Amounts{"CUSTOM_NIC": 1}
		}
		rows = append(rows, host...)
	}
	return rows
}

// apart returns hosts of 13 cards each with one child, which has functions or bandwidth: no card has both.
func apart(hosts int) []index.Row {
	var rows []index.Row
	for i := range hosts {
		root := provider.ID(fmt.Sprintf("cmp-%05d-0000-4000-8000-000000000000", i))
		rows = append(rows, ct.Devices(string(root), 0, 0, ct.NICs, nil)...)
		rows[len(rows)-1].Used = resource.Amounts{"VCPU": i % 50, "MEMORY_MB": i, "DISK_GB": i % 900}
		for c := range 13 {
			card := provider.ID(fmt.Sprintf("%s_%02d", root, c))
			class := []resource.Class{"VF", "BW"}[c%2]
			row := func(id, parent provider.ID) index.Row {
				return index.Row{Provider: provider.Provider{ID: id, Name: string(id), Parent: parent, Root: root}}
			}
			top, child := row(card, root), row(card+"c", card)
			top.Traits = []resource.Trait{"CUSTOM_CARD"}
			child.Inventories = map[resource.Class]resource.Inventory{class: resource.Whole(9000)}
			rows = append(rows, top, child)
		}
	}
	return rows
}

// cards returns one host of cards. Every other card has few functions, the others have little bandwidth.
func cards(n int) []index.Row {
	rows := ct.Devices("cmp", 0, 0, ct.NICs, nil)
	for i := range n {
		vf, bw := 9, 1000
		if i%2 == 0 {
			vf, bw = 1, 9000
		}
		card := provider.ID(fmt.Sprintf("cmp_%02d", i))
		row := func(id, parent provider.ID) index.Row {
			return index.Row{Provider: provider.Provider{ID: id, Name: string(id), Parent: parent, Root: "cmp"}}
		}
		top, v, b := row(card, "cmp"), row(card+"v", card), row(card+"b", card)
		top.Traits = []resource.Trait{"CUSTOM_CARD"}
		v.Inventories = map[resource.Class]resource.Inventory{"VF": resource.Whole(vf)}
		b.Inventories = map[resource.Class]resource.Inventory{"BW": resource.Whole(bw)}
		rows = append(rows, top, v, b)
	}
	return rows
}
