package cli

import (
	"cmp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/openberth/berth/fault"
)

// OutputFlags are the flags of every client command that say how results are printed.
type OutputFlags struct {
	Output  string   `short:"o" help:"Output format: table or json. Tables have local times, JSON has UTC." enum:"table,json" default:"table"`
	Columns []string `short:"c" name:"column" help:"Show only these columns of the table, also those of --long; of a table with fields, only these fields. May be repeated." placeholder:"NAME,…"`
	Sort    string   `help:"Sort the list by this column." placeholder:"COLUMN[:desc]"`
	Wide    bool     `help:"Do not shorten tables to the width of the terminal."`
}

// Validate checks the flags.
func (o *OutputFlags) Validate() error {
	if o.Output == "json" && len(o.Columns) > 0 {
		return fault.New(fault.Invalid, "--column selects columns of tables: leave it out with -o json")
	}
	if _, direction, found := strings.Cut(o.Sort, ":"); found && direction != "asc" && direction != "desc" {
		return fault.New(fault.Invalid, "--sort %s is not valid: write COLUMN, COLUMN:asc or COLUMN:desc", o.Sort)
	}
	return nil
}

// chosen returns the indexes of the columns of -c; all without -c.
func (o *OutputFlags) chosen(header []string) (all []int, err error) {
	for _, name := range o.Columns {
		at, err := columnNamed(header, name)
		if err != nil {
			return nil, err
		}
		all = append(all, at)
	}
	if len(o.Columns) == 0 {
		for i := range header {
			all = append(all, i)
		}
	}
	return all, nil
}

// columnNamed returns the index of a column. Case does not count, and a space may be written as - or _.
func columnNamed(header []string, name string) (int, error) {
	same := strings.NewReplacer("-", " ", "_", " ")
	for i, one := range header {
		if strings.EqualFold(same.Replace(one), same.Replace(strings.TrimSpace(name))) {
			return i, nil
		}
	}
	return 0, fault.New(fault.Invalid, "there is no column %q: the columns are %s", name,
		strings.Join(header, ", "))
}

// sortRows sorts the rows of a table by --sort; without it they stay as they are.
func (o *OutputFlags) sortRows(header []string, rows [][]string) error {
	if o.Sort == "" {
		return nil
	}
	less, err := o.order(header, "")
	if err != nil {
		return err
	}
	slices.SortStableFunc(rows, less)
	return nil
}

// order returns how two rows compare: by the column of --sort, else by usual, and where they are equal by all columns.
func (o *OutputFlags) order(header []string, usual string) (func(a, b []string) int, error) {
	name, descending := strings.CutPrefix(usual, "-")
	if o.Sort != "" {
		var direction string
		name, direction, _ = strings.Cut(o.Sort, ":")
		descending = direction == "desc"
	}
	at, err := columnNamed(header, name)
	if err != nil {
		return nil, err
	}
	return func(a, b []string) int {
		order := naturalOrder(a[at], b[at])
		if descending {
			order = -order
		}
		return cmp.Or(order, slices.CompareFunc(a, b, unlessIDs), slices.CompareFunc(a, b, naturalOrder))
	}, nil
}

// unlessIDs compares two texts that are not both ids, whose order is random.
func unlessIDs(a, b string) int {
	if uuid.Validate(a) == nil && uuid.Validate(b) == nil {
		return 0
	}
	return naturalOrder(a, b)
}

// naturalOrder compares two texts; numbers in them by their values, so that cmp2 is before cmp10.
func naturalOrder(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		m, n := digits(x), digits(y)
		if m > 0 && n > 0 {
			p, q := strings.TrimLeft(x[:m], "0"), strings.TrimLeft(y[:n], "0")
			if order := cmp.Or(cmp.Compare(len(p), len(q)), strings.Compare(p, q)); order != 0 {
				return order
			}
			x, y = x[m:], y[n:]
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}

// digits returns how many digits a text begins with.
func digits(text string) int { return len(text) - len(strings.TrimLeft(text, "0123456789")) }
