package cli

import (
	"slices"
)

// column is a column of the table of a list.
type column[T any] struct {
	name string
	text func(T) string
	long bool // shown with --long, and if -c names it
}

// headerOf returns the names of columns.
func headerOf[T any](columns []column[T]) (header []string) {
	for _, c := range columns {
		header = append(header, c.name)
	}
	return header
}

// printList prints a list: as JSON, or as a table with the columns that are not long, or with long all. order is the
// column by which the list is sorted unless --sort names another one; with a "-" before it the order is descending.
func printList[T any](g *Globals, list []T, order string, long bool, columns []column[T]) error {
	header := headerOf(columns)
	type entry struct {
		doc T
		row []string
	}
	entries := make([]entry, 0, len(list))
	for _, one := range list {
		row := make([]string, 0, len(columns))
		for _, c := range columns {
			row = append(row, c.text(one))
		}
		entries = append(entries, entry{one, row})
	}
	less, err := g.order(header, order)
	if err != nil {
		return err
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return less(a.row, b.row) })
	if g.Output == "json" {
		docs := make([]T, 0, len(list))
		for _, e := range entries {
			docs = append(docs, e.doc)
		}
		return writeJSON(g.stdout(), docs)
	}
	chosen, err := g.chosen(header)
	if err != nil {
		return err
	}
	if len(g.Columns) == 0 {
		chosen = slices.DeleteFunc(chosen, func(i int) bool { return columns[i].long && !long })
	}
	rows := make([][]string, 0, len(list))
	for _, e := range entries {
		rows = append(rows, e.row)
	}
	return g.writeChosen(g.stdout(), g.stderr(), pick(header, chosen), rows, chosen)
}
