package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/resource"
)

// The size of a curve in pixels, and the part of it below the plot, which has the times.
const (
	curveWidth  = 376
	curveTop    = 4
	curveBottom = 84
)

// Curve is the drawing of how a class was used over time. Used grows from the bottom, reserved hangs from the total.
type Curve struct {
	Class resource.Class
	Text  string // the last numbers
	Label string // the text alternative
	Paths []Path
}

// Curves returns the curves of the classes of a history, by name. span is its length in words.
func Curves(h placement.UsageHistory, span string) (list []Curve) {
	for class, stocks := range h.Classes {
		if d := (drawing{UsageHistory: h, stocks: stocks}); d.measure() {
			text, label := d.words(span)
			list = append(list, Curve{Class: class, Text: text, Label: string(class) + ", " + label, Paths: d.paths()})
		}
	}
	slices.SortFunc(list, func(a, b Curve) int { return cmp.Compare(a.Class, b.Class) })
	return list
}

// drawing is a curve that is made.
type drawing struct {
	placement.UsageHistory
	stocks           []*placement.StockAt
	scale            int // what the height of the plot is
	last, most, gaps int // the last recorded step, the first with most used, and how many were not recorded
}

// measure sets the other fields. It reports whether any step was recorded.
func (d *drawing) measure() (some bool) {
	d.scale = 1
	for i, s := range d.stocks {
		if s == nil {
			d.gaps++
			continue
		}
		if !some || s.Used > d.stocks[d.most].Used {
			d.most = i
		}
		d.last, some, d.scale = i, true, max(d.scale, s.Total, s.Used)
	}
	return some
}

// words returns the last numbers, and the text alternative without the class.
func (d *drawing) words(span string) (text, label string) {
	last, most := d.stocks[d.last], d.stocks[d.most]
	text = fmt.Sprintf("%s of %s used", Number(last.Used), Number(last.Total))
	if last.Reserved > 0 {
		text += fmt.Sprintf(", %s reserved", Number(last.Reserved))
	}
	if d.last < len(d.stocks)-1 {
		text += " on " + d.time(d.last)
	}
	label = fmt.Sprintf("%s: %s; at most %s of %s on %s", span, text, Number(most.Used), Number(most.Total),
		d.time(d.most))
	if most.Used > last.Used {
		text += ", at most " + Number(most.Used)
	}
	if d.gaps > 0 {
		label += fmt.Sprintf("; not recorded: %s of %s", Number(d.gaps), Plural(len(d.stocks), "step"))
	}
	return text, label
}

// time returns the beginning of a step for people, in UTC.
func (d *drawing) time(step int) string {
	return d.From.Add(time.Duration(step*d.Step) * time.Minute).UTC().Format("2 Jan 15:04")
}

// paths returns the shapes, from the back to the front.
func (d *drawing) paths() (list []Path) {
	var gaps, used, usedTop, reserved, total strings.Builder
	for from := 0; from < len(d.stocks); {
		to := from + 1
		for to < len(d.stocks) && (d.stocks[to] == nil) == (d.stocks[from] == nil) {
			to++
		}
		if d.stocks[from] == nil {
			fmt.Fprintf(&gaps, "M%s %dH%sV%dH%sz", d.x(from), curveTop, d.x(to), curveBottom, d.x(from))
		} else {
			top := d.stairs(from, to, func(s *placement.StockAt) int { return s.Used })
			free := d.stairs(from, to, func(s *placement.StockAt) int { return s.Total - s.Reserved })
			all := d.stairs(from, to, func(s *placement.StockAt) int { return s.Total })
			fmt.Fprintf(&used, "M%sV%dH%sz", top, curveBottom, d.x(from))
			usedTop.WriteString("M" + top)
			total.WriteString("M" + all)
			if d.reserves(from, to) {
				fmt.Fprintf(&reserved, "M%sV%dH%szM%sV%dH%sz", all, curveBottom, d.x(from), free, curveBottom, d.x(from))
			}
		}
		from = to
	}
	for _, p := range []Path{{"grid", d.grid()}, {"gp", gaps.String()}, {"a2", reserved.String()},
		{"ht", reserved.String()}, {"a1", used.String()}, {"a0", usedTop.String()}, {"tot", total.String()}} {
		if p.D != "" {
			list = append(list, p)
		}
	}
	return list
}

// reserves reports whether anything was reserved in one of the steps from from to to.
func (d *drawing) reserves(from, to int) bool {
	return slices.ContainsFunc(d.stocks[from:to], func(s *placement.StockAt) bool { return s.Reserved > 0 })
}

// stairs returns the line of a number over recorded steps, without the M before it.
func (d *drawing) stairs(from, to int, of func(*placement.StockAt) int) string {
	var b strings.Builder
	at := d.y(of(d.stocks[from]))
	b.WriteString(d.x(from) + " " + at)
	for i := from + 1; i < to; i++ {
		if next := d.y(of(d.stocks[i])); next != at {
			b.WriteString("H" + d.x(i) + "V" + next)
			at = next
		}
	}
	return b.String() + "H" + d.x(to)
}

// grid returns the baseline, and a vertical line at each quarter.
func (d *drawing) grid() string {
	text := fmt.Sprintf("M0 %dH%d", curveBottom, curveWidth)
	for i := 1; i < 4; i++ {
		text += fmt.Sprintf("M%d %dV%d", curveWidth*i/4, curveTop, curveBottom)
	}
	return text
}

func (d *drawing) x(step int) string { return short(float64(curveWidth*step) / float64(len(d.stocks))) }

func (d *drawing) y(n int) string {
	part := float64(min(max(n, 0), d.scale)) / float64(d.scale)
	return short(curveBottom - part*(curveBottom-curveTop))
}

// short returns a number with at most one decimal.
func short(n float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0") }
