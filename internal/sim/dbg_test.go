package sim

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDebug is a scratch test.
func TestDebug(t *testing.T) {
	if os.Getenv("DBG") == "" {
		t.Skip()
	}
	seed, ops := number(t, "SEED", 1), number(t, "OPS", 20000)
	hosts, quiet := number(t, "HOSTS", 24), number(t, "QUIET", 4000)
	for i := range number(t, "N", 1) {
		r := Run(Options{Seed: uint64(seed + i), Ops: ops, Hosts: hosts, Quiet: quiet, Broken: os.Getenv("BROKEN"), Without: strings.Fields(os.Getenv("WITHOUT"))})
		f, _, _ := strings.Cut(r.Failure, "\n")
		fmt.Println(seed+i, r.Ops, r.Rests, r.Deepest, f)
		if os.Getenv("V") != "" {
			fmt.Println(r.Failure)
			fmt.Println(r.Done, r.Happened)
		}
	}
}
