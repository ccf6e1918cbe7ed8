// The program flamegraphs runs benchmarks whose goals docs/benchmarks.md names as missed, with the services in the
// process of the benchmark, and draws where their processor time goes into docs/flames/. `make bench-flames` runs it.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/google/pprof/profile"
)

// subject is a benchmark of internal/bench whose profile is drawn.
type subject struct {
	file, title, benchmark, times string
}

var subjects = []subject{
	{"schedule", "Servers with a device: choose a host of 1,000 and claim", "BenchmarkSchedule$/.*/flavor=device",
		"4000x"},
	{"claim-sqlite", "Claims on SQLite, 64 clients", "BenchmarkClaim$/SQLite/clients=64", "20000x"},
	{"bound-ports", "Ports with guaranteed bandwidth, each with a server", "BenchmarkBoundPorts$", "2000x"},
}

// fixtures are functions of the benchmarks that prepare what is measured; their time is left out.
var fixtures = []string{"startFleetOf", "startPortFleet", "startPlacement", "standardNames", "loadReported"}

func main() {
	dir := flag.String("docs", "docs", "directory in which flames/ gets the pictures")
	only := flag.String("only", "", "draw only this picture")
	flag.Parse()
	if err := run(context.Background(), *dir, *only); err != nil {
		fmt.Fprintln(os.Stderr, "flamegraphs:", err)
		os.Exit(1)
	}
}

// run measures and draws the subjects one after the other.
func run(ctx context.Context, dir, only string) error {
	drawn := 0
	for _, s := range subjects {
		if only != "" && only != s.file {
			continue
		}
		fmt.Fprintln(os.Stderr, s.title)
		p, err := s.measure(ctx)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, "flames", s.file+".svg")
		picture := draw(s.title, tree(p, fixtures))
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(picture), 0o644))
		if err != nil {
			return err
		}
		drawn++
	}
	if drawn == 0 {
		return fmt.Errorf("no picture is named %q: see internal/flamegraphs/main.go", only)
	}
	return nil
}

// measure runs the benchmark and returns its profile.
func (s subject) measure(ctx context.Context) (*profile.Profile, error) {
	dir, err := os.MkdirTemp("", "flamegraphs-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "cpu.out")
	test := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", s.benchmark, "-benchtime", s.times, "-timeout",
		"30m", "-o", filepath.Join(dir, "bench.test"), "-cpuprofile", file, "./internal/bench", "-inprocess")
	out, err := test.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", test, err, out)
	}
	if !bytes.Contains(out, []byte("ns/op")) {
		return nil, fmt.Errorf("%s ran no benchmark:\n%s", test, out)
	}
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	return profile.Parse(opened)
}
