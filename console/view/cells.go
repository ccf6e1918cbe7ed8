package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/hosttree"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// The states of one unit of a device, as letters of a pattern.
const (
	gone  = 'g' // held, and its host does not offer it now
	held  = 'h'
	spent = 'u' // reserved, or used once and not cleaned
	off   = 'o' // free, and not offered
	free  = 'f'
)

// Cell is one device of a host, or a pack of devices such as the VFs of a PF: a resource class of a provider.
type Cell struct {
	Class   resource.Class
	Address string
	Pattern string // its kind and the states of its units; see pattern
	Label   string // its name for people: class, address and counts
	Number  string // beside the drawing, where that is a bar; else empty
	Counts
	Holders  []fleet.Holder
	provider provider.ID
}

// Counts are units by state. Their sum is Of.
type Counts struct{ Gone, Held, Spent, Off, Free, Of int }

func (c *Counts) add(o Counts) {
	c.Gone, c.Held, c.Spent = c.Gone+o.Gone, c.Held+o.Held, c.Spent+o.Spent
	c.Off, c.Free, c.Of = c.Off+o.Off, c.Free+o.Free, c.Of+o.Of
}

// AllHeld returns the units that have a holder.
func (c Counts) AllHeld() int { return c.Gone + c.Held }

// Text returns the counts that are not zero, as in "2 held, 6 free".
func (c Counts) Text() string {
	parts := []string{}
	for _, one := range []struct {
		n    int
		text string
	}{{c.Gone, "gone but held"}, {c.Held, "held"}, {c.Spent, "spent or reserved"},
		{c.Off, "not offered"}, {c.Free, "free"}} {
		if one.n > 0 {
			parts = append(parts, Number(one.n)+" "+one.text)
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "none held")
}

// countsOf returns the counts of a device, of which the host does not offer this many units. offers: its host has
// servers scheduled to it.
func countsOf(d fleet.Device, gone int, offers bool) Counts {
	c := Counts{Of: max(d.Total, 0)}
	held := min(d.Used, c.Of)
	c.Gone = min(gone, held)
	c.Held = held - c.Gone
	c.Spent = min(max(d.Reserved, 0), c.Of-held)
	rest := c.Of - held - c.Spent
	if offers {
		c.Free = rest
	} else {
		c.Off = rest
	}
	return c
}

// addDevices adds the devices of all hosts, and lists their classes.
func (c *Cloud) addDevices() {
	units := map[resource.Class]int{}
	for _, d := range c.Fleet.Devices() {
		h := c.byName[d.Host]
		if h == nil || d.Kind == hosttree.Bandwidth || d.Kind == hosttree.PacketRate {
			continue
		}
		h.Cells = append(h.Cells, newCell(d, h.gone(d), h.Offers()))
		units[d.Class] += d.Total
	}
	for class := range units {
		c.Classes = append(c.Classes, class)
	}
	slices.SortFunc(c.Classes, func(a, b resource.Class) int {
		return cmp.Or(cmp.Compare(units[b], units[a]), cmp.Compare(a, b))
	})
	for _, h := range c.Hosts {
		slices.SortStableFunc(h.Cells, func(a, b Cell) int {
			return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Address, b.Address))
		})
	}
}

// gone returns how many units of a device are held that the host does not offer now, by the report of its agent.
func (h *Host) gone(d fleet.Device) (n int) {
	if h.Report == nil {
		return 0
	}
	for _, r := range h.Report.Devices {
		if r.Gone() && r.Holder != "" && r.Provider == string(d.Provider) && r.ResourceClass == string(d.Class) {
			n += max(r.Slices, 1)
		}
	}
	return n
}

// newCell returns the cell of a device.
func newCell(d fleet.Device, gone int, offers bool) Cell {
	cell := Cell{Class: d.Class, Address: d.Address, Counts: countsOf(d, gone, offers), Holders: d.Holders,
		provider: d.Provider}
	cell.Pattern = cell.pattern()
	if cell.Of > maxSlots {
		cell.Number = fmt.Sprintf("%s/%s", Number(cell.AllHeld()), Number(cell.Of))
	}
	cell.Label = fmt.Sprintf("%s %s: %s", d.Class, d.Address, cell.Text())
	if d.Used > d.Capacity {
		cell.Label += ", over capacity"
	}
	if cell.Of == 1 && len(d.Holders) == 1 {
		cell.Label += " by " + d.Holders[0].String()
	}
	return cell
}

// maxSlots is the number of units up to which each is drawn. Beyond it a pack is drawn as maxSlots slots that show the
// shares, with a number.
const maxSlots = 16

// pattern returns how the units of c are drawn: d and one letter for a single device, p and a letter for each unit of a
// pack.
func (c Counts) pattern() string {
	letters := func(scale func(int) int) string {
		return strings.Repeat(string(gone), scale(c.Gone)) + strings.Repeat(string(held), scale(c.Held)) +
			strings.Repeat(string(spent), scale(c.Spent)) +
			strings.Repeat(string(off), scale(c.Off)) + strings.Repeat(string(free), scale(c.Free))
	}
	switch {
	case c.Of == 0:
		return "d-" + string(off)
	case c.Of == 1:
		return "d-" + letters(func(n int) int { return n })
	case c.Of <= maxSlots:
		return "p-" + letters(func(n int) int { return n })
	}
	text := letters(func(n int) int { // a state with any unit has a slot
		return min((n*maxSlots+c.Of-1)/c.Of, maxSlots)
	})
	return "p-" + text[:min(len(text), maxSlots)]
}

// Drawing is the drawing of a cell, cellHeight high.
type Drawing struct {
	Width int
	Paths []Path
}

// Path is a path of a drawing: the class that colours it, and its data.
type Path struct{ Class, D string }

// cellHeight is the height of a cell in pixels, and the width of a single device.
const cellHeight = 16

// Drawing returns the drawing of the cell. Its paths are in the cell itself: a symbol that several cells use would be
// copied for each of them by the browser, which takes longer than reading the paths.
func (c Cell) Drawing() Drawing {
	kind, letters, _ := strings.Cut(c.Pattern, "-")
	if kind == "d" {
		return Drawing{Width: cellHeight, Paths: single(letters)}
	}
	width := 3 + 6*len(letters)
	s := Drawing{Width: width, Paths: []Path{{"box",
		fmt.Sprintf("M.5.5h%dv%dh-%dz", width-1, cellHeight-1, width-1)}}}
	for _, one := range []struct {
		letter rune
		class  string
	}{{gone, "x"}, {held, "h"}, {spent, "u"}, {spent, "ht"}, {free, "fs"}} {
		s.slots(letters, one.letter, one.class, "M%d 2.5h5v11h-5z")
	}
	s.slots(letters, gone, "xx", "M%d 2.5l5 11m-5 0l5-11")
	s.slots(letters, off, "sl", "M%d 13.5l5-11")
	return s
}

// slots adds the slots of a pack that have a letter.
func (s *Drawing) slots(letters string, letter rune, class, form string) {
	var d strings.Builder
	for i, one := range letters {
		if one == letter {
			fmt.Fprintf(&d, form, 2+6*i)
		}
	}
	if d.Len() > 0 {
		s.Paths = append(s.Paths, Path{class, d.String()})
	}
}

// single draws one device.
func single(letter string) []Path {
	box := "M.5.5h15v15h-15z"
	switch letter {
	case string(gone):
		return []Path{{"x", box}, {"xx", "M.5.5l15 15m-15 0l15-15"}}
	case string(held):
		return []Path{{"h", box}}
	case string(spent):
		return []Path{{"u", box}, {"ht", box}}
	case string(off):
		return []Path{{"o", box}, {"sl", "M.5 15.5l15-15"}}
	}
	return []Path{{"f", box}}
}

// HolderIDs returns the ids of the holders, for the script that marks all that a server holds.
func (c Cell) HolderIDs() string {
	ids := make([]string, len(c.Holders))
	for i, h := range c.Holders {
		ids[i] = string(h.Consumer)
	}
	return strings.Join(ids, " ")
}
