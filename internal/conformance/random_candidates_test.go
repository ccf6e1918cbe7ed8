package conformance

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// worldCount is the number of random worlds so far.
var worldCount atomic.Int64

// TestRandomCandidates compares queries for candidates in random worlds with nested trees, sharing providers, traits,
// aggregates and claims.
func TestRandomCandidates(t *testing.T) {
	t.Parallel()
	pair := takePair(t)
	rapid.Check(t, func(t *rapid.T) {
		g := newRandomRun(t, pair)
		g.buildWorld()
		for range 12 {
			g.candidates()
		}
	})
}

// buildWorld creates a world with up to six providers, each a root or a child of an earlier one.
func (g *randomRun) buildWorld() {
	g.createNames()
	for i := range g.number(1, 6) {
		rp, parent := fmt.Sprintf("$rp%d", i), "null"
		if i > 0 && !g.oneIn(3) {
			parent = fmt.Sprintf(`"$rp%d"`, g.number(0, i-1))
		}
		g.play(Latest, "POST", "/resource_providers", fmt.Sprintf(`{"name": "n%d", "uuid": "%s", "parent_provider_uuid": %s}`,
			i, rp, parent))
		var list []string
		for _, class := range []string{"VCPU", "MEMORY_MB", "CUSTOM_X"} {
			if g.oneIn(2) {
				list = append(list, fmt.Sprintf(`"%s": {"total": %d, "reserved": %d, "step_size": %d}`, class, g.number(3, 9),
					g.number(0, 2),
					g.number(1, g.number(1, 2))))
			}
		}
		g.play(Latest, "PUT", "/resource_providers/"+rp+"/inventories",
			fmt.Sprintf(`{"resource_provider_generation": %s.gen, "inventories": {%s}}`, rp, strings.Join(list, ", ")))
		if traits := g.sublist("HW_CPU_X86_VMX", "CUSTOM_T", "CUSTOM_U", "MISC_SHARES_VIA_AGGREGATE"); len(traits) > 0 {
			g.play(Latest, "PUT", "/resource_providers/"+rp+"/traits",
				fmt.Sprintf(`{"resource_provider_generation": %s.gen, "traits": %s}`, rp, quoted(traits)))
		}
		if aggregates := g.sublist("$agga", "$aggb"); len(aggregates) > 0 {
			g.play(Latest, "PUT", "/resource_providers/"+rp+"/aggregates",
				fmt.Sprintf(`{"resource_provider_generation": %s.gen, "aggregates": %s}`, rp, quoted(aggregates)))
		}
	}
	for range g.number(0, 2) {
		g.putAllocations()
	}
}

// candidates compares one query for candidates.
func (g *randomRun) candidates() {
	v := g.version()
	suffixes := []string{"", "1", "2", "_A"}
	var parts, used []string
	for _, suffix := range suffixes {
		if !g.oneIn(2) {
			continue
		}
		used = append(used, suffix)
		parts = append(parts, g.group(suffix)...)
	}
	if len(used) == 0 {
		parts = g.group("")
	}
	if g.oneIn(2) || len(used) > 1 && !g.oneIn(10) {
		parts = append(parts, "group_policy="+g.choose("none", "isolate"))
	}
	if g.oneIn(8) {
		parts = append(parts, query("root_required", g.choose("", "!")+g.trait()))
	}
	suffixed := slices.DeleteFunc(slices.Clone(used), func(s string) bool { return s == "" })
	if g.oneIn(3) && len(suffixed) > 1 {
		parts = append(parts, "same_subtree="+strings.Join(suffixed, ","))
	}
	if g.oneIn(5) {
		parts = append(parts, fmt.Sprintf("limit=%d", g.number(1, 4)))
	}
	g.play(v, "GET", "/allocation_candidates?"+strings.Join(parts, "&"), "")
}

// group returns the parameters of one request group, sometimes without resources.
func (g *randomRun) group(suffix string) (parts []string) {
	var list []string
	for _, class := range []string{"VCPU", "MEMORY_MB", "CUSTOM_X"} {
		if g.oneIn(3) {
			list = append(list, fmt.Sprintf("%s:%d", class, g.number(1, g.number(1, 3))))
		}
	}
	if len(list) == 0 && !g.oneIn(12) {
		list = []string{g.class() + ":1"}
	}
	if len(list) > 0 {
		parts = append(parts, "resources"+suffix+"="+strings.Join(list, ","))
	}
	if g.oneIn(5) || len(list) == 0 {
		parts = append(parts, query("required"+suffix, g.required()))
	}
	if g.oneIn(5) {
		parts = append(parts, "member_of"+suffix+"="+g.memberOf())
	}
	if g.oneIn(12) {
		parts = append(parts, "in_tree"+suffix+"="+g.rp())
	}
	return parts
}
