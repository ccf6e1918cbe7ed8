package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The picture in pixels: its size, and the space around the axes.
const (
	width, height            = 560, 340
	left, right, top, bottom = 70, 20, 64, 44
)

// colours are those of the curves, which differ in brightness, too.
var colours = []string{"#0b4f8a", "#c2571a", "#3c7d3c", "#8a4fa0"}

// axis maps the figures of whole decades to pixels.
type axis struct {
	low, high int // the powers of ten at its ends
	from, to  float64
}

func newAxis(least, most, from, to float64) axis {
	a := axis{low: int(math.Floor(math.Log10(least))), high: int(math.Ceil(math.Log10(most))), from: from, to: to}
	if a.high == a.low {
		a.high++
	}
	return a
}

func (a axis) at(v float64) float64 {
	return a.from + (math.Log10(v)-float64(a.low))/float64(a.high-a.low)*(a.to-a.from)
}

// plot draws curves of one unit as SVG, with a logarithmic scale on both axes, and the exponent of each. A straight
// line is a power of the size.
func plot(title, of string, curves []curve) string {
	least, most, smallest, largest := math.Inf(1), 0.0, math.Inf(1), 0.0
	var text []string
	for _, c := range curves {
		for _, p := range c.points {
			least, most = min(least, p.value), max(most, p.value)
			smallest, largest = min(smallest, float64(p.size)), max(largest, float64(p.size))
		}
		text = append(text, describe(c))
	}
	x := newAxis(smallest, largest, left, width-right)
	y := newAxis(least, most, height-bottom, top)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" `+
		`font-family="sans-serif" font-size="12" fill="#222">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<desc>%s</desc>\n", html.EscapeString(title),
		html.EscapeString(strings.Join(text, ". ")))
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%d" y="18" font-size="14" font-weight="bold">%s</text>`+"\n", left, html.EscapeString(title))
	grid(&b, x, y, of, curves[0].unit)
	for i, c := range curves {
		draw(&b, x, y, c, colours[i%len(colours)], i)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// grid draws a line for each power of ten.
func grid(b *strings.Builder, x, y axis, of, unit string) {
	for power := x.low; power <= x.high; power++ {
		at := x.at(math.Pow10(power))
		fmt.Fprintf(b, `<path d="M%.1f %d V%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n",
			at, top, height-bottom, at, height-bottom+16, rounded(math.Pow10(power)))
	}
	for power := y.low; power <= y.high; power++ {
		at := y.at(math.Pow10(power))
		fmt.Fprintf(b, `<path d="M%d %.1f H%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, at, width-right, left-6, at+4, rounded(math.Pow10(power)))
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", width-right, height-8, html.EscapeString(of))
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", 8, top-8, html.EscapeString(unit))
}

// draw draws a curve with its points and its row of the legend.
func draw(b *strings.Builder, x, y axis, c curve, colour string, row int) {
	var path strings.Builder
	for i, p := range c.points {
		fmt.Fprintf(&path, "%c%.1f %.1f ", "ML"[min(i, 1)], x.at(float64(p.size)), y.at(p.value))
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.TrimSpace(path.String()),
		colour)
	for _, p := range c.points {
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`+"\n", x.at(float64(p.size)), y.at(p.value), colour)
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="%s">%s</text>`+"\n",
			min(max(x.at(float64(p.size)), left+14), width-right-14), y.at(p.value)-8, colour, rounded(p.value))
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" fill="%s">%s: exponent %.2f</text>`+"\n", left+row%2*240, 36+row/2*15, colour,
		html.EscapeString(c.label), c.exponent())
}

// describe says in words what a curve shows.
func describe(c curve) string {
	var all []string
	for _, p := range c.points {
		all = append(all, fmt.Sprintf("%s %s at %s", rounded(p.value), c.unit, grouped(p.size)))
	}
	return fmt.Sprintf("%s: %s; exponent %.2f", c.label, strings.Join(all, ", "), c.exponent())
}
