package groupfilter

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Table is the name of both tables, one of family bridge and one of family inet.
const Table = "berth_groups"

// set is a set or a map of a table. Elements are in nft's syntax; the value of a set's element is empty.
type set struct {
	definition string // such as "type ipv4_addr; flags interval;"
	isMap      bool
	elements   map[string]string
}

// table is one table: its sets and its chains, by name. The rules of a chain begin with those of its hook, if it has
// one.
type table struct {
	sets   map[string]*set
	chains map[string][]string
	hooks  map[string]string
}

// Ruleset is the complete content of Berth's tables.
type Ruleset struct{ bridge, inet table }

func newTable() table {
	return table{map[string]*set{}, map[string][]string{}, map[string]string{}}
}

func (r Ruleset) tables() []struct {
	name string
	table
} {
	return []struct {
		name string
		table
	}{{"bridge " + Table, r.bridge}, {"inet " + Table, r.inet}}
}

// versionChain is the prefix of the name of an empty chain of each table, which has the digest of the ruleset. So the
// lists of chains show whether a kernel has the ruleset.
const versionChain = "version-"

// Version returns the name of the chain that a kernel with this ruleset has in both tables.
func (r Ruleset) Version() string {
	sum := sha256.Sum256([]byte(r.body()))
	return versionChain + hex.EncodeToString(sum[:12])
}

// Text returns the commands that replace Berth's tables by this ruleset, in one transaction.
func (r Ruleset) Text() string {
	var b strings.Builder
	for _, t := range r.tables() {
		fmt.Fprintf(&b, "add table %s\ndelete table %s\n", t.name, t.name)
	}
	b.WriteString(r.body())
	for _, t := range r.tables() {
		fmt.Fprintf(&b, "add chain %s %s\n", t.name, r.Version())
	}
	return b.String()
}

// Remove returns the commands that remove Berth's tables.
func Remove() string {
	return fmt.Sprintf("add table bridge %[1]s\ndelete table bridge %[1]s\nadd table inet %[1]s\n"+
		"delete table inet %[1]s\n", Table)
}

func (r Ruleset) body() string {
	var b strings.Builder
	for _, t := range r.tables() {
		fmt.Fprintf(&b, "table %s {\n", t.name)
		// a verdict map refers to chains, and a chain to sets: chains are declared first
		for _, name := range slices.Sorted(maps.Keys(t.chains)) {
			fmt.Fprintf(&b, "\tchain %s {\n%s\t}\n", name, hookLine(t.hooks[name]))
		}
		for _, name := range slices.Sorted(maps.Keys(t.sets)) {
			b.WriteString(t.sets[name].block(name))
		}
		for _, name := range slices.Sorted(maps.Keys(t.chains)) {
			if rules := t.chains[name]; len(rules) > 0 {
				fmt.Fprintf(&b, "\tchain %s {\n\t\t%s\n\t}\n", name, strings.Join(rules, "\n\t\t"))
			}
		}
		b.WriteString("}\n")
	}
	return b.String()
}

func hookLine(hook string) string {
	if hook == "" {
		return ""
	}
	return "\t\ttype filter hook " + hook + "; policy accept;\n"
}

func (s *set) block(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\t%s %s {\n\t\t%s\n", s.kind(), name, s.definition)
	if len(s.elements) > 0 {
		fmt.Fprintf(&b, "\t\telements = { %s }\n", strings.Join(s.list(s.elements), ",\n\t\t\t"))
	}
	b.WriteString("\t}\n")
	return b.String()
}

func (s *set) kind() string {
	if s.isMap {
		return "map"
	}
	return "set"
}

// list returns elements in nft's syntax, sorted.
func (s *set) list(elements map[string]string) (all []string) {
	for _, key := range slices.Sorted(maps.Keys(elements)) {
		if s.isMap {
			key += " : " + elements[key]
		}
		all = append(all, key)
	}
	return all
}

// Changes returns the commands that change a kernel with the ruleset r to one with the ruleset to, in one transaction;
// empty if they are equal. Chains whose rules differ are replaced as a whole; sets get and lose elements.
func (r Ruleset) Changes(to Ruleset) string {
	if r.Version() == to.Version() {
		return ""
	}
	var b strings.Builder
	now, then := r.tables(), to.tables()
	for i := range now {
		changes(&b, now[i].name, now[i].table, then[i].table)
	}
	for _, t := range now {
		fmt.Fprintf(&b, "delete chain %s %s\nadd chain %s %s\n", t.name, r.Version(), t.name, to.Version())
	}
	return b.String()
}

// changes writes the commands for one table. Chains and sets are added before something refers to them, and deleted
// when nothing refers to them any more.
func changes(b *strings.Builder, name string, now, then table) {
	for _, chain := range slices.Sorted(maps.Keys(then.chains)) {
		if _, has := now.chains[chain]; !has {
			fmt.Fprintf(b, "add chain %s %s\n", name, chain)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(then.sets)) {
		if now.sets[id] == nil {
			fmt.Fprintf(b, "add %s %s %s { %s }\n", then.sets[id].kind(), name, id, then.sets[id].definition)
		}
		changeElements(b, name, id, now.sets[id], then.sets[id])
	}
	for _, chain := range slices.Sorted(maps.Keys(then.chains)) {
		if slices.Equal(now.chains[chain], then.chains[chain]) {
			continue
		}
		fmt.Fprintf(b, "flush chain %s %s\n", name, chain)
		for _, rule := range then.chains[chain] {
			fmt.Fprintf(b, "add rule %s %s %s\n", name, chain, rule)
		}
	}
	var gone []string
	for _, chain := range slices.Sorted(maps.Keys(now.chains)) {
		if _, has := then.chains[chain]; !has {
			fmt.Fprintf(b, "flush chain %s %s\n", name, chain)
			gone = append(gone, chain)
		}
	}
	for _, chain := range gone {
		fmt.Fprintf(b, "delete chain %s %s\n", name, chain)
	}
	for _, id := range slices.Sorted(maps.Keys(now.sets)) {
		if then.sets[id] == nil {
			fmt.Fprintf(b, "delete %s %s %s\n", now.sets[id].kind(), name, id)
		}
	}
}

// changeElements writes the commands for the elements of one set. An element of a map with another value is deleted
// and added.
func changeElements(b *strings.Builder, name, id string, now, then *set) {
	old := map[string]string{}
	if now != nil {
		old = now.elements
	}
	drop, add := map[string]string{}, map[string]string{}
	for key, value := range old {
		if v, has := then.elements[key]; !has || v != value {
			drop[key] = value
		}
	}
	for key, value := range then.elements {
		if v, has := old[key]; !has || v != value {
			add[key] = value
		}
	}
	if len(drop) > 0 {
		fmt.Fprintf(b, "delete element %s %s { %s }\n", name, id, strings.Join(then.list(drop), ", "))
	}
	if len(add) > 0 {
		fmt.Fprintf(b, "add element %s %s { %s }\n", name, id, strings.Join(then.list(add), ", "))
	}
}
