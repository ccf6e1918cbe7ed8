// The program benchplots measures how Berth's figures grow: it runs benchmarks at several sizes, writes a plot of each
// subject, and the table of all figures with their exponents into docs/benchmarks.md. `make bench-plots` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	dir := flag.String("docs", "docs", "directory with benchmarks.md, in which growth/ gets the plots")
	only := flag.String("only", "", "measure only this subject, such as fleet; what is written of the others is kept")
	flag.Parse()
	if err := run(context.Background(), *dir, *only); err != nil {
		fmt.Fprintln(os.Stderr, "benchplots:", err)
		os.Exit(1)
	}
}

// run measures the subjects one after the other, and writes the results of each before the next.
func run(ctx context.Context, dir, only string) error {
	measured := false
	for _, s := range subjects() {
		if only != "" && only != s.file {
			continue
		}
		curves, err := s.measure(ctx)
		if err != nil {
			return err
		}
		for _, list := range byUnit(curves) {
			path := filepath.Join(dir, "growth", s.plotName(list[0].unit)+".svg")
			err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
				os.WriteFile(path, []byte(plot(s.title, s.of, list)), 0o644))
			if err != nil {
				return err
			}
		}
		if err := writeSection(filepath.Join(dir, "benchmarks.md"), s.rows(curves)); err != nil {
			return err
		}
		measured = true
	}
	if !measured {
		return fmt.Errorf("no subject is named %q: see internal/benchplots/subjects.go", only)
	}
	return nil
}

// measure runs a subject's benchmark at each size and returns its curves. It prints what it does.
func (s subject) measure(ctx context.Context) ([]curve, error) {
	curves := make([]curve, len(s.curves))
	for i, c := range s.curves {
		curves[i] = curve{label: c.label, unit: c.unit}
	}
	for _, size := range s.sizes {
		began := time.Now()
		fmt.Fprintf(os.Stderr, "%s, %s %s: ", s.title, grouped(size), s.of)
		arguments := append([]string{"test", "-run", "^$", "-bench", s.benchmark, "-timeout", "60m", s.pkg,
			"-" + s.flag, strconv.Itoa(size)}, s.arguments(size)...)
		output, err := exec.CommandContext(ctx, "go", arguments...).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(arguments, " "), err, output)
		}
		found, err := parse(string(output))
		if err != nil {
			return nil, err
		}
		for i, c := range s.curves {
			value, ok := find(found, c.run)[c.metric]
			if !ok || value <= 0 {
				return nil, fmt.Errorf("go %s: no figure %s of %s in\n%s", strings.Join(arguments, " "), c.metric, c.run, output)
			}
			curves[i].points = append(curves[i].points, point{size, value})
		}
		fmt.Fprintln(os.Stderr, time.Since(began).Round(time.Second))
	}
	return curves, nil
}

// find returns the figures of the benchmark whose name contains a text.
func find(all map[string]figures, text string) figures {
	for name, f := range all {
		if strings.Contains(name, text) {
			return f
		}
	}
	return nil
}

// byUnit returns the curves of each unit, in the order of their first ones.
func byUnit(curves []curve) (lists [][]curve) {
	at := map[string]int{}
	for _, c := range curves {
		n, ok := at[c.unit]
		if !ok {
			n, lists = len(lists), append(lists, nil)
			at[c.unit] = n
		}
		lists[n] = append(lists[n], c)
	}
	return lists
}
