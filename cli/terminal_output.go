package cli

import (
	"io"
	"os"
	"strings"

	"github.com/google/uuid"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/sys/unix"
)

// terminal is what the standard output of a command can show.
type terminal struct {
	width   int  // in columns; 0: it is not a terminal
	colours bool // of a terminal, unless NO_COLOR is set
}

// terminalOf returns what an output can show.
func terminalOf(w io.Writer) terminal {
	file, ok := w.(*os.File)
	if !ok {
		return terminal{}
	}
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return terminal{}
	}
	usual := 80 // of a terminal that does not say its width
	if size.Col > 0 {
		usual = int(size.Col)
	}
	return terminal{usual, os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// The escape sequences around a header.
const (
	bold  = "\x1b[1m"
	plain = "\x1b[0m"
)

// badWords and goodWords are first words of cells that are shown in red and in green.
var (
	badWords  = []string{"ERROR", "DOWN", "down", "failed", "killed", "silent", "unavailable"}
	goodWords = []string{"ACTIVE", "active", "up", "available"}
)

// colourOf returns the colour of a cell: red for states in which something does not work, green for usual states.
func colourOf(cell string) text.Colors {
	first, _, _ := strings.Cut(strings.NewReplacer(",", " ", "/", " ").Replace(cell), " ")
	for _, word := range badWords {
		if first == word {
			return text.Colors{text.FgRed}
		}
	}
	for _, word := range goodWords {
		if first == word {
			return text.Colors{text.FgGreen}
		}
	}
	return nil
}

// narrowest is the width to which fit shortens a column.
const narrowest = 8

// fit shortens cells so that a table has at most width columns: always those of the widest column, which is not one of
// ids. A table that has too many columns remains wider.
func fit(header []string, rows [][]string, width int) {
	widths, fixed, sum := make([]int, len(header)), make([]bool, len(header)), 0
	for i, name := range header {
		widths[i] = text.StringWidth(name)
		for _, row := range rows {
			widths[i] = max(widths[i], text.StringWidth(row[i]))
			fixed[i] = fixed[i] || uuid.Validate(row[i]) == nil
		}
		sum += widths[i] + 2
	}
	for excess := sum - 2 - width; excess > 0; excess-- {
		widest := -1
		for i := range header {
			if !fixed[i] && widths[i] > max(narrowest, text.StringWidth(header[i])) &&
				(widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	for _, row := range rows {
		for i := range row {
			if text.StringWidth(row[i]) > widths[i] {
				row[i] = text.Snip(row[i], widths[i], "…")
			}
		}
	}
}
