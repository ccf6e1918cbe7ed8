package conformance

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// query makes a query string of keys and values, in order.
func query(pairs ...string) string {
	var parts []string
	for i := 0; i < len(pairs); i += 2 {
		parts = append(parts, pairs[i]+"="+url.QueryEscape(pairs[i+1]))
	}
	return strings.Join(parts, "&")
}

// die is where random choices come from.
type die struct{ t *rapid.T }

// n draws a number. Rapid prefers small ones, which would make most worlds empty and most queries wrong; so its numbers
// are spread out. Nought stays nought, so that shrinking ends at from.
func (d die) n(from, to int) int {
	spread := rapid.Uint32().Draw(d.t, "n") * 2654435769 // Knuth's multiplier
	return from + int(uint64(spread)*uint64(to-from+1)>>32)
}

func (d die) in(many int) bool         { return d.n(1, many) == many } // once in many
func (d die) of(list ...string) string { return list[d.n(0, len(list)-1)] }

// some draws a sublist, perhaps an empty one.
func (d die) some(list ...string) (out []string) {
	for _, s := range list {
		if d.in(3) {
			out = append(out, s)
		}
	}
	return out
}

func (d die) class() string { return d.of("VCPU", "MEMORY_MB", "CUSTOM_X") }
func (d die) trait() string { return d.of("HW_CPU_X86_VMX", "CUSTOM_T", "CUSTOM_U") }
func (d die) agg() string   { return d.of("$agga", "$aggb") }
func (d die) rp() string    { return fmt.Sprintf("$rp%d", d.n(0, 4)) }

// version draws a microversion, mostly the newest.
func (d die) version() int {
	if d.in(3) {
		return d.n(0, Latest)
	}
	return Latest
}

// gen is the generation of a provider, and sometimes a wrong one.
func (d die) gen(rp string) string {
	if d.in(8) {
		return d.of("0", "1", "99", `"x"`, "null")
	}
	return rp + ".gen"
}

func quoted(list []string) string {
	if len(list) == 0 {
		return "[]"
	}
	return `["` + strings.Join(list, `", "`) + `"]`
}

// game is a random sequence being played.
type game struct {
	die
	w     *world
	live  map[string]bool // consumers that have allocations
	names map[string]int  // how often a consumer had to take a new name
	wild  bool            // bodies are wrong now and then
	log   []string        // what was asked so far, with names for UUIDs
}

// consumer is the name that a consumer has now. The original leaves behind consumers that it made for some claims that
// were refused, and for claims of nothing; they count as existing, with generation 0. Berth leaves none. So who has
// nothing after a claim takes a new name.
func (g *game) consumer(i int) string {
	base := fmt.Sprintf("$c%d", i)
	return fmt.Sprintf("%sx%d", base, g.names[base])
}

// play sends one request to both and fails the test if they disagree. It returns the original's status.
func (g *game) play(v int, method, target, body string, headers ...Header) int {
	if body != "" && g.wild && g.in(6) {
		body = g.mutate(body)
	}
	step := Step{Method: method, Target: target, Body: body, HasBody: body != "", Headers: headers, To: Latest}
	if err := g.w.step(step, v); err != nil {
		g.t.Fatal(err)
	}
	g.log = append(g.log, fmt.Sprintf("%s %s @%s → %d", method, target, step.at(v), g.w.last))
	if body != "" {
		g.log[len(g.log)-1] += "\n| " + body
	}
	for _, f := range g.w.findings {
		g.t.Fatalf("%s\nWhat led there:\n%s", f, strings.Join(g.log, "\n"))
	}
	return g.w.last
}

// claim plays a request that claims for consumers, and keeps account of them. has says which will have allocations if
// it succeeds.
func (g *game) claim(v int, method, target, body string, has map[string]bool) {
	status := g.play(v, method, target, body)
	for consumer, some := range has {
		if !g.live[consumer] && (status >= 300 || !some) {
			base, _, _ := strings.Cut(consumer, "x")
			g.names[base]++
			continue
		}
		if status < 300 {
			g.live[consumer] = some
		}
	}
}

func newGame(t *rapid.T, pair *Pair) *game {
	if err := pair.Reset(); err != nil {
		t.Fatal(err)
	}
	d := die{t}
	// Another world each time: what the original forgets of one must not be found in the next.
	return &game{die: d, w: newWorld(pair, "random", fmt.Sprint("random", worlds.Add(1))), live: map[string]bool{},
		names: map[string]int{}}
}

func TestRandomRequests(t *testing.T) {
	t.Parallel()
	pair := borrow(t)
	rapid.Check(t, func(t *rapid.T) {
		g := newGame(t, pair)
		g.wild = g.in(2)
		for range g.n(10, 30) {
			moves[g.n(0, len(moves)-1)](g)
		}
		g.play(Latest, "GET", "/resource_providers", "")
		for i := range 5 {
			rp := fmt.Sprintf("/resource_providers/$rp%d", i)
			for _, part := range []string{"/inventories", "/usages", "/allocations", "/traits", "/aggregates"} {
				g.play(Latest, "GET", rp+part, "")
			}
		}
	})
}

// moves are the kinds of request. What is frequent stands more often.
var moves = []func(*game){
	(*game).createProvider, (*game).createProvider, (*game).createProvider, (*game).changeProvider, (*game).deleteProvider,
	(*game).listProviders,
	(*game).replaceInventories, (*game).replaceInventories, (*game).replaceInventories, (*game).oneInventory,
	(*game).deleteInventory,
	(*game).providerTraits, (*game).providerTraits, (*game).aggregates, (*game).aggregates, (*game).name, (*game).name,
	(*game).putAllocations, (*game).putAllocations, (*game).putAllocations, (*game).putAllocations,
	(*game).postAllocations, (*game).deleteAllocations,
	(*game).reshape, (*game).usages, (*game).look, (*game).ask, (*game).ask,
}

// ask asks for candidates, half of the time by names that exist.
func (g *game) ask() {
	if g.in(2) {
		g.standard()
	}
	g.candidates()
}

func (g *game) standard() {
	for _, target := range []string{"/traits/CUSTOM_T", "/traits/CUSTOM_U", "/resource_classes/CUSTOM_X"} {
		g.play(Latest, "PUT", target, "")
	}
}

func (g *game) createProvider() {
	rp := g.rp()
	parent := ""
	if g.in(2) {
		parent = fmt.Sprintf(`, "parent_provider_uuid": %s`, g.of(`"`+g.rp()+`"`, `"`+g.rp()+`"`, "null", `"x"`))
	}
	v := Latest
	if g.in(4) {
		v = g.version()
	}
	g.play(v, "POST", "/resource_providers", fmt.Sprintf(`{"name": "n%d", "uuid": "%s"%s}`, g.n(0, 6), rp, parent))
}

func (g *game) changeProvider() {
	parent := ""
	if g.in(2) {
		parent = fmt.Sprintf(`, "parent_provider_uuid": %s`, g.of(`"`+g.rp()+`"`, "null"))
	}
	g.play(g.version(), "PUT", "/resource_providers/"+g.rp(), fmt.Sprintf(`{"name": "n%d"%s}`, g.n(0, 6), parent))
}

func (g *game) deleteProvider() { g.play(g.version(), "DELETE", "/resource_providers/"+g.rp(), "") }

func (g *game) listProviders() {
	var parts []string
	add := func(key, value string) { parts = append(parts, query(key, value)) }
	if g.in(6) {
		add("name", fmt.Sprintf("n%d", g.n(0, 6)))
	}
	if g.in(3) {
		parts = append(parts, "in_tree="+g.rp())
	}
	if g.in(2) {
		add("required", g.required())
	}
	if g.in(2) {
		parts = append(parts, "member_of="+g.memberOf())
	}
	if g.in(2) {
		add("resources", fmt.Sprintf("%s:%d", g.class(), g.n(0, 6)))
	}
	if g.in(2) {
		g.standard()
	}
	g.play(g.version(), "GET", "/resource_providers?"+strings.Join(parts, "&"), "")
}

func (d die) required() string {
	switch d.n(0, 4) {
	case 0:
		return "!" + d.trait()
	case 1:
		return d.trait() + ",!" + d.trait()
	case 2:
		return "in:" + d.trait() + "," + d.trait()
	case 3:
		return d.trait() + "," + d.trait()
	}
	return d.trait()
}

func (d die) memberOf() string {
	if d.in(10) {
		return d.agg() + "," + d.agg()
	}
	return d.of("", "", "!", "in:", "!in:", "in:"+d.agg()+",", "!in:"+d.agg()+",") + d.agg()
}

func (g *game) inventory() string {
	fields := []string{fmt.Sprintf(`"total": %d`, g.n(1, 8))}
	if g.in(12) {
		fields[0] = `"total": ` + g.of("0", "-1", `"4"`)
	}
	for _, f := range []string{"reserved", "min_unit", "max_unit", "step_size"} {
		if g.in(4) {
			fields = append(fields, fmt.Sprintf(`"%s": %d`, f, g.n(0, 4)))
		}
	}
	if g.in(3) {
		fields = append(fields, `"allocation_ratio": `+g.of("1.0", "1.5", "2.0", "0.5", "16.0"))
	}
	return strings.Join(fields, ", ")
}

func (g *game) inventories() string {
	var list []string
	for _, class := range g.some("VCPU", "MEMORY_MB", "CUSTOM_X", "VCPU") {
		list = append(list, fmt.Sprintf(`"%s": {%s}`, class, g.inventory()))
	}
	return "{" + strings.Join(list, ", ") + "}"
}

func (g *game) replaceInventories() {
	rp := g.rp()
	g.play(g.version(), "PUT", "/resource_providers/"+rp+"/inventories",
		fmt.Sprintf(`{"resource_provider_generation": %s, "inventories": %s}`, g.gen(rp), g.inventories()))
}

func (g *game) oneInventory() {
	rp, class := g.rp(), g.class()
	if g.in(2) {
		g.play(g.version(), "POST", "/resource_providers/"+rp+"/inventories", fmt.Sprintf(`{"resource_class": "%s", %s}`,
			class, g.inventory()))
		return
	}
	g.play(g.version(), "PUT", "/resource_providers/"+rp+"/inventories/"+class,
		fmt.Sprintf(`{"resource_provider_generation": %s, %s}`, g.gen(rp), g.inventory()))
}

func (g *game) deleteInventory() {
	g.play(g.version(), "DELETE", "/resource_providers/"+g.rp()+"/inventories"+g.of("", "/VCPU", "/CUSTOM_X"), "")
}

func (g *game) providerTraits() {
	rp := g.rp()
	if g.in(6) {
		g.play(g.version(), "DELETE", "/resource_providers/"+rp+"/traits", "")
		return
	}
	g.play(g.version(), "PUT", "/resource_providers/"+rp+"/traits",
		fmt.Sprintf(`{"resource_provider_generation": %s, "traits": %s}`,
			g.gen(rp), quoted(g.some("HW_CPU_X86_VMX", "CUSTOM_T", "MISC_SHARES_VIA_AGGREGATE", "CUSTOM_U"))))
}

func (g *game) aggregates() {
	rp, v, list := g.rp(), g.version(), quoted(g.some("$agga", "$aggb"))
	if v < 19 {
		g.play(v, "PUT", "/resource_providers/"+rp+"/aggregates", list)
		return
	}
	g.play(v, "PUT", "/resource_providers/"+rp+"/aggregates",
		fmt.Sprintf(`{"resource_provider_generation": %s, "aggregates": %s}`, g.gen(rp), list))
}

func (g *game) name() {
	v := Latest
	switch g.n(0, 6) {
	case 0, 1:
		g.play(v, "PUT", "/traits/"+g.of("CUSTOM_T", "CUSTOM_U"), "")
	case 2:
		g.play(v, "DELETE", "/traits/"+g.trait(), "")
	case 3, 4:
		g.play(v, "PUT", "/resource_classes/"+g.of("CUSTOM_X", "CUSTOM_X", "VCPU"), "")
	case 5:
		g.play(v, "DELETE", "/resource_classes/CUSTOM_X", "")
	case 6:
		g.play(g.version(), "GET", "/"+g.of("traits?name=startswith:CUSTOM", "resource_classes/CUSTOM_X",
			"traits?associated=true"), "")
	}
}

func (g *game) resources() string {
	var list []string
	for _, class := range []string{"VCPU", "MEMORY_MB", "CUSTOM_X"} {
		if g.in(2) {
			list = append(list, fmt.Sprintf(`"%s": %d`, class, g.n(1, 5)))
		}
	}
	if len(list) == 0 {
		list = []string{`"VCPU": 1`}
	}
	return "{" + strings.Join(list, ", ") + "}"
}

// allocation is what one consumer asks for, as it is written at a microversion. some says whether it is anything.
func (g *game) allocation(consumer string, v int) (body string, some bool) {
	taken := map[string]bool{}
	var list []string
	for range g.n(0, 2) {
		rp := g.rp()
		if taken[rp] {
			continue
		}
		taken[rp] = true
		if v < 12 {
			list = append(list, fmt.Sprintf(`{"resource_provider": {"uuid": "%s"}, "resources": %s}`, rp, g.resources()))
		} else {
			list = append(list, fmt.Sprintf(`"%s": {"resources": %s}`, rp, g.resources()))
		}
	}
	body = `"allocations": {` + strings.Join(list, ", ") + "}"
	if v < 12 {
		body = `"allocations": [` + strings.Join(list, ", ") + "]"
	}
	if v >= 8 {
		body += fmt.Sprintf(`, "project_id": "p%d", "user_id": "u%d"`, g.n(0, 1), g.n(0, 1))
	}
	if v >= 28 {
		generation := consumer + ".cgen"
		if g.in(8) {
			generation = g.of("null", "0", "7")
		}
		body += `, "consumer_generation": ` + generation
	}
	if v >= 38 {
		body += `, "consumer_type": "` + g.of("INSTANCE", "INSTANCE", "MIGRATION", "bad type") + `"`
	}
	return "{" + body + "}", len(list) > 0
}

func (g *game) putAllocations() {
	v, consumer := g.version(), g.consumer(g.n(0, 2))
	body, some := g.allocation(consumer, v)
	g.claim(v, "PUT", "/allocations/"+consumer, body, map[string]bool{consumer: some})
}

// several is allocations of one or two consumers.
func (g *game) several(v int) (body string, has map[string]bool) {
	has = map[string]bool{}
	var list []string
	for range g.n(1, 2) {
		consumer := g.consumer(g.n(0, 2))
		if _, twice := has[consumer]; twice {
			continue
		}
		one, some := g.allocation(consumer, v)
		has[consumer] = some
		list = append(list, fmt.Sprintf(`"%s": %s`, consumer, one))
	}
	return "{" + strings.Join(list, ", ") + "}", has
}

func (g *game) postAllocations() {
	v := max(13, g.version())
	body, has := g.several(v)
	g.claim(v, "POST", "/allocations", body, has)
}

func (g *game) deleteAllocations() {
	consumer := g.consumer(g.n(0, 2))
	if g.play(g.version(), "DELETE", "/allocations/"+consumer, "") < 300 {
		g.live[consumer] = false
	}
}

func (g *game) reshape() {
	v := max(30, g.version())
	var inventories []string
	taken := map[string]bool{}
	for range g.n(1, 2) {
		rp := g.rp()
		if !taken[rp] {
			taken[rp] = true
			inventories = append(inventories, fmt.Sprintf(`"%s": {"resource_provider_generation": %s, "inventories": %s}`, rp,
				g.gen(rp), g.inventories()))
		}
	}
	body, has := g.several(v)
	if g.in(3) {
		body, has = "{}", nil
	}
	g.claim(v, "POST", "/reshaper", fmt.Sprintf(`{"inventories": {%s}, "allocations": %s}`, strings.Join(inventories,
		", "), body), has)
}

func (g *game) usages() {
	g.play(g.version(), "GET", "/usages?project_id=p"+g.of("0", "1")+g.of("", "&user_id=u0", "&consumer_type=INSTANCE",
		"&consumer_type=all", "&consumer_type=unknown"), "")
}

func (g *game) look() {
	switch g.n(0, 2) {
	case 0:
		g.play(g.version(), "GET", "/allocations/"+g.consumer(g.n(0, 2)), "")
	default:
		g.play(g.version(), "GET", "/resource_providers/"+g.rp()+g.of("", "/inventories", "/usages", "/allocations",
			"/traits", "/aggregates", "/inventories/VCPU"), "")
	}
}
