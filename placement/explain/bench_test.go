package explain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/openberth/berth/placement/candidate"
	ct "github.com/openberth/berth/placement/candidate/candidatetest"
	"github.com/openberth/berth/placement/explain"
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

// BenchmarkExplain asks and explains in turn, and reports what an explanation costs as a multiple of what it costs to
// find that there is no candidate (or to find the first). The quickest round of each counts, because other processes
// may use the machine.
func BenchmarkExplain(b *testing.B) {
	for _, q := range questions() {
		b.Run(q.name, func(b *testing.B) {
			world, asking, explaining := q.world(), time.Hour, time.Hour
			for b.Loop() {
				began := time.Now()
				for range candidate.Find(world, q.ask, candidate.Options{}) {
					break
				}
				asked := time.Now()
				explain.Why(world, q.ask, nil)
				asking, explaining = min(asking, asked.Sub(began)), min(explaining, time.Since(asked))
			}
			b.ReportMetric(float64(explaining)/float64(asking), "ratio")
			b.ReportMetric(float64(asking.Nanoseconds())/1000, "us/ask")
			b.ReportMetric(float64(explaining.Nanoseconds())/1000, "us/explain")
		})
	}
}
