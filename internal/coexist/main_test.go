package coexist

import (
	"flag"
	"log"
	"os"
	"testing"
	"time"

	"github.com/openberth/berth/internal/bench"
)

var (
	seeds    = flag.Int("coexist.seeds", 1, "number of seeds of each race")
	first    = flag.Uint64("coexist.seed", 1, "the first seed")
	claims   = flag.Int("coexist.claims", 20, "number of claims that each server must grant before a race ends")
	interval = flag.Duration("coexist.interval", 200*time.Millisecond, "[berth] index_refresh_interval")

	retries = flag.Int("coexist.retries", 1, "[placement] allocation_conflict_retry_count of OpenStack's Placement on "+
		"MariaDB. With its default, 10, it oversubscribes, also alone")

	program string // the binary under test; set once by TestMain
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() { // every test that runs a server is skipped
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "berth-coexist-")
	if err != nil {
		log.Fatal(err)
	}
	if program, err = bench.Build(dir); err != nil {
		log.Fatal(err)
	}
	status := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		log.Fatal(err)
	}
	os.Exit(status)
}
