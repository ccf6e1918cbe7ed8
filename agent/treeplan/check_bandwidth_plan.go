package treeplan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/provider"
)

// CheckBandwidth judges a plan of MakeBandwidth by its outcome, as Check judges other plans: it must change only
// bandwidth providers, take nothing that a consumer holds, and keep what other clients wrote.
func CheckBandwidth(p Plan, trees provider.Tree, uses Uses) (objections []Objection) {
	object := func(at provider.Provider, format string, args ...any) {
		objections = append(objections, Objection{Provider: at.ID, Name: at.Name,
			Text: "the plan is refused: " + fmt.Sprintf(format, args...)})
	}
	for _, s := range p.Steps {
		if s.Op == CreateClass || s.Op == CreateTrait {
			continue
		}
		have, exists := trees.ByID(s.Provider)
		if !exists {
			have = provider.Provider{ID: s.Provider, Name: s.Name}
		}
		// A provider that is moved may still have another name.
		if _, is := bandwidth.Recognise(provider.Provider{ID: s.Provider, Name: s.Name}); !is || s.Op == Reshape {
			object(have, "it touches %s, which is not a bandwidth provider", have.Name)
		}
		if exists && s.Generation != have.Generation {
			object(have, "it was made for generation %d of %s, which is at %d", s.Generation, have.Name, have.Generation)
		}
	}
	after := Apply(p, trees)
	for _, before := range trees.Providers {
		now, exists := after.ByID(before.ID)
		for class, was := range before.Inventories {
			holders, _ := uses.holders(before.ID, class)
			is, stays := now.Inventories[class]
			foreign := !slices.Contains(bandwidth.Classes(), class)
			if !stays && len(holders) > 0 {
				object(before, "it removes %s of %s, and %s", class, before.Name, heldBy(holders))
			} else if exists && foreign && is != was {
				object(before, "it changes %s of %s, which others put there", class, before.Name)
			}
		}
		for _, t := range before.Traits {
			if exists && !now.HasTrait(t) && !bandwidth.IsReported(t) {
				object(before, "it takes the trait %s from %s, which others put there", t, before.Name)
			}
		}
	}
	slices.SortFunc(objections, func(a, b Objection) int { return strings.Compare(a.Text, b.Text) })
	return objections
}
