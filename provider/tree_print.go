package provider

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/openberth/berth/resource"
)

// Print writes the tree as text: name, inventory as used/capacity, and traits.
func (t Tree) Print(w io.Writer, used Used) error {
	return t.PrintLines(w, func(p Provider) string { return Describe(p, used[p.ID], p.Traits) })
}

// PrintLines writes the tree as text with the line of each provider.
func (t Tree) PrintLines(w io.Writer, line func(Provider) string) error {
	for _, p := range t.Sorted().Providers {
		if _, inside := t.ByID(p.Parent); !inside {
			if err := t.print(w, p, "", "", line); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t Tree) print(w io.Writer, p Provider, first, rest string, line func(Provider) string) error {
	if _, err := fmt.Fprintf(w, "%s%s\n", first, line(p)); err != nil {
		return err
	}
	children := t.Children(p.ID)
	for i, c := range children {
		branch, below := "├─ ", "│  "
		if i == len(children)-1 {
			branch, below = "└─ ", "   "
		}
		if err := t.print(w, c, rest+branch, rest+below, line); err != nil {
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

// Describe returns the line of a provider: its name, its inventory as used/capacity, and traits.
func Describe[T ~string](p Provider, used resource.Amounts, traits []T) string {
	b := strings.Builder{}
	b.WriteString(Printable(p.Name))
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
	if len(traits) > 0 {
		names := make([]string, len(traits))
		for i, tr := range traits {
			names[i] = string(tr)
		}
		fmt.Fprintf(&b, "  [%s]", strings.Join(names, " "))
	}
	return b.String()
}
