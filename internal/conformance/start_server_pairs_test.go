package conformance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/databases"
)

var (
	pairs = flag.Int("lanes", 2, "number of pairs of servers that run at the same time")
	sweep = flag.Int("sweep", 13, "play each sequence at the newest and at every n-th older microversion, "+
		"with different offsets; 1: at all")
	report = flag.String("report", "", "also write the differences to this file")
	berth  = flag.String("berth", os.Getenv("BERTH_CONFORMANCE_BINARY"), "berth program to test; default: build "+
		"it from this tree")
	checks = flag.Int("checks", 20, "number of random sequences and of random worlds; `make conformance` has 200")
	seed   = flag.Uint64("seed", 1, "seed of the random sequences and worlds; 0: a new one at each run")
)

var (
	freePairs chan *Pair // the pairs on SQLite that no test uses
	counts    Counts
	rules     Rules
	program   string // the path of berth
	filesDir  string // for the files of all servers
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		code = 1
	}
	os.Exit(code)
}

// run starts the pairs, runs the tests and ends the pairs.
func run(m *testing.M) (code int, err error) {
	if *seed != 0 {
		if err := flag.Set("rapid.seed", fmt.Sprint(*seed)); err != nil {
			return 1, err
		}
	}
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		return 1, err
	}
	if err := flag.Set("rapid.checks", fmt.Sprint(*checks)); err != nil {
		return 1, err
	}
	dir, err := tempDir()
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program, filesDir = *berth, dir
	if program == "" && !testing.Short() {
		program = filepath.Join(dir, "berth")
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, "./cmd/berth")
		build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0") // as Berth is released
		if out, err := build.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("go build ./cmd/berth: %w\n%s", err, out)
		}
	}
	if rules, err = readRules(); err != nil {
		return 1, err
	}
	if testing.Short() { // takePair skips tests that need a pair
		*pairs = 0
	}
	freePairs = make(chan *Pair, *pairs)
	for lane := range *pairs {
		pair, err := startPair(context.Background(), filepath.Join(dir, fmt.Sprint(lane)), sqliteFile)
		if err != nil {
			return 1, err
		}
		defer func() { err = errors.Join(err, pair.Original.Stop(), pair.Berth.Stop()) }()
		freePairs <- pair
	}
	code = m.Run()
	fmt.Println("conformance:", &counts)
	return code, nil
}

// tempDir creates a directory for the databases, in memory if possible: the data need not be durable.
func tempDir() (string, error) {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return os.MkdirTemp("/dev/shm", "conformance")
	}
	return os.MkdirTemp("", "conformance")
}

// startPair starts both servers of a pair, with their files below dir. database returns the URL of an empty database
// for a server with its files in a directory.
func startPair(ctx context.Context, dir string, database func(dir string) string) (*Pair, error) {
	p := &Pair{Rules: rules, Counts: &counts}
	original, berth := filepath.Join(dir, "original"), filepath.Join(dir, "berth")
	for _, side := range []string{original, berth} {
		if err := os.MkdirAll(side, 0o700); err != nil {
			return nil, err
		}
	}
	var err error
	if p.Original, err = StartOriginal(ctx, original, database(original)); err != nil {
		return nil, err
	}
	if p.Berth, err = StartBerth(ctx, program, berth, database(berth)); err != nil {
		return nil, errors.Join(err, p.Original.Stop())
	}
	return p, nil
}

// pairOn starts a pair whose servers have empty databases of a database server, until the test ends. exceptions has the
// rules for it, which have priority.
func pairOn(t *testing.T, server *databases.Server, exceptions string) *Pair {
	t.Helper()
	more, err := ParseRules(server.Name(), exceptions)
	if err != nil {
		t.Fatal(err)
	}
	// t.Context() would end before the cleanup, and kill the supervisors without their programs.
	p, err := startPair(context.Background(), filepath.Join(filesDir, server.Name()), func(string) string {
		return strings.Replace(server.Database(t), "charset=utf8", "charset=utf8mb4", 1)
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Rules = append(more, p.Rules...)
	t.Cleanup(func() {
		if err := errors.Join(p.Original.Stop(), p.Berth.Stop()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// readRules reads testdata/comparison_exceptions.txt.
func readRules() (Rules, error) {
	const file = "testdata/comparison_exceptions.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return ParseRules(file, string(text))
}

// needOriginal skips the test with -short, because there are no pairs then. The text is that of internal/testenv.
func needOriginal(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("left to make check: needs OpenStack's Placement")
	}
}

// takePair reserves a pair for a test and empties its databases.
func takePair(t testing.TB) *Pair {
	t.Helper()
	needOriginal(t)
	p := <-freePairs
	t.Cleanup(func() { freePairs <- p })
	if err := p.Reset(); err != nil {
		t.Fatal(err)
	}
	return p
}
