// Package history encodes how much of each resource class there was and was used, by the minute, in rows of a database.
//
// A row has the changes of one class in one hour, and each hour has a row without a class: the minutes that were
// recorded. So a minute in which nothing has changed costs one short row, and a minute in which no Placement ran is
// known to be missing.
package history

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

// Hours is how many hours are kept: a month of 31 days.
const Hours = 31 * 24

// Minutes is how many minutes an hour has.
const Minutes = 60

// Row is a row of the database.
type Row struct {
	Hour  int64          // since 1970, in UTC
	Class resource.Class // empty: Text has the minutes that were recorded
	Text  string
}

// A text of recorded minutes is a number in hexadecimal digits: its bit n is set if minute n was recorded. The text of
// a class has a part "MINUTE:TOTAL,RESERVED,USED" for each minute in which the stock differs from that of the minute
// before, separated by spaces. Before the first part the class has no stock.

// change is a part of the text of a class.
type change struct {
	minute int
	stock  index.Stock
}

// Add returns the rows that record the stocks of a minute, counted since 1970: those that are new or changed. rows are
// those of its hour. The row of the recorded minutes comes first. There are none if the minute or a later one was
// recorded before, as after the clock was set back.
func Add(rows []Row, minute int64, stocks map[resource.Class]index.Stock) ([]Row, error) {
	hour, at := minute/Minutes, int(minute%Minutes)
	recorded, texts := uint64(0), map[resource.Class]string{}
	for _, row := range rows {
		if row.Class != "" {
			texts[row.Class] = row.Text
			continue
		}
		var err error
		if recorded, err = row.recorded(); err != nil {
			return nil, err
		}
	}
	if recorded>>at != 0 {
		return nil, nil
	}
	out := []Row{{Hour: hour, Text: strconv.FormatUint(recorded|1<<at, 16)}}
	classes := maps.Clone(stocks)
	for class := range texts {
		classes[class] = stocks[class] // a class without stock now
	}
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		row := Row{Hour: hour, Class: class, Text: texts[class]}
		changes, err := row.changes()
		if err != nil {
			return nil, err
		}
		stock := classes[class]
		if last := len(changes) - 1; last >= 0 && changes[last].stock == stock || last < 0 && stock == (index.Stock{}) {
			continue
		}
		part := fmt.Sprintf("%d:%d,%d,%d", at, stock.Total, stock.Reserved, stock.Used)
		row.Text = strings.TrimSpace(row.Text + " " + part)
		out = append(out, row)
	}
	return out, nil
}

// recorded returns the recorded minutes of a row without a class.
func (r Row) recorded() (uint64, error) {
	n, err := strconv.ParseUint(r.Text, 16, 64)
	if err != nil || n >= 1<<Minutes {
		return 0, r.damaged()
	}
	return n, nil
}

// changes returns the changes of a row with a class.
func (r Row) changes() ([]change, error) {
	var list []change
	for part := range strings.FieldsSeq(r.Text) {
		minute, numbers, _ := strings.Cut(part, ":")
		var n [4]int
		texts := append([]string{minute}, strings.Split(numbers, ",")...)
		if len(texts) != len(n) {
			return nil, r.damaged()
		}
		for i, text := range texts {
			var err error
			if n[i], err = strconv.Atoi(text); err != nil || n[i] < 0 {
				return nil, r.damaged()
			}
		}
		one := change{n[0], index.Stock{Total: n[1], Reserved: n[2], Used: n[3]}}
		if one.minute >= Minutes || len(list) > 0 && list[len(list)-1].minute >= one.minute {
			return nil, r.damaged()
		}
		list = append(list, one)
	}
	return list, nil
}

// damaged returns the error of a text that this package has not written.
func (r Row) damaged() error {
	return fault.New(fault.Internal, "the row of hour %d and class %q of the usage history is damaged; delete it", r.Hour,
		string(r.Class))
}

// Range are the minutes of a question: Steps times Step minutes from the minute From on, counted since 1970.
type Range struct {
	From  int64
	Step  int
	Steps int
}

// Hours returns the first and the last hour of the range.
func (r Range) Hours() (first, last int64) { return r.From / Minutes, (r.end() - 1) / Minutes }

func (r Range) end() int64 { return r.From + int64(r.Step)*int64(r.Steps) }

// Sample returns the stock of each class in each step: that of the first minute in which most was used, so a longer
// step hides no peak. It is nil if no minute of the step was recorded. A class that had nothing in the whole range has
// no list. It returns an error if a row is damaged.
func (r Range) Sample(rows []Row) (map[resource.Class][]*index.Stock, error) {
	recorded, changes := map[int64]uint64{}, map[resource.Class]map[int64][]change{}
	for _, row := range rows {
		var err error
		if row.Class == "" {
			if recorded[row.Hour], err = row.recorded(); err != nil {
				return nil, err
			}
			continue
		}
		if changes[row.Class] == nil {
			changes[row.Class] = map[int64][]change{}
		}
		if changes[row.Class][row.Hour], err = row.changes(); err != nil {
			return nil, err
		}
	}
	out := map[resource.Class][]*index.Stock{}
	for class, hours := range changes {
		list, some := make([]*index.Stock, r.Steps), false
		for _, hour := range slices.Sorted(maps.Keys(recorded)) {
			some = r.sampleHour(list, hour*Minutes, recorded[hour], hours[hour]) || some
		}
		if some {
			out[class] = list
		}
	}
	return out, nil
}

// sampleHour adds the recorded minutes of an hour, which begins at the minute first, to the steps of a class. It
// reports whether the class had anything.
func (r Range) sampleHour(list []*index.Stock, first int64, recorded uint64, changes []change) (some bool) {
	for rest := recorded; rest != 0; rest &= rest - 1 {
		at := bits.TrailingZeros64(rest)
		minute := first + int64(at)
		if minute < r.From || minute >= r.end() {
			continue
		}
		n, found := slices.BinarySearchFunc(changes, at, func(c change, at int) int { return cmp.Compare(c.minute, at) })
		if found {
			n++
		}
		var stock index.Stock
		if n > 0 {
			stock = changes[n-1].stock
		}
		step := (minute - r.From) / int64(r.Step)
		if old := list[step]; old == nil || stock.Used > old.Used {
			list[step] = new(stock)
		}
		some = some || stock != (index.Stock{})
	}
	return some
}

// MinStep returns the smallest step, in minutes, that divides minutes into at most most steps.
func MinStep(minutes int64, most int) int {
	return max(int(min((minutes+int64(most)-1)/int64(most), math.MaxInt32)), 1)
}
