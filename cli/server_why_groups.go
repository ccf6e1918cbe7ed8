package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/api/compute"
)

// printGroups writes each request group, each provider and each device on its own line, with ids.
func printGroups(b *strings.Builder, why compute.Why, providers names) {
	b.WriteString("request groups:\n")
	for _, g := range why.Groups {
		fmt.Fprintf(b, "  %q wants %s\n", g.Suffix, groupText(g))
	}
	if c := why.Choice; c != nil {
		fmt.Fprintf(b, "chosen on %s:\n", c.Host)
		for _, id := range sortedKeys(c.Allocation) {
			fmt.Fprintf(b, "  %s from provider %s\n", amountsText(c.Allocation[id]), providers.of(id))
		}
	}
	for _, d := range why.Devices {
		fmt.Fprintf(b, "device %s serves request %s\n", d.Address, d.RequestID)
	}
}

// printGrouped writes one line for equal groups of one alias, for providers of equal amounts, and for the devices of an
// alias.
func printGrouped(b *strings.Builder, why compute.Why, providers names) {
	b.WriteString("request groups:\n")
	printCounted(b, "  ", whyGroupLines(why))
	if c := why.Choice; c != nil {
		fmt.Fprintf(b, "chosen on %s:\n", c.Host)
		from := map[string][]string{} // providers by amounts
		for _, id := range sortedKeys(c.Allocation) {
			text := amountsText(c.Allocation[id])
			from[text] = append(from[text], providers.of(id))
		}
		for _, text := range sortedKeys(from) {
			each := ""
			if len(from[text]) > 1 {
				each = "each of "
			}
			slices.Sort(from[text])
			fmt.Fprintf(b, "  %s from %s%s\n", text, each, strings.Join(from[text], ", "))
		}
	}
	devices := map[string][]string{} // addresses by alias
	for _, d := range why.Devices {
		alias := aliasOf(why, d.RequestID)
		devices[alias] = append(devices[alias], d.Address)
	}
	for _, alias := range sortedKeys(devices) {
		fmt.Fprintf(b, "%s: %s\n", alias, devicesText(devices[alias]))
	}
}

// whyGroupLines returns a line for each request group: those of an alias by the alias, the others by their suffix.
func whyGroupLines(why compute.Why) (lines []string) {
	for _, g := range why.Groups {
		who := fmt.Sprintf("%q", g.Suffix)
		if g.Suffix == "" {
			who = "the server"
		}
		for _, r := range why.Requests {
			if r.ID != "" && strings.HasPrefix(g.Suffix, r.ID+"-") {
				who = r.Name()
			}
		}
		lines = append(lines, who+" wants "+groupText(g))
	}
	return lines
}

// printCounted writes each different line once, with the number of its occurrences.
func printCounted(b *strings.Builder, indent string, lines []string) {
	times := map[string]int{}
	for _, line := range lines {
		times[line]++
	}
	for _, line := range lines {
		switch n := times[line]; {
		case n > 1:
			fmt.Fprintf(b, "%s%s (%d times)\n", indent, line, n)
		case n == 1:
			fmt.Fprintf(b, "%s%s\n", indent, line)
		}
		times[line] = 0
	}
}

// aliasOf returns the name of a request, or its id if the request is unknown.
func aliasOf(why compute.Why, request string) string {
	for _, r := range why.Requests {
		if r.ID == request {
			return r.Name()
		}
	}
	return "request " + request
}

// groupText returns the resources and traits of a request group.
func groupText(g compute.WhyGroup) string {
	text := amountsText(g.Resources)
	for _, t := range g.Required {
		text += ", with " + t
	}
	for _, t := range g.Forbidden {
		text += ", without " + t
	}
	return text
}

// replacer returns a replacer of ids by names.
func replacer(byID map[string]string) *strings.Replacer {
	var pairs []string
	for _, id := range sortedKeys(byID) {
		pairs = append(pairs, id, byID[id])
	}
	return strings.NewReplacer(pairs...)
}

func amountsText(amounts map[string]int) string {
	parts := []string{}
	for _, class := range sortedKeys(amounts) {
		parts = append(parts, fmt.Sprintf("%s:%d", class, amounts[class]))
	}
	if len(parts) == 0 {
		return "no resources"
	}
	return strings.Join(parts, ",")
}

func devicesText(addresses []string) string {
	if len(addresses) == 0 {
		return "no devices"
	}
	return "devices " + strings.Join(addresses, ", ")
}

// maxRemovedHosts is how many of the hosts that a clause removes are named in a line.
const maxRemovedHosts = 5

// funnelLine returns a line of a funnel: the number of hosts left after a clause, and some of those that it removed.
func funnelLine(before, left int, clause string, removed []string) string {
	text := fmt.Sprintf("  %6d  %s", left, clause)
	if named := removed[:min(len(removed), maxRemovedHosts)]; len(named) > 0 {
		text += "; not " + strings.Join(named, ", ")
		if more := before - left - len(named); more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	return text + "\n"
}
