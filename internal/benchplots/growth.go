package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// point is a figure at one size.
type point struct {
	size  int
	value float64
}

// curve is a figure at several sizes.
type curve struct {
	label  string
	unit   string
	points []point
}

// exponent returns the slope of the straight line that fits best between the logarithms of the sizes and the figures:
// 0 if the figure does not depend on the size, 1 if it is proportional to it. It needs two sizes or more.
func (c curve) exponent() float64 {
	var sx, sy, sxx, sxy float64
	for _, p := range c.points {
		x, y := math.Log(float64(p.size)), math.Log(p.value)
		sx, sy, sxx, sxy = sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	n := float64(len(c.points))
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}

// figures are the figures of one benchmark by their units.
type figures map[string]float64

// parse reads the output of `go test -bench`: the figures of each benchmark by its name, without the number of
// processors at its end.
func parse(output string) (map[string]figures, error) {
	all := map[string]figures{}
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") || len(fields)%2 != 0 {
			continue
		}
		name := fields[0]
		if at := strings.LastIndexByte(name, '-'); at > 0 {
			name = name[:at]
		}
		all[name] = figures{}
		for i := 2; i < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("the figure %q of %s is not a number", fields[i], name)
			}
			all[name][fields[i+1]] = value
		}
	}
	return all, nil
}

// rounded writes a figure with two or three digits.
func rounded(v float64) string {
	switch {
	case v >= 1000:
		return grouped(int(math.Round(v)))
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 1:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// grouped writes a number with a comma after each thousand.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
