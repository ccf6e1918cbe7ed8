package main

import (
	"fmt"
	"os"
	"slices"
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

// begins reports whether a row of the table is one of the subject.
func (s subject) begins(row string) bool {
	return strings.HasPrefix(row, fmt.Sprintf("| %s | %s |", s.title, s.of))
}

// plotName is the name of the file with the curves of a unit, without its ending.
func (s subject) plotName(unit string) string {
	return s.file + "-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, unit)
}

// section is the table of the rows, which are sorted by subject, and the plots of their subjects.
func section(rows []string) string {
	var table, plots strings.Builder
	table.WriteString("| Subject | Size | Figure | Unit and values | Exponent |\n|---|---|---|---|---|\n")
	for _, s := range subjects() {
		found := false
		for _, row := range rows {
			if s.begins(row) {
				table.WriteString(row + "\n")
				found = true
			}
		}
		drawn := map[string]bool{}
		for _, c := range s.curves {
			if name := s.plotName(c.unit); found && !drawn[name] {
				fmt.Fprintf(&plots, "![%s: figures by size, as in the table](growth/%s.svg)\n", name, name)
				drawn[name] = true
			}
		}
	}
	return table.String() + "\n" + plots.String()
}

// writeSection writes the rows of a subject into the results in a Markdown file, and keeps those of the others.
func writeSection(path string, rows []string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(old), sectionBegin)
	results, after, ends := strings.Cut(rest, sectionEnd)
	if !begins || !ends {
		return fmt.Errorf("%s has no lines %q and %q: add them where the results belong", path,
			strings.TrimSpace(sectionBegin), strings.TrimSpace(sectionEnd))
	}
	all := slices.Clone(rows)
	for row := range strings.Lines(results) {
		if row = strings.TrimSpace(row); !slices.ContainsFunc(rows, func(r string) bool { return sameSubject(r, row) }) {
			all = append(all, row)
		}
	}
	return os.WriteFile(path, []byte(before+sectionBegin+"\n"+section(all)+"\n"+sectionEnd+after), 0o644)
}

// sameSubject reports whether two rows have the same subject and size.
func sameSubject(a, b string) bool {
	one, two := strings.SplitN(a, "|", 4), strings.SplitN(b, "|", 4)
	return len(one) == 4 && len(two) == 4 && one[1] == two[1] && one[2] == two[2]
}
