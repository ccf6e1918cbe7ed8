package sim

import (
	"os"
	"strconv"
	"testing"
)

func number(t *testing.T, name string, usual uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func TestSeeds(t *testing.T) {
	ops, first := number(t, "OPS", 50000), number(t, "SEED", 1)
	r := Run(Options{Seed: first, Ops: int(ops)})
	t.Logf("%+v", r.Done)
	t.Logf("rests %d deepest %d %v", r.Rests, r.Deepest, r.Happened)
	if r.Failure != "" {
		t.Error(r.Failure)
	}
}
