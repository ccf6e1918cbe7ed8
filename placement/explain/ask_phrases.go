package explain

import (
	"strconv"
	"strings"

	"github.com/openberth/berth/placement/match"
	"github.com/openberth/berth/resource"
)

// classesOf names the resource classes that an item needs.
func classesOf(c *match.ItemClass) string {
	switch len(c.Needs) {
	case 0:
		return "a provider"
	case 1:
		return string(c.Resource)
	}
	return join(c.Amounts.Sorted(), " and ")
}

// conditionsOf names the conditions of an item class; "" if it has none.
func conditionsOf(c *match.ItemClass) string {
	g := c.Group
	if len(c.Required) == 0 {
		g.Required = nil // an unsuffixed group of several classes: its providers have the traits together
	}
	switch text := groupConditions(&g); {
	case len(c.Needs) < 2:
		return text
	case text == "":
		return "on one provider"
	default:
		return text + ", on one provider"
	}
}

// groupConditions names the traits, aggregates and tree that a group asks for; "" if there are none.
func groupConditions(g *resource.Group) string {
	var parts []string
	for _, set := range g.Required {
		parts = append(parts, "with "+join(set, " or "))
	}
	if len(g.Forbidden) > 0 {
		parts = append(parts, "without "+join(g.Forbidden, ", "))
	}
	for _, set := range g.MemberOf {
		parts = append(parts, "in aggregate "+join(set, " or "))
	}
	if len(g.NotMemberOf) > 0 {
		parts = append(parts, "outside aggregate "+join(g.NotMemberOf, ", "))
	}
	if g.InTree != "" {
		parts = append(parts, "in the tree of "+string(g.InTree))
	}
	return strings.Join(parts, ", ")
}

// itemName returns what one item asks: `CUSTOM_NIC:1 with CUSTOM_RED`.
func itemName(c *match.ItemClass) string {
	if len(c.Needs) > 1 {
		return amountsName(c.Amounts, "")
	}
	return amountsName(c.Amounts, conditionsOf(c))
}

func amountsName(amounts resource.Amounts, conditions string) string {
	text := amounts.String()
	if text == "" {
		text = "a provider"
	}
	if conditions != "" {
		text += " " + conditions
	}
	return text
}

// itemNames returns what all items of some item classes ask: `9 x CUSTOM_NIC:1 with CUSTOM_RED and VCPU:1`. Item
// classes of one name are counted together.
func itemNames(q *match.Query, classes []int) string {
	if len(classes) == 1 {
		c := &q.ItemClasses[classes[0]]
		return times(len(c.Items), itemName(c))
	}
	var names []string
	counts := map[string]int{}
	for _, at := range classes {
		name := itemName(&q.ItemClasses[at])
		if counts[name] == 0 {
			names = append(names, name)
		}
		counts[name] += len(q.ItemClasses[at].Items)
	}
	for i, name := range names {
		names[i] = times(counts[name], name)
	}
	return strings.Join(names, " and ")
}

// rootConditions names what root_required asks.
func rootConditions(ask resource.Ask) string {
	var parts []string
	for _, t := range ask.RootRequired {
		parts = append(parts, "with "+string(t))
	}
	for _, t := range ask.RootForbidden {
		parts = append(parts, "without "+string(t))
	}
	return strings.Join(parts, ", ")
}

func times(n int, what string) string {
	if n == 1 {
		return what
	}
	return strconv.Itoa(n) + " x " + what
}

func join[N ~string](names []N, by string) string {
	if len(names) == 1 {
		return string(names[0])
	}
	parts := make([]string, len(names))
	for i, n := range names {
		parts[i] = string(n)
	}
	return strings.Join(parts, by)
}

// hosts is a number of hosts: `1 host`, `2 hosts`.
func hosts(n int) string {
	if n == 1 {
		return "1 host"
	}
	return strconv.Itoa(n) + " hosts"
}

// verb makes a clause that begins with `have`, `hold` or `offer` agree with the number of hosts.
func verb(clause string, n int) string {
	if n != 1 {
		return clause
	}
	word, rest, _ := strings.Cut(clause, " ")
	if word == "have" {
		return "has " + rest
	}
	return word + "s " + rest
}
