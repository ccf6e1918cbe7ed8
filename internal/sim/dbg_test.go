package sim

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestDbg(t *testing.T) {
	n := func(k string) int { i, _ := strconv.Atoi(os.Getenv(k)); return i }
	o := Options{Seed: uint64(n("S")), Ops: n("N"), Hosts: n("H"), Broken: os.Getenv("B"), Quiet: n("Q")}
	if w := os.Getenv("W"); w != "" {
		o.Without = strings.Split(w, ",")
	}
	r := Run(o)
	t.Log(r.Failure)
}
