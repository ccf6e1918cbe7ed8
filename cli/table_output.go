package cli

import (
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// print writes value as JSON, or the rows as a table.
func (g *Globals) print(value any, header []string, rows [][]string) error {
	if g.Output == "json" {
		data, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return fault.Wrap(fault.Internal, err)
		}
		_, err = g.stdout().Write(append(data, '\n'))
		return err
	}
	return PrintTable(g.stdout(), header, rows)
}

// PrintTable writes rows under a header, without a frame; columns are two spaces apart.
func PrintTable(w io.Writer, header []string, rows [][]string) error {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.Options{}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	t.AppendHeader(cells(header))
	for _, row := range rows {
		t.AppendRow(cells(row))
	}
	_, err := io.WriteString(w, t.Render()+"\n")
	return err
}

func cells(texts []string) table.Row {
	row := make(table.Row, len(texts))
	for i, text := range texts {
		row[i] = provider.Printable(text)
	}
	return row
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
