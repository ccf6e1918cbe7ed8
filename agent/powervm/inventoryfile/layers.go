package inventoryfile

import (
	"fmt"

	"github.com/openberth/berth/agent/powervm/ioslot"
)

// Rules are the paragraphs in force on a host.
type Rules struct {
	Paragraphs []Paragraph
	Replaced   []Replacement
	Warnings   []Problem // of all files
}

// Replacement is a paragraph that a later file replaces by one with the same name.
type Replacement struct{ Old, New Paragraph }

// Merge combines layers of files, such as one for the whole cloud and one for a host. A paragraph replaces the whole
// paragraph with the same name of an earlier file, in its place; all others are added. So one file with the result has
// the same effect as the layers (G4).
func Merge(layers ...File) Rules {
	var out Rules
	place := map[string]int{}
	for _, layer := range layers {
		out.Warnings = append(out.Warnings, layer.Warnings...)
		for _, p := range layer.Paragraphs {
			if i, there := place[p.Name]; there {
				out.Replaced = append(out.Replaced, Replacement{Old: out.Paragraphs[i], New: p})
				out.Paragraphs[i] = p
				continue
			}
			place[p.Name] = len(out.Paragraphs)
			out.Paragraphs = append(out.Paragraphs, p)
		}
	}
	return out
}

// Explain returns, as lines for the operator, whether guests may have a slot and what each paragraph says about it.
func (r Rules) Explain(s ioslot.Slot) []string {
	d := r.Decide(s)
	lines := []string{fmt.Sprintf("slot %s: %s", s, d.verdict())}
	for _, p := range r.Paragraphs {
		effect := "allows it"
		if p.Deny {
			effect = "denies it"
		}
		if failed := p.failed(s); failed != "" {
			effect = "does not match: " + failed
		}
		lines = append(lines, fmt.Sprintf("paragraph %s %s", p, effect))
	}
	for _, one := range r.Replaced {
		lines = append(lines, fmt.Sprintf("paragraph %s is replaced by the one at %s", one.Old, one.New.At))
	}
	return lines
}

// verdict returns the decision as the end of a sentence.
func (d Decision) verdict() string {
	if p, ok := d.Allowed(); ok {
		return fmt.Sprintf("offered by paragraph %s", p)
	}
	return "not offered, because " + d.WhyNot()
}

// WhyNot returns why guests may not have the slot, as a clause; "" when they may.
func (d Decision) WhyNot() string {
	switch why := d.Slot.WhyNoDevice(); {
	case why != "":
		return "it " + why
	case len(d.Allowing) == 0:
		return "no paragraph allows it"
	case len(d.Allowing) > 1:
		return fmt.Sprintf("two paragraphs allow it, %s and %s, which is an error", d.Allowing[0], d.Allowing[1])
	case len(d.Denying) > 0:
		return fmt.Sprintf("paragraph %s denies it", d.Denying[0])
	}
	return ""
}
