package view

import (
	"cmp"
	"slices"
	"strings"

	"github.com/openberth/berth/resource"
)

// How many lines of the table of hosts are read at once.
const (
	Window  = 60   // by a page
	Part    = 20   // by its script
	MaxRows = 2000 // by a page with all lines, at most
)

// FleetQuery is the state of the fleet view, which its address has.
type FleetQuery struct {
	Find  string // words that a host must have
	Group string // GroupAggregate and others
	Sort  string // SortName and others
	State Mark   // only hosts with this mark; empty: all
	From  int    // the first line; a multiple of Count
	Count int    // of lines
}

// The groups and orders of hosts. Each list begins with the default.
var (
	Groups = []string{"nothing", "aggregate", "zone", "class"}
	Sorts  = []string{"name", "conditions first", "most free"}
)

// Fleet is the fleet view.
type Fleet struct {
	FleetQuery
	Hosts, All int // hosts that are shown, and hosts of the cloud
	Marks      []MarkCount
	Sums       []Sum
	Columns    []resource.Class // columns of devices
	Others     bool             // a further column has the devices of other classes
	Amounts    []AmountClass    // columns of amounts
	Lines      []Line           // from From on
	LineCount  int              // in all
	Previous   int              // the first line of the window before; -1: there is none
	Next       int              // of the window after; -1: there is none
}

// RowCount returns the number of rows of the whole table, with its head.
func (f *Fleet) RowCount() int { return f.LineCount + 1 }

// MarkCount is how many of the hosts that are shown have a mark.
type MarkCount struct {
	Mark
	N int
}

// Sum is a class with what all hosts that are shown have of it.
type Sum struct {
	Name string
	Counts
}

// Share returns n in thousandths of the sum.
func (s Sum) Share(n int) int {
	if s.Of == 0 {
		return 0
	}
	return n * 1000 / s.Of
}

// Before returns the units that are drawn before those that are off.
func (s Sum) Before() int { return s.AllHeld() + s.Spent }

// Rest returns what is not free, for people.
func (s Sum) Rest() string {
	rest := s.Counts
	rest.Free = 0
	return rest.Text()
}

// Line is a line of the table: a host, or the head of a group.
type Line struct {
	Number int   // in the whole table; the head of the table is the first one
	Host   *Host // nil: it is the head of a group
	Group  string
	N      int      // hosts of the group
	Marked int      // those with a mark
	Cells  [][]Cell // of a host, by column
	Used   []string // of a group, by column: units that are held and all
	Amount []Amount // by column
}

// maxColumns is how many classes of devices have a column of their own.
const maxColumns = 4

// Table returns the fleet view with the lines of one window.
func (c *Cloud) Table(q FleetQuery) *Fleet { return c.WholeTable(q.Whole()).Window(q) }

// Whole returns the query of the table of which q selects a window.
func (q FleetQuery) Whole() FleetQuery {
	q = q.valid()
	q.From, q.Count = 0, 0
	return q
}

// WholeTable returns the fleet view with all lines, without their cells, of a query that Whole has returned.
func (c *Cloud) WholeTable(q FleetQuery) *Fleet {
	f := &Fleet{FleetQuery: q, All: len(c.Hosts), Amounts: c.Amounts, Previous: -1, Next: -1}
	f.Columns = slices.Sorted(slices.Values(c.Classes[:min(len(c.Classes), maxColumns)]))
	f.Others = len(c.Classes) > maxColumns
	hosts := c.selected(q)
	f.Hosts = len(hosts)
	f.count(hosts)
	f.sum(c, hosts)
	f.Lines = f.group(hosts)
	f.LineCount = len(f.Lines)
	return f
}

// Window returns the window of a table with all lines that a query selects. The table does not change.
func (f *Fleet) Window(q FleetQuery) *Fleet {
	q = q.valid()
	w := *f
	w.From, w.Count = min(q.From, max(f.LineCount-1, 0))/q.Count*q.Count, q.Count
	if w.From > 0 {
		w.Previous = max(w.From-q.Count, 0)
	}
	end := min(w.From+q.Count, f.LineCount)
	if end < f.LineCount {
		w.Next = end
	}
	w.Lines = slices.Clone(f.Lines[w.From:end])
	w.draw()
	return &w
}

// valid returns the query with the defaults in place of words that are not known.
func (q FleetQuery) valid() FleetQuery {
	if !slices.Contains(Groups, q.Group) {
		q.Group = Groups[0]
	}
	if !slices.Contains(Sorts, q.Sort) {
		q.Sort = Sorts[0]
	}
	if !slices.Contains(marks, q.State) {
		q.State = ""
	}
	if q.Count <= 0 {
		q.Count = Window
	}
	q.From = max(q.From, 0)
	return q
}

// selected returns the hosts that a query selects, in its order.
func (c *Cloud) selected(q FleetQuery) []*Host {
	words := strings.Fields(strings.ToLower(q.Find))
	var list []*Host
	for _, h := range c.Hosts {
		if h.has(words) && (q.State == "" || h.Mark == q.State) {
			list = append(list, h)
		}
	}
	switch q.Sort {
	case "conditions first":
		rank := func(h *Host) int {
			if i := slices.Index(marks, h.Mark); i >= 0 {
				return i
			}
			return len(marks)
		}
		slices.SortStableFunc(list, func(a, b *Host) int { return cmp.Compare(rank(a), rank(b)) })
	case "most free":
		slices.SortStableFunc(list, func(a, b *Host) int { return cmp.Compare(b.units().Free, a.units().Free) })
	}
	return list
}

// units returns the units of all devices of a host.
func (h *Host) units() (sum Counts) {
	for _, cell := range h.Cells {
		sum.add(cell.Counts)
	}
	return sum
}

// count counts the marks.
func (f *Fleet) count(hosts []*Host) {
	for _, m := range marks {
		n := 0
		for _, h := range hosts {
			if h.Mark == m {
				n++
			}
		}
		if n > 0 {
			f.Marks = append(f.Marks, MarkCount{m, n})
		}
	}
}

// maxSums is how many classes are summed.
const maxSums = 6

// sum sums the devices and amounts of hosts.
func (f *Fleet) sum(c *Cloud, hosts []*Host) {
	for _, class := range f.Columns {
		s := Sum{Name: string(class)}
		for _, h := range hosts {
			for _, cell := range h.Cells {
				if cell.Class == class {
					s.add(cell.Counts)
				}
			}
		}
		f.Sums = append(f.Sums, s)
	}
	for _, class := range c.Amounts {
		s := Sum{Name: class.Name}
		for _, h := range hosts {
			a := h.Amount[class]
			one := Counts{Held: min(a.Used, a.Of), Of: a.Of}
			if one.Free = a.Of - one.Held; !h.Offers() {
				one.Free, one.Off = 0, one.Free
			}
			s.add(one)
		}
		f.Sums = append(f.Sums, s)
	}
	f.Sums = f.Sums[:min(len(f.Sums), maxSums)]
}

// groupOf returns the group of a host.
func (q FleetQuery) groupOf(h *Host) string {
	switch q.Group {
	case "aggregate":
		return cmp.Or(strings.Join(h.Aggregates, ", "), noAggregate)
	case "zone":
		return cmp.Or(h.Zone, "no zone")
	}
	var classes []string
	for _, cell := range h.Cells { // sorted by class
		if n := len(classes); n == 0 || classes[n-1] != string(cell.Class) {
			classes = append(classes, string(cell.Class))
		}
	}
	return cmp.Or(strings.Join(classes, ", "), "no devices")
}

// group returns the lines of hosts. With groups, each has a head.
func (f *Fleet) group(hosts []*Host) (lines []Line) {
	add := func(l Line) {
		l.Number = len(lines) + 2
		lines = append(lines, l)
	}
	if f.Group == Groups[0] {
		for _, h := range hosts {
			add(Line{Host: h})
		}
		return lines
	}
	groups, names := map[string][]*Host{}, []string{}
	for _, h := range hosts {
		name := f.groupOf(h)
		if groups[name] == nil {
			names = append(names, name)
		}
		groups[name] = append(groups[name], h)
	}
	slices.Sort(names)
	for _, name := range names {
		head := Line{Group: name, N: len(groups[name])}
		f.total(&head, groups[name])
		add(head)
		for _, h := range groups[name] {
			add(Line{Host: h})
		}
	}
	return lines
}

// total adds what the hosts of a group have.
func (f *Fleet) total(head *Line, hosts []*Host) {
	counts := make([]Counts, len(f.Columns)+1)
	head.Amount = make([]Amount, len(f.Amounts))
	for _, h := range hosts {
		if h.Mark != "" {
			head.Marked++
		}
		for _, cell := range h.Cells {
			counts[f.column(cell.Class)].add(cell.Counts)
		}
		for i, class := range f.Amounts {
			head.Amount[i].Used += h.Amount[class].Used
			head.Amount[i].Of += h.Amount[class].Of
		}
	}
	if !f.Others {
		counts = counts[:len(f.Columns)]
	}
	for _, c := range counts {
		head.Used = append(head.Used, Amount{c.AllHeld(), c.Of}.Text())
	}
}

// column returns the column of a class: that of others is the last one.
func (f *Fleet) column(class resource.Class) int {
	if i := slices.Index(f.Columns, class); i >= 0 {
		return i
	}
	return len(f.Columns)
}

// draw adds the cells and amounts of the lines.
func (f *Fleet) draw() {
	for i := range f.Lines {
		l := &f.Lines[i]
		if l.Host == nil {
			continue
		}
		columns := len(f.Columns)
		if f.Others {
			columns++
		}
		l.Cells = make([][]Cell, columns)
		for _, cell := range l.Host.Cells {
			at := f.column(cell.Class)
			l.Cells[at] = append(l.Cells[at], cell)
		}
		for _, class := range f.Amounts {
			l.Amount = append(l.Amount, l.Host.Amount[class])
		}
	}
}
