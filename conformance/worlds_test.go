package conformance

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// worlds numbers the random worlds.
var worlds atomic.Int64

// TestRandomCandidates asks for candidates in random worlds of nested trees, shared providers, traits, aggregates and
// claims.
func TestRandomCandidates(t *testing.T) {
	t.Parallel()
	pair := borrow(t)
	rapid.Check(t, func(t *rapid.T) {
		g := newGame(t, pair)
		g.build()
		for range 12 {
			g.candidates()
		}
	})
}

// build makes a world: up to five providers, each alone or below an earlier one.
func (g *game) build() {
	g.standard()
	for i := range g.n(1, 6) {
		rp, parent := fmt.Sprintf("$rp%d", i), "null"
		if i > 0 && !g.in(3) {
			parent = fmt.Sprintf(`"$rp%d"`, g.n(0, i-1))
		}
		g.play(Latest, "POST", "/resource_providers", fmt.Sprintf(`{"name": "n%d", "uuid": "%s", "parent_provider_uuid": %s}`,
			i, rp, parent))
		var list []string
		for _, class := range []string{"VCPU", "MEMORY_MB", "CUSTOM_X"} {
			if g.in(2) {
				list = append(list, fmt.Sprintf(`"%s": {"total": %d, "reserved": %d, "step_size": %d}`, class, g.n(3, 9), g.n(0, 2),
					g.n(1, g.n(1, 2))))
			}
		}
		g.play(Latest, "PUT", "/resource_providers/"+rp+"/inventories",
			fmt.Sprintf(`{"resource_provider_generation": %s.gen, "inventories": {%s}}`, rp, strings.Join(list, ", ")))
		if traits := g.some("HW_CPU_X86_VMX", "CUSTOM_T", "CUSTOM_U", "MISC_SHARES_VIA_AGGREGATE"); len(traits) > 0 {
			g.play(Latest, "PUT", "/resource_providers/"+rp+"/traits",
				fmt.Sprintf(`{"resource_provider_generation": %s.gen, "traits": %s}`, rp, quoted(traits)))
		}
		if aggregates := g.some("$agga", "$aggb"); len(aggregates) > 0 {
			g.play(Latest, "PUT", "/resource_providers/"+rp+"/aggregates",
				fmt.Sprintf(`{"resource_provider_generation": %s.gen, "aggregates": %s}`, rp, quoted(aggregates)))
		}
	}
	for range g.n(0, 2) {
		g.putAllocations()
	}
}

// candidates asks for candidates.
func (g *game) candidates() {
	v := g.version()
	suffixes := []string{"", "1", "2", "_A"}
	var parts, asked []string
	for _, suffix := range suffixes {
		if !g.in(2) {
			continue
		}
		asked = append(asked, suffix)
		parts = append(parts, g.group(suffix)...)
	}
	if len(asked) == 0 {
		parts = g.group("")
	}
	if g.in(2) || len(asked) > 1 && !g.in(10) {
		parts = append(parts, "group_policy="+g.of("none", "isolate"))
	}
	if g.in(8) {
		parts = append(parts, query("root_required", g.of("", "!")+g.trait()))
	}
	numbered := slices.DeleteFunc(slices.Clone(asked), func(s string) bool { return s == "" })
	if g.in(3) && len(numbered) > 1 {
		parts = append(parts, "same_subtree="+strings.Join(numbered, ","))
	}
	if g.in(5) {
		parts = append(parts, fmt.Sprintf("limit=%d", g.n(1, 4)))
	}
	g.play(v, "GET", "/allocation_candidates?"+strings.Join(parts, "&"), "")
}

// group is the parameters of one request group, sometimes without resources.
func (g *game) group(suffix string) (parts []string) {
	var list []string
	for _, class := range []string{"VCPU", "MEMORY_MB", "CUSTOM_X"} {
		if g.in(3) {
			list = append(list, fmt.Sprintf("%s:%d", class, g.n(1, g.n(1, 3))))
		}
	}
	if len(list) == 0 && !g.in(12) {
		list = []string{g.class() + ":1"}
	}
	if len(list) > 0 {
		parts = append(parts, "resources"+suffix+"="+strings.Join(list, ","))
	}
	if g.in(5) || len(list) == 0 {
		parts = append(parts, query("required"+suffix, g.required()))
	}
	if g.in(5) {
		parts = append(parts, "member_of"+suffix+"="+g.memberOf())
	}
	if g.in(12) {
		parts = append(parts, "in_tree"+suffix+"="+g.rp())
	}
	return parts
}
