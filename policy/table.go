package policy

import (
	"strings"
	"sync"
)

// Row is rules with the same default check. Names are separated by white space. What describes them; empty: their names
// do.
type Row struct{ Names, Check, What string }

// Table is the default policy of a service.
type Table struct {
	Service string
	Base    []Rule // to which the others refer, and policy files
	Rows    []Row
	Scopes  []string // of the rules of Rows
}

// Rules returns all rules, the base rules first.
func (t Table) Rules() []Rule {
	rules := append([]Rule(nil), t.Base...)
	t.each(func(name string, r Row) {
		what := r.What
		if what == "" {
			what = name
		}
		rules = append(rules, Rule{Name: name, Check: r.Check, Scopes: t.Scopes, Description: what})
	})
	return rules
}

func (t Table) each(do func(name string, r Row)) {
	for _, r := range t.Rows {
		for name := range strings.FieldsSeq(r.Names) {
			do(name, r)
		}
	}
}

// Checks returns the default checks by rule.
func (t Table) Checks() map[string]string {
	all := map[string]string{}
	for _, r := range t.Rules() {
		all[r.Name] = r.Check
	}
	return all
}

// Defaults returns a function that returns an Enforcer of the defaults, always the same. It panics if they are not
// valid, which the tests of a service show.
func (t Table) Defaults() func() *Enforcer {
	return sync.OnceValue(func() *Enforcer {
		e, err := New(t.Rules(), Options{})
		if err != nil {
			panic(t.Service + ": the default rules are not valid: " + err.Error())
		}
		return e
	})
}
