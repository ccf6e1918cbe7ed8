package main

import (
	"fmt"
	"os"
	"strings"
)

// The lines of docs/benchmarks.md between which the results are.
const (
	sectionBegin = "<!-- written by make bench-plots -->\n"
	sectionEnd   = "<!-- end of what make bench-plots has written -->\n"
)

// rows are the rows of the table for the curves of a subject.
func (s subject) rows(curves []curve) (rows []string) {
	for _, c := range curves {
		var values []string
		for _, p := range c.points {
			values = append(values, fmt.Sprintf("%s at %s", rounded(p.value), grouped(p.size)))
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s: %s | %.2f |", s.title, s.of, c.label, c.unit,
			strings.Join(values, ", "), c.exponent()))
	}
	return rows
}

// section is the table of the rows, and the plots.
func section(rows, plots []string) string {
	var b strings.Builder
	b.WriteString("| Subject | Size | Figure | Unit and values | Exponent |\n|---|---|---|---|---|\n")
	for _, row := range rows {
		b.WriteString(row + "\n")
	}
	b.WriteString("\n")
	for _, name := range plots {
		fmt.Fprintf(&b, "![%s: figures by size, as in the table](growth/%s.svg)\n", name, name)
	}
	return b.String()
}

// writeSection replaces the results in a Markdown file.
func writeSection(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(old), sectionBegin)
	_, after, ends := strings.Cut(rest, sectionEnd)
	if !begins || !ends {
		return fmt.Errorf("%s has no lines %q and %q: add them where the results belong", path,
			strings.TrimSpace(sectionBegin), strings.TrimSpace(sectionEnd))
	}
	return os.WriteFile(path, []byte(before+sectionBegin+"\n"+text+"\n"+sectionEnd+after), 0o644)
}
