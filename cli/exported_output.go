package cli

// Print writes value as JSON, or the rows as a table under a header, as --output selects.
func Print(g *Globals, value any, header []string, rows [][]string) error {
	return g.print(value, header, rows)
}
