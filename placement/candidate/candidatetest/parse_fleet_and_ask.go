package candidatetest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// ParseWorld reads a fleet, one provider a line, a child indented under its parent:
//
//	name CLASS=total/used,reserved=1,min=1,max=2,step=1,ratio=1.5 +TRAIT @aggregate
func ParseWorld(t testing.TB, text string) []index.Row {
	t.Helper()
	var rows []index.Row
	var path []provider.ID
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		depth := (len(line) - len(strings.TrimLeft(line, "\t")))
		base := len(text) - len(strings.TrimLeft(text, "\n\t"))
		depth -= base - 1
		r := index.Row{Used: resource.Amounts{}}
		r.ID, r.Name, r.Inventories = provider.ID(words[0]), words[0], map[resource.Class]resource.Inventory{}
		path = append(path[:depth], r.ID)
		r.Root = path[0]
		if depth > 0 {
			r.Parent = path[depth-1]
		}
		for _, w := range words[1:] {
			switch w[0] {
			case '+':
				r.Traits = append(r.Traits, resource.Trait(w[1:]))
			case '@':
				r.Aggregates = append(r.Aggregates, resource.AggregateID(w[1:]))
			default:
				class, spec, _ := strings.Cut(w, "=")
				parseStock(t, &r, resource.Class(class), spec)
			}
		}
		rows = append(rows, r)
	}
	return rows
}

func parseStock(t testing.TB, r *index.Row, class resource.Class, spec string) {
	t.Helper()
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("%s: %v", spec, err)
		}
		return n
	}
	parts := strings.Split(spec, ",")
	total, used, _ := strings.Cut(parts[0], "/")
	inv := resource.Whole(number(total))
	if used != "" {
		r.Used[class] = number(used)
	}
	for _, p := range parts[1:] {
		name, value, _ := strings.Cut(p, "=")
		switch name {
		case "reserved":
			inv.Reserved = number(value)
		case "min":
			inv.MinUnit = number(value)
		case "max":
			inv.MaxUnit = number(value)
		case "step":
			inv.StepSize = number(value)
		case "ratio":
			inv.AllocationRatio, _ = strconv.ParseFloat(value, 64)
		default:
			t.Fatalf("%q is not a field of an inventory", p)
		}
	}
	r.Inventories[class] = inv
}

// ParseAsk reads groups separated by "|", the first word of a suffixed one being its suffix:
//
//	VCPU:1 +A,B !C @agg1,agg2 !@agg3 ^provider | _1 NIC:1 | isolate | together=_1,_2 | root=+A | root=!B
func ParseAsk(t testing.TB, text string) resource.Ask {
	t.Helper()
	ask := resource.Ask{GroupPolicy: resource.PolicyNone}
	for part := range strings.SplitSeq(text, "|") {
		words := strings.Fields(part)
		switch name, value, _ := strings.Cut(words[0], "="); {
		case name == "isolate":
			ask.GroupPolicy = resource.PolicyIsolate
		case name == "together":
			ask.SameSubtree = append(ask.SameSubtree, strings.Split(value, ","))
		case name == "root" && value[0] == '+':
			ask.RootRequired = append(ask.RootRequired, resource.Trait(value[1:]))
		case name == "root":
			ask.RootForbidden = append(ask.RootForbidden, resource.Trait(value[1:]))
		default:
			ask.Groups = append(ask.Groups, parseGroup(t, words))
		}
	}
	return ask
}

func parseGroup(t testing.TB, words []string) resource.Group {
	t.Helper()
	g := resource.Group{Resources: resource.Amounts{}}
	if words[0][0] == '_' {
		g.Suffix, words = words[0], words[1:]
	}
	for _, w := range words {
		switch {
		case strings.HasPrefix(w, "!@"):
			g.NotMemberOf = append(g.NotMemberOf, names[resource.AggregateID](w[2:])...)
		case w[0] == '!':
			g.Forbidden = append(g.Forbidden, names[resource.Trait](w[1:])...)
		case w[0] == '+':
			g.Required = append(g.Required, names[resource.Trait](w[1:]))
		case w[0] == '@':
			g.MemberOf = append(g.MemberOf, names[resource.AggregateID](w[1:]))
		case w[0] == '^':
			g.InTree = provider.ID(w[1:])
		default:
			class, n, _ := strings.Cut(w, ":")
			amount, err := strconv.Atoi(n)
			if err != nil {
				t.Fatalf("%q: %v", w, err)
			}
			g.Resources[resource.Class(class)] = amount
		}
	}
	return g
}

func names[N ~string](list string) []N {
	var out []N
	for name := range strings.SplitSeq(list, ",") {
		out = append(out, N(name))
	}
	return out
}

// Brief writes a candidate as its allocation and, for suffixed groups, its mappings.
func Brief(c candidate.Candidate) string {
	var parts []string
	allocation, mappings := c.Allocation(), c.Mappings()
	for _, id := range slices.Sorted(maps.Keys(allocation)) {
		parts = append(parts, fmt.Sprintf("%s(%s)", id, allocation[id]))
	}
	for _, suffix := range slices.Sorted(maps.Keys(mappings)) {
		if suffix != "" {
			parts = append(parts, fmt.Sprintf("%s=%s", suffix, mappings[suffix][0]))
		}
	}
	return strings.Join(parts, " ")
}
