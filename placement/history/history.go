// Package history encodes how much of each resource class there was and was used, by the minute, in texts for the rows
// of a database: one for each hour.
//
// A text has the minutes that were recorded, and the changes of each class. So a minute in which nothing has changed
// makes it hardly longer, and a minute in which no Placement ran is known to be missing.
package history

import (
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

// Row is one hour, of all providers or of an aggregate.
type Row struct {
	Hour int64 // since 1970, in UTC
	Text string
}

// content is what a text has. Its first line is a number in hexadecimal digits: its bit n is set if minute n was
// recorded. Each further line has the name of a class in quotes, and a part "MINUTE:TOTAL,RESERVED,USED" for each
// minute in which its stock differs from that of the minute before. Before the first part the class has no stock.
type content struct {
	recorded uint64
	classes  map[resource.Class]string // without the name
}

// change is a part of a class.
type change struct {
	minute int
	stock  index.Stock
}

// Add returns the text of a row with the stocks of a minute, counted since 1970, in its hour. It returns "" if the
// minute or a later one was recorded before, as after the clock was set back.
func (r Row) Add(minute int64, stocks map[resource.Class]index.Stock) (string, error) {
	at := int(minute % Minutes)
	c, err := r.content()
	if err != nil || c.recorded>>at != 0 {
		return "", err
	}
	c.recorded |= 1 << at
	now := map[resource.Class]index.Stock{}
	maps.Copy(now, stocks)
	for class := range c.classes {
		now[class] = stocks[class] // zero: a class without stock now
	}
	for class, stock := range now {
		var last index.Stock
		if text := c.classes[class]; text != "" {
			one, err := r.change(text[strings.LastIndexByte(text, ' ')+1:])
			if err != nil {
				return "", err
			}
			last = one.stock
		}
		if last == stock {
			continue
		}
		part := fmt.Sprintf(" %d:%d,%d,%d", at, stock.Total, stock.Reserved, stock.Used)
		c.classes[class] = strings.TrimSpace(c.classes[class] + part)
	}
	return c.text(), nil
}

// text encodes what content decodes.
func (c content) text() string {
	var b strings.Builder
	b.WriteString(strconv.FormatUint(c.recorded, 16))
	for _, class := range slices.Sorted(maps.Keys(c.classes)) {
		b.WriteString("\n" + strconv.Quote(string(class)) + " " + c.classes[class])
	}
	return b.String()
}

// content decodes the text of a row. Without a text nothing was recorded.
func (r Row) content() (content, error) {
	c := content{classes: map[resource.Class]string{}}
	if r.Text == "" {
		return c, nil
	}
	first, rest, _ := strings.Cut(r.Text, "\n")
	var err error
	if c.recorded, err = strconv.ParseUint(first, 16, 64); err != nil || c.recorded >= 1<<Minutes {
		return c, r.damaged()
	}
	for line := range strings.SplitSeq(rest, "\n") {
		if rest == "" {
			break
		}
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return c, r.damaged()
		}
		name, err := strconv.Unquote(quoted)
		if err != nil {
			return c, r.damaged()
		}
		c.classes[resource.Class(name)] = strings.TrimPrefix(line[len(quoted):], " ")
	}
	return c, nil
}

// changes returns the changes of a class.
func (r Row) changes(text string) ([]change, error) {
	list := make([]change, 0, strings.Count(text, ":"))
	for part := range strings.FieldsSeq(text) {
		one, err := r.change(part)
		if err != nil || len(list) > 0 && list[len(list)-1].minute >= one.minute {
			return nil, r.damaged()
		}
		list = append(list, one)
	}
	return list, nil
}

// change returns one change of a class.
func (r Row) change(part string) (change, error) {
	var n [4]int
	for i, separator := range []string{":", ",", ",", ""} {
		text, rest, found := part, "", true
		if separator != "" {
			text, rest, found = strings.Cut(part, separator)
		}
		var err error
		if n[i], err = strconv.Atoi(text); err != nil || !found || n[i] < 0 {
			return change{}, r.damaged()
		}
		part = rest
	}
	if n[0] >= Minutes {
		return change{}, r.damaged()
	}
	return change{n[0], index.Stock{Total: n[1], Reserved: n[2], Used: n[3]}}, nil
}

// damaged returns the error of a text that this package has not written.
func (r Row) damaged() error {
	return fault.New(fault.Internal, "a row of hour %d in berth_usage_history is damaged; delete the rows of this "+
		"hour", r.Hour)
}

// Range are the minutes of a question: Steps times Step minutes from the minute From on, counted since 1970.
type Range struct {
	From    int64
	Step    int
	Steps   int
	Classes []resource.Class // of which it is; empty: of all
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
		c, err := row.content()
		if err != nil {
			return nil, err
		}
		recorded[row.Hour] = c.recorded
		for class, text := range c.classes {
			if len(r.Classes) > 0 && !slices.Contains(r.Classes, class) {
				continue
			}
			if changes[class] == nil {
				changes[class] = map[int64][]change{}
			}
			if changes[class][row.Hour], err = row.changes(text); err != nil {
				return nil, err
			}
		}
	}
	out, inOrder := map[resource.Class][]*index.Stock{}, slices.Sorted(maps.Keys(recorded))
	for class, hours := range changes {
		values, list, some := make([]index.Stock, r.Steps), make([]*index.Stock, r.Steps), false
		for _, hour := range inOrder {
			r.eachMinute(hour*Minutes, recorded[hour], hours[hour], func(step int64, stock index.Stock) {
				if list[step] == nil || stock.Used > list[step].Used {
					list[step], values[step] = &values[step], stock
				}
				some = some || stock != (index.Stock{})
			})
		}
		if some {
			out[class] = list
		}
	}
	return out, nil
}

// eachMinute passes each recorded minute of an hour, which begins at the minute first, with the stock of a class and
// the step of the range in which the minute is.
func (r Range) eachMinute(first int64, recorded uint64, changes []change, each func(int64, index.Stock)) {
	var stock index.Stock
	for rest := recorded; rest != 0; rest &= rest - 1 {
		at := bits.TrailingZeros64(rest)
		for len(changes) > 0 && changes[0].minute <= at {
			stock, changes = changes[0].stock, changes[1:]
		}
		if minute := first + int64(at); minute >= r.From && minute < r.end() {
			each((minute-r.From)/int64(r.Step), stock)
		}
	}
}

// MinStep returns the smallest step, in minutes, that divides minutes into at most most steps.
func MinStep(minutes int64, most int) int {
	return max(int(min((minutes+int64(most)-1)/int64(most), math.MaxInt32)), 1)
}
