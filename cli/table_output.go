package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// print writes value as JSON, or the rows as a table with the columns of -c in the order of --sort.
func (g *Globals) print(value any, header []string, rows [][]string) error {
	if g.Output == "json" {
		return writeJSON(g.stdout(), value)
	}
	if isRecord(header) {
		return g.writeRecord(g.stdout(), rows)
	}
	if err := g.sortRows(header, rows); err != nil {
		return err
	}
	chosen, err := g.chosen(header)
	if err != nil {
		return err
	}
	return g.writeChosen(g.stdout(), g.stderr(), pick(header, chosen), rows, chosen)
}

// writeJSON writes a value as JSON; an empty list is [].
func writeJSON(w io.Writer, value any) error {
	data, err := json.MarshalIndent(withEmptyLists(value), "", "  ")
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

// writeChosen writes the chosen columns of rows. On a terminal the table fits its width, unless --wide is given, and
// has colours. Columns for which it is too narrow are left out, unless -c names them, and notes has their names.
func (o *OutputFlags) writeChosen(w, notes io.Writer, header []string, rows [][]string, chosen []int) error {
	out := make([][]string, 0, len(rows))
	for _, row := range rows {
		out = append(out, pick(row, chosen))
	}
	screen, names := terminalOf(w), slices.Clone(header)
	if screen.width == 0 || o.Wide {
		return writeTable(w, header, out, screen.colours)
	}
	shown := fit(header, out, screen.width, len(o.Columns) > 0)
	for i := range out {
		out[i] = pick(out[i], shown)
	}
	if err := writeTable(w, pick(header, shown), out, screen.colours); err != nil || len(shown) == len(header) {
		return err
	}
	var left []string
	for i, name := range names {
		if !slices.Contains(shown, i) {
			left = append(left, name)
		}
	}
	_, err := fmt.Fprintf(notes, "left out, because the terminal has %d columns: %s; --wide shows all, -c selects\n",
		screen.width, strings.Join(left, ", "))
	return err
}

// isRecord reports whether a table shows one object: a row for each of its fields.
func isRecord(header []string) bool { return slices.Equal(header, []string{"Field", "Value"}) }

// writeRecord writes the fields of one object; with -c only those.
func (o *OutputFlags) writeRecord(w io.Writer, rows [][]string) error {
	if len(o.Columns) > 0 {
		var fields []string
		for _, row := range rows {
			fields = append(fields, row[0])
		}
		chosen, err := o.chosen(fields)
		if err != nil {
			return err
		}
		all := rows
		rows = nil
		for _, at := range chosen {
			rows = append(rows, all[at])
		}
	}
	return writeTable(w, []string{"Field", "Value"}, rows, terminalOf(w).colours)
}

// PrintTable writes rows under a header, without a frame; columns are two spaces apart. On a terminal they are
// shortened to its width, unless wide.
func PrintTable(w io.Writer, wide bool, header []string, rows [][]string) error {
	screen := terminalOf(w)
	if screen.width > 0 && !wide {
		fit(header, rows, screen.width, true)
	}
	return writeTable(w, header, rows, screen.colours)
}

// writeTable writes a table.
func writeTable(w io.Writer, header []string, rows [][]string, colours bool) error {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.Options{}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	t.AppendHeader(cells(header, func(string) text.Colors { return nil }))
	paint := func(string) text.Colors { return nil }
	if colours {
		paint = colourOf
	}
	for _, row := range rows {
		t.AppendRow(cells(row, paint))
	}
	out := t.Render()
	if colours {
		first, rest, more := strings.Cut(out, "\n")
		if out = bold + first + plain; more {
			out += "\n" + rest
		}
	}
	_, err := io.WriteString(w, out+"\n")
	return err
}

// cells returns texts as cells in the colours that paint returns.
func cells(texts []string, paint func(string) text.Colors) table.Row {
	row := make(table.Row, len(texts))
	for i, one := range texts {
		one = provider.Printable(one)
		if colours := paint(one); colours != nil {
			one = string(colours[0].EscapeSeq()) + one + plain
		}
		row[i] = one
	}
	return row
}

// pick returns the elements at indexes.
func pick(all []string, at []int) []string {
	out := make([]string, 0, len(at))
	for _, i := range at {
		out = append(out, all[i])
	}
	return out
}

// pairs turns names and values into the rows of the two-column table that `show` prints.
func pairs(kv ...string) [][]string { return slices.Collect(slices.Chunk(kv, 2)) }

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func strs[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
