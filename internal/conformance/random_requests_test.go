package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// randomRun is a random sequence that is played on a pair.
type randomRun struct {
	chooser
	w              *world
	hasAllocations map[string]bool // consumers that have allocations
	renames        map[string]int  // how often a consumer got a new name
	mutates        bool            // some bodies are changed by mutate
	ended          bool            // the servers differ as a newer rule allows; no more requests are sent
	log            []string        // the requests so far, with names instead of UUIDs
}

// consumer returns the current name of a consumer. After some refused claims and after empty claims the original keeps
// the consumer, with generation 0, and Berth does not. So a consumer without allocations after a claim gets a new name.
func (g *randomRun) consumer(i int) string {
	base := fmt.Sprintf("$c%d", i)
	return fmt.Sprintf("%sx%d", base, g.renames[base])
}

// play sends one request to both servers and fails the test if the answers differ. It returns the original's status.
func (g *randomRun) play(v int, method, target, body string, headers ...Header) int {
	if g.ended {
		return g.w.lastStatus
	}
	if body != "" && g.mutates && g.oneIn(6) {
		body = g.mutate(body)
	}
	step := Step{Method: method, Target: target, Body: body, HasBody: body != "", Headers: headers, To: Latest}
	if err := g.w.step(step, v); err != nil {
		g.t.Fatal(err)
	}
	g.log = append(g.log, fmt.Sprintf("%s %s @%s → %d", method, target, step.at(v), g.w.lastStatus))
	if body != "" {
		g.log[len(g.log)-1] += "\n| " + body
	}
	for _, f := range g.w.findings {
		if newer, err := g.w.pair.acceptsOverCapacity(f); err != nil {
			g.t.Fatal(err)
		} else if newer {
			g.ended = true
			overCapacity.Add(1)
			return g.w.lastStatus
		}
		g.t.Fatalf("%s\nPrevious requests:\n%s", f, strings.Join(g.log, "\n"))
	}
	return g.w.lastStatus
}

// claim plays a request with claims and records the consumers. has contains the consumers of the request, and whether
// they have allocations if it succeeds.
func (g *randomRun) claim(v int, method, target, body string, has map[string]bool) {
	status := g.play(v, method, target, body)
	for consumer, some := range has {
		if !g.hasAllocations[consumer] && (status >= 300 || !some) {
			base, _, _ := strings.Cut(consumer, "x")
			g.renames[base]++
			continue
		}
		if status < 300 {
			g.hasAllocations[consumer] = some
		}
	}
}

func newRandomRun(t *rapid.T, pair *Pair) *randomRun {
	if err := pair.Reset(); err != nil {
		t.Fatal(err)
	}
	d := chooser{t}
	// A new name for each world, so that consumers that the original keeps do not affect the next world.
	return &randomRun{chooser: d, w: newWorld(pair, "random", fmt.Sprint("random", worldCount.Add(1))),
		hasAllocations: map[string]bool{},
		renames:        map[string]int{}}
}

// overCapacity counts the random runs that end with a claim that only Berth accepts; see acceptsOverCapacity.
var overCapacity atomic.Int64

func TestRandomRequests(t *testing.T) {
	t.Parallel()
	t.Cleanup(func() {
		t.Logf("%d runs ended with a claim above the capacity, which only newer releases accept", overCapacity.Load())
	})
	pair := takePair(t)
	rapid.Check(t, func(t *rapid.T) {
		playRandomRequests(newRandomRun(t, pair))
	})
}

// playRandomRequests plays random requests, and then reads of what they may have changed.
func playRandomRequests(g *randomRun) {
	g.mutates = g.oneIn(2)
	for range g.number(10, 30) {
		randomRequests[g.number(0, len(randomRequests)-1)](g)
	}
	g.play(Latest, "GET", "/resource_providers", "")
	for i := range 5 {
		rp := fmt.Sprintf("/resource_providers/$rp%d", i)
		for _, part := range []string{"/inventories", "/usages", "/allocations", "/traits", "/aggregates"} {
			if g.play(Latest, "GET", rp+part, "") == http.StatusNotFound {
				break // there is no such provider
			}
		}
	}
}

// randomRequests contains all kinds of requests. Frequent ones are repeated.
var randomRequests = []func(*randomRun){
	(*randomRun).createProvider, (*randomRun).createProvider, (*randomRun).createProvider, (*randomRun).changeProvider,
	(*randomRun).deleteProvider,
	(*randomRun).listProviders,
	(*randomRun).replaceInventories, (*randomRun).replaceInventories, (*randomRun).replaceInventories,
	(*randomRun).oneInventory,
	(*randomRun).deleteInventory,
	(*randomRun).providerTraits, (*randomRun).providerTraits, (*randomRun).aggregates, (*randomRun).aggregates,
	(*randomRun).customName, (*randomRun).customName,
	(*randomRun).putAllocations, (*randomRun).putAllocations, (*randomRun).putAllocations, (*randomRun).putAllocations,
	(*randomRun).postAllocations, (*randomRun).deleteAllocations,
	(*randomRun).reshape, (*randomRun).usages, (*randomRun).show, (*randomRun).askCandidates, (*randomRun).askCandidates,
}

// askCandidates compares a query for candidates. In half of the cases all names in it exist.
func (g *randomRun) askCandidates() {
	if g.oneIn(2) {
		g.createNames()
	}
	g.candidates()
}

func (g *randomRun) createNames() {
	for _, target := range []string{"/traits/CUSTOM_T", "/traits/CUSTOM_U", "/resource_classes/CUSTOM_X"} {
		g.play(Latest, "PUT", target, "")
	}
}

func (g *randomRun) createProvider() {
	rp := g.rp()
	parent := ""
	if g.oneIn(2) {
		parent = fmt.Sprintf(`, "parent_provider_uuid": %s`, g.choose(`"`+g.rp()+`"`, `"`+g.rp()+`"`, "null", `"x"`))
	}
	v := Latest
	if g.oneIn(4) {
		v = g.version()
	}
	g.play(v, "POST", "/resource_providers", fmt.Sprintf(`{"name": "n%d", "uuid": "%s"%s}`, g.number(0, 6), rp, parent))
}

func (g *randomRun) changeProvider() {
	parent := ""
	if g.oneIn(2) {
		parent = fmt.Sprintf(`, "parent_provider_uuid": %s`, g.choose(`"`+g.rp()+`"`, "null"))
	}
	g.play(g.version(), "PUT", "/resource_providers/"+g.rp(), fmt.Sprintf(`{"name": "n%d"%s}`, g.number(0, 6), parent))
}

func (g *randomRun) deleteProvider() {
	g.play(g.version(), "DELETE", "/resource_providers/"+g.rp(), "")
}

func (g *randomRun) listProviders() {
	var parts []string
	add := func(key, value string) { parts = append(parts, query(key, value)) }
	if g.oneIn(6) {
		add("name", fmt.Sprintf("n%d", g.number(0, 6)))
	}
	if g.oneIn(3) {
		parts = append(parts, "in_tree="+g.rp())
	}
	if g.oneIn(2) {
		add("required", g.required())
	}
	if g.oneIn(2) {
		parts = append(parts, "member_of="+g.memberOf())
	}
	if g.oneIn(2) {
		add("resources", fmt.Sprintf("%s:%d", g.class(), g.number(0, 6)))
	}
	if g.oneIn(2) {
		g.createNames()
	}
	g.play(g.version(), "GET", "/resource_providers?"+strings.Join(parts, "&"), "")
}

func (g *randomRun) inventory() string {
	fields := []string{fmt.Sprintf(`"total": %d`, g.number(1, 8))}
	if g.oneIn(12) {
		fields[0] = `"total": ` + g.choose("0", "-1", `"4"`)
	}
	for _, f := range []string{"reserved", "min_unit", "max_unit", "step_size"} {
		if g.oneIn(4) {
			fields = append(fields, fmt.Sprintf(`"%s": %d`, f, g.number(0, 4)))
		}
	}
	if g.oneIn(3) {
		fields = append(fields, `"allocation_ratio": `+g.choose("1.0", "1.5", "2.0", "0.5", "16.0"))
	}
	return strings.Join(fields, ", ")
}

func (g *randomRun) inventories() string {
	var list []string
	for _, class := range g.sublist("VCPU", "MEMORY_MB", "CUSTOM_X", "VCPU") {
		list = append(list, fmt.Sprintf(`"%s": {%s}`, class, g.inventory()))
	}
	return "{" + strings.Join(list, ", ") + "}"
}

func (g *randomRun) replaceInventories() {
	rp := g.rp()
	g.play(g.version(), "PUT", "/resource_providers/"+rp+"/inventories",
		fmt.Sprintf(`{"resource_provider_generation": %s, "inventories": %s}`, g.generation(rp), g.inventories()))
}

func (g *randomRun) oneInventory() {
	rp, class := g.rp(), g.class()
	if g.oneIn(2) {
		g.play(g.version(), "POST", "/resource_providers/"+rp+"/inventories", fmt.Sprintf(`{"resource_class": "%s", %s}`,
			class, g.inventory()))
		return
	}
	g.play(g.version(), "PUT", "/resource_providers/"+rp+"/inventories/"+class,
		fmt.Sprintf(`{"resource_provider_generation": %s, %s}`, g.generation(rp), g.inventory()))
}

func (g *randomRun) deleteInventory() {
	g.play(g.version(), "DELETE", "/resource_providers/"+g.rp()+"/inventories"+g.choose("", "/VCPU", "/CUSTOM_X"), "")
}

func (g *randomRun) providerTraits() {
	rp := g.rp()
	if g.oneIn(6) {
		g.play(g.version(), "DELETE", "/resource_providers/"+rp+"/traits", "")
		return
	}
	g.play(g.version(), "PUT", "/resource_providers/"+rp+"/traits",
		fmt.Sprintf(`{"resource_provider_generation": %s, "traits": %s}`,
			g.generation(rp), quoted(g.sublist("HW_CPU_X86_VMX", "CUSTOM_T", "MISC_SHARES_VIA_AGGREGATE", "CUSTOM_U"))))
}

func (g *randomRun) aggregates() {
	rp, v, list := g.rp(), g.version(), quoted(g.sublist("$agga", "$aggb"))
	if v < 19 {
		g.play(v, "PUT", "/resource_providers/"+rp+"/aggregates", list)
		return
	}
	g.play(v, "PUT", "/resource_providers/"+rp+"/aggregates",
		fmt.Sprintf(`{"resource_provider_generation": %s, "aggregates": %s}`, g.generation(rp), list))
}

func (g *randomRun) customName() {
	v := Latest
	switch g.number(0, 6) {
	case 0, 1:
		g.play(v, "PUT", "/traits/"+g.choose("CUSTOM_T", "CUSTOM_U"), "")
	case 2:
		g.play(v, "DELETE", "/traits/"+g.trait(), "")
	case 3, 4:
		g.play(v, "PUT", "/resource_classes/"+g.choose("CUSTOM_X", "CUSTOM_X", "VCPU"), "")
	case 5:
		g.play(v, "DELETE", "/resource_classes/CUSTOM_X", "")
	case 6:
		g.play(g.version(), "GET", "/"+g.choose("traits?name=startswith:CUSTOM", "resource_classes/CUSTOM_X",
			"traits?associated=true"), "")
	}
}

func (g *randomRun) resources() string {
	var list []string
	for _, class := range []string{"VCPU", "MEMORY_MB", "CUSTOM_X"} {
		if g.oneIn(2) {
			list = append(list, fmt.Sprintf(`"%s": %d`, class, g.number(1, 5)))
		}
	}
	if len(list) == 0 {
		list = []string{`"VCPU": 1`}
	}
	return "{" + strings.Join(list, ", ") + "}"
}

// allocation returns the claim of one consumer in the form of a microversion. some reports whether it is not empty.
func (g *randomRun) allocation(consumer string, v int) (body string, some bool) {
	taken := map[string]bool{}
	var list []string
	for range g.number(0, 2) {
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
		body += fmt.Sprintf(`, "project_id": "p%d", "user_id": "u%d"`, g.number(0, 1), g.number(0, 1))
	}
	if v >= 28 {
		generation := consumer + ".cgen"
		if g.oneIn(8) {
			generation = g.choose("null", "0", "7")
		}
		body += `, "consumer_generation": ` + generation
	}
	if v >= 38 {
		body += `, "consumer_type": "` + g.choose("INSTANCE", "INSTANCE", "MIGRATION", "bad type") + `"`
	}
	return "{" + body + "}", len(list) > 0
}

func (g *randomRun) putAllocations() {
	v, consumer := g.version(), g.consumer(g.number(0, 2))
	body, some := g.allocation(consumer, v)
	g.claim(v, "PUT", "/allocations/"+consumer, body, map[string]bool{consumer: some})
}

// allocationsOf returns the claims of one or two consumers, and which of them are not empty.
func (g *randomRun) allocationsOf(v int) (body string, has map[string]bool) {
	has = map[string]bool{}
	var list []string
	for range g.number(1, 2) {
		consumer := g.consumer(g.number(0, 2))
		if _, twice := has[consumer]; twice {
			continue
		}
		one, some := g.allocation(consumer, v)
		has[consumer] = some
		list = append(list, fmt.Sprintf(`"%s": %s`, consumer, one))
	}
	return "{" + strings.Join(list, ", ") + "}", has
}

func (g *randomRun) postAllocations() {
	v := max(13, g.version())
	body, has := g.allocationsOf(v)
	g.claim(v, "POST", "/allocations", body, has)
}

func (g *randomRun) deleteAllocations() {
	consumer := g.consumer(g.number(0, 2))
	if g.play(g.version(), "DELETE", "/allocations/"+consumer, "") < 300 {
		g.hasAllocations[consumer] = false
	}
}

func (g *randomRun) reshape() {
	v := max(30, g.version())
	var inventories []string
	taken := map[string]bool{}
	for range g.number(1, 2) {
		rp := g.rp()
		if !taken[rp] {
			taken[rp] = true
			inventories = append(inventories, fmt.Sprintf(`"%s": {"resource_provider_generation": %s, "inventories": %s}`, rp,
				g.generation(rp), g.inventories()))
		}
	}
	body, has := g.allocationsOf(v)
	if g.oneIn(3) {
		body, has = "{}", nil
	}
	g.claim(v, "POST", "/reshaper", fmt.Sprintf(`{"inventories": {%s}, "allocations": %s}`, strings.Join(inventories,
		", "), body), has)
}

func (g *randomRun) usages() {
	g.play(g.version(), "GET", "/usages?project_id=p"+g.choose("0", "1")+g.choose("", "&user_id=u0",
		"&consumer_type=INSTANCE",
		"&consumer_type=all", "&consumer_type=unknown"), "")
}

func (g *randomRun) show() {
	switch g.number(0, 2) {
	case 0:
		g.play(g.version(), "GET", "/allocations/"+g.consumer(g.number(0, 2)), "")
	default:
		g.play(g.version(), "GET", "/resource_providers/"+g.rp()+g.choose("", "/inventories", "/usages", "/allocations",
			"/traits", "/aggregates", "/inventories/VCPU"), "")
	}
}
