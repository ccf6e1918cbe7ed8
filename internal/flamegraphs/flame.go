package main

import (
	"cmp"
	"fmt"
	"html"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// The picture in pixels. A frame that is narrower than thinnest is left out, and so is what is deeper than deepest.
const (
	width    = 1200
	row      = 16
	head     = 56
	letter   = 6.2 // width of a letter on average
	thinnest = 2
	deepest  = 48
)

// frame is a function with the processor time, in nanoseconds, of all its stacks that begin in the same way.
type frame struct {
	name     string
	time     int64
	children map[string]*frame
}

// tree returns the frame above all stacks of a profile. Stacks with a function whose name contains one of without are
// left out.
func tree(p *profile.Profile, without []string) *frame {
	all := &frame{name: "all"}
	for _, sample := range p.Sample {
		stack := names(sample)
		if slices.ContainsFunc(stack, func(name string) bool {
			return slices.ContainsFunc(without, func(part string) bool { return strings.Contains(name, part) })
		}) {
			continue
		}
		time := sample.Value[len(sample.Value)-1]
		all.time += time
		at := all
		for _, name := range stack {
			if at.children == nil {
				at.children = map[string]*frame{}
			}
			next := at.children[name]
			if next == nil {
				next = &frame{name: name}
				at.children[name] = next
			}
			next.time += time
			at = next
		}
	}
	return all
}

// names returns the functions of a sample, the outermost first.
func names(s *profile.Sample) (list []string) {
	for _, location := range slices.Backward(s.Location) {
		for _, line := range slices.Backward(location.Line) { // a location has the innermost of inlined functions first
			list = append(list, short(line.Function.Name))
		}
	}
	return list
}

var typeArguments = regexp.MustCompile(`\[.*\]`)

// short returns the name of a function without the module and without type arguments.
func short(name string) string {
	return typeArguments.ReplaceAllString(strings.TrimPrefix(name, "github.com/openberth/berth/"), "")
}

// kinds are the colours of functions by the beginnings of their names, and what they are; the last is for all others.
var kinds = []struct {
	beginnings   []string
	colour, what string
}{
	{[]string{"modernc.org/", "database/sql", "sqldb"}, "#f0b27a", "SQLite and its driver"},
	{[]string{"net/http", "net.", "net/", "bufio", "crypto/"}, "#a9d18e", "HTTP and connections"},
	{[]string{"encoding/", "reflect"}, "#c9b3e6", "JSON"},
	{[]string{"runtime", "internal/runtime", "sync", "internal/sync", "syscall", "internal/poll", "internal/syscall"},
		"#d0d0d0", "Go's runtime, garbage collection, system calls"},
	{[]string{"internal/bench", "testing"}, "#f7e08a", "clients of the benchmark"},
	{nil, "#9cc3e6", "Berth and other libraries"},
}

func colour(name string) string {
	for _, k := range kinds {
		begins := func(with string) bool { return strings.HasPrefix(name, with) }
		if k.beginnings == nil || slices.ContainsFunc(k.beginnings, begins) {
			return k.colour
		}
	}
	return ""
}

// draw draws a flame graph as SVG: the callers above, the width of each function its part of the time. Each has a title
// with its full name and its part.
func draw(title string, all *frame) string {
	var frames strings.Builder
	depth := drawBelow(&frames, all, all, 0, 0)
	height := head + (depth+1)*row + 8
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" `+
		`font-family="sans-serif" font-size="11" fill="#222">`+"\n<title>%s</title>\n", width, height, width, height,
		html.EscapeString(title))
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="8" y="20" font-size="14" font-weight="bold">%s</text>`+"\n", html.EscapeString(title))
	at := 8
	for _, k := range kinds {
		fmt.Fprintf(&b, `<rect x="%d" y="32" width="10" height="10" fill="%s"/><text x="%d" y="41">%s</text>`+"\n", at,
			k.colour, at+14, html.EscapeString(k.what))
		at += 30 + int(float64(len(k.what))*letter)
	}
	b.WriteString(frames.String())
	b.WriteString("</svg>\n")
	return b.String()
}

// drawBelow draws a frame and those that it calls, by name, and returns the depth of the deepest.
func drawBelow(b *strings.Builder, all, f *frame, from, depth int) (reached int) {
	scale := float64(width) / float64(max(all.time, 1))
	wide := float64(f.time) * scale
	if wide < thinnest || depth > deepest {
		return depth - 1
	}
	x, y := float64(from)*scale, head+depth*row
	fmt.Fprintf(b, `<g><title>%s: %.1f %%</title><rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s" stroke="#fff" `+
		`stroke-width="0.5"/>`, html.EscapeString(f.name), 100*float64(f.time)/float64(max(all.time, 1)), x, y, wide, row-1,
		colour(f.name))
	if letters := int(wide / letter); letters >= 4 {
		fmt.Fprintf(b, `<text x="%.1f" y="%d">%s</text>`, x+2, y+row-5, html.EscapeString(cut(f.name, letters)))
	}
	b.WriteString("</g>\n")
	reached = depth
	for _, child := range slices.SortedFunc(maps.Values(f.children), func(a, b *frame) int {
		return cmp.Compare(a.name, b.name)
	}) {
		reached = max(reached, drawBelow(b, all, child, from, depth+1))
		from += int(child.time)
	}
	return reached
}

// cut returns at most n letters of a name: its end, which has the function.
func cut(name string, n int) string {
	if len(name) <= n {
		return name
	}
	return "…" + name[len(name)-n+1:]
}
