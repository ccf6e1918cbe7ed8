package main

import (
	"encoding/xml"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	all, err := parse("goos: linux\nBenchmarkFleet/clients=4-2  \t 600\t  1234 ns/op\t 7.7 p50-ms\t 30 p99-ms\n" +
		"PASS\nok  \tx\t1.2s\n")
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	if f := find(all, "clients=4"); f["p50-ms"] != 7.7 || f["p99-ms"] != 30 || f["ns/op"] != 1234 {
		t.Error(f)
	}
	if f := find(all, "clients=8"); f != nil {
		t.Error(f)
	}
	if _, err := parse("BenchmarkX 1 many ns/op\n"); err == nil || !strings.Contains(err.Error(), `"many"`) {
		t.Error(err)
	}
}

func TestExponent(t *testing.T) {
	for name, c := range map[string]struct {
		value func(size float64) float64
		want  float64
	}{
		"constant":     {func(float64) float64 { return 7 }, 0},
		"proportional": {func(n float64) float64 { return 3 * n }, 1},
		"square root":  {math.Sqrt, 0.5},
		"inverse":      {func(n float64) float64 { return 1e6 / n }, -1},
	} {
		var of curve
		for _, size := range []int{100, 1000, 10_000} {
			of.points = append(of.points, point{size, c.value(float64(size))})
		}
		if got := of.exponent(); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A plot is well-formed, says in words what it shows, and has each point inside of its axes.
func TestPlot(t *testing.T) {
	text := plot("Queries & claims", "hosts", []curve{
		{"median", "ms", []point{{1000, 0.7}, {10_000, 7.7}, {100_000, 81}}},
		{"99 %", "ms", []point{{1000, 3}, {10_000, 30}, {100_000, 310}}},
	})
	in, circles := xml.NewDecoder(strings.NewReader(text)), 0
	for {
		token, err := in.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "circle" {
			circles++
		}
	}
	const words = "median: 0.7 ms at 1,000, 7.7 ms at 10,000, 81 ms at 100,000; exponent 1.03"
	if circles != 6 || !strings.Contains(text, words) {
		t.Errorf("%d points:\n%s", circles, text)
	}
	x := newAxis(1000, 100_000, left, width-right)
	if x.at(1000) != left || x.at(100_000) != width-right || newAxis(5, 5, 0, 1).at(5) > 1 {
		t.Error(x)
	}
}

// The results of a subject replace those of an earlier run, and nothing else.
func TestWriteSection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "benchmarks.md")
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(path, []byte("before\n"+sectionBegin+"old\n"+sectionEnd+"after\n"), 0o600))
	all := subjects()
	first, second := all[0], all[1]
	points := func(value float64) []curve {
		return []curve{{"median", "ms", []point{{10, value}, {100, 10 * value}}}}
	}
	for _, of := range []struct {
		subject
		value float64
	}{{second, 1}, {first, 7}, {second, 2}} {
		must(writeSection(path, of.rows(points(of.value))))
	}
	text, err := os.ReadFile(path)
	must(err)
	want := "before\n" + sectionBegin + `
| Subject | Size | Figure | Unit and values | Exponent |
|---|---|---|---|---|
| ` + first.title + " | " + first.of + ` | median | ms: 7.0 at 10, 70 at 100 | 1.00 |
| ` + second.title + " | " + second.of + ` | median | ms: 2.0 at 10, 20 at 100 | 1.00 |
`
	got := string(text)
	if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, sectionEnd+"after\n") ||
		strings.Count(got, "](growth/"+first.plotName(first.curves[0].unit)+".svg)") != 1 {
		t.Errorf("%s, want\n%s", got, want)
	}
	must(os.WriteFile(path, []byte("nothing"), 0o600))
	if err := writeSection(path, nil); err == nil || !strings.Contains(err.Error(), "add them") {
		t.Error(err)
	}
}

// The benchmarks that the subjects name exist, and so do their flags.
func TestSubjectsExist(t *testing.T) {
	for _, s := range subjects() {
		files, err := filepath.Glob(filepath.Join("..", "..", s.pkg, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", s.pkg, len(files), err)
		}
		var source strings.Builder
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
		name, _, _ := strings.Cut(s.benchmark, "$")
		for _, want := range []string{"func " + name + "(", `"` + s.flag + `"`} {
			if !strings.Contains(source.String(), want) {
				t.Errorf("%s: %s does not have %s", s.file, s.pkg, want)
			}
		}
		for _, c := range s.curves {
			if unit := strings.TrimPrefix(c.metric, "servers"); !strings.Contains(source.String(), unit) {
				t.Errorf("%s: no benchmark reports %s", s.file, c.metric)
			}
		}
	}
}
