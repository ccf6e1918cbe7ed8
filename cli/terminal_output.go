package cli

import (
	"io"
	"os"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/sys/unix"

	"github.com/openberth/berth/pci"
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

// fit shortens headers and cells so that a table has at most width columns: always those of the widest column, which is
// not one of ids or PCI addresses. It returns the indexes of the columns to show. Without all, the column ID is left
// out if that is not enough and there are names, because commands take these too, and then the last columns.
func fit(header []string, rows [][]string, width int, all bool) (shown []int) {
	widths, least, ids := make([]int, len(header)), make([]int, len(header)), -1
	for i, name := range header {
		widths[i] = text.StringWidth(name)
		whole := false
		for _, row := range rows {
			widths[i] = max(widths[i], text.StringWidth(row[i]))
			whole = whole || isWhole(row[i])
		}
		if least[i] = min(widths[i], narrowest); whole {
			least[i] = widths[i]
		}
		if strings.EqualFold(name, "ID") && uuidWidth == widths[i] && slices.Contains(header, "Name") {
			ids = i
		}
		shown = append(shown, i)
	}
	for !all && len(shown) > 1 && tableWidth(least, shown) > width {
		if at := slices.Index(shown, ids); at >= 0 {
			shown = slices.Delete(shown, at, at+1)
		} else {
			shown = shown[:len(shown)-1]
		}
	}
	if tableWidth(least, shown) > width {
		for i := range least {
			least[i] = min(widths[i], narrowest)
		}
	}
	for excess := tableWidth(widths, shown) - width; excess > 0; excess-- {
		widest := -1
		for _, i := range shown {
			if widths[i] > least[i] && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	for _, row := range append([][]string{header}, rows...) {
		for _, i := range shown {
			if text.StringWidth(row[i]) > widths[i] {
				row[i] = text.Snip(row[i], widths[i], "…")
			}
		}
	}
	return shown
}

// uuidWidth is the width of an id.
const uuidWidth = 36

// isWhole reports whether a cell is of no use when it is shortened.
func isWhole(cell string) bool {
	_, err := pci.ParseAddress(cell)
	return err == nil || uuid.Validate(cell) == nil
}

// tableWidth returns the width of a table with the columns shown.
func tableWidth(widths, shown []int) (sum int) {
	for _, i := range shown {
		sum += widths[i] + 2
	}
	return sum - 2
}
