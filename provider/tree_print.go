package provider

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/openberth/berth/resource"
)

// Print writes the tree as text: name, inventory as used/total, and traits.
func (t Tree) Print(w io.Writer, used Used) error {
	for _, p := range t.Sorted().Providers {
		if _, inside := t.ByID(p.Parent); !inside {
			if err := t.print(w, p, "", "", used); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t Tree) print(w io.Writer, p Provider, first, rest string, used Used) error {
	if _, err := fmt.Fprintf(w, "%s%s%s\n", first, Printable(p.Name), describe(p, used[p.ID])); err != nil {
		return err
	}
	children := t.Children(p.ID)
	for i, c := range children {
		branch, below := "├─ ", "│  "
		if i == len(children)-1 {
			branch, below = "└─ ", "   "
		}
		if err := t.print(w, c, rest+branch, rest+below, used); err != nil {
			return err
		}
	}
	return nil
}

// Printable escapes control characters of a name. Names come from other systems, and a terminal would interpret them.
func Printable(name string) string {
	if strings.IndexFunc(name, unicode.IsControl) < 0 {
		return name
	}
	return strings.Trim(strconv.Quote(name), `"`)
}

func describe(p Provider, used resource.Amounts) string {
	var b strings.Builder
	totals := resource.Amounts{}
	for c, inv := range p.Inventories {
		totals[c] = inv.Total
	}
	for _, c := range totals.Sorted() {
		fmt.Fprintf(&b, "  %s %d/%d", c, used[c], p.Inventories[c].Capacity())
		if r := p.Inventories[c].Reserved; r > 0 {
			fmt.Fprintf(&b, " (%d reserved)", r)
		}
	}
	if len(p.Traits) > 0 {
		names := make([]string, len(p.Traits))
		for i, tr := range p.Traits {
			names[i] = string(tr)
		}
		fmt.Fprintf(&b, "  [%s]", strings.Join(names, " "))
	}
	return b.String()
}
