package sim

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

var _ = strings.Split

func TestZZ(t *testing.T) {
	get := func(n string, d int) int {
		if v, err := strconv.Atoi(os.Getenv(n)); err == nil {
			return v
		}
		return d
	}
	o := Options{Seed: uint64(get("ZSEED", 1)), Ops: get("ZOPS", 5000), Hosts: get("ZHOSTS", 24), Quiet: get("ZQUIET", 2000), Broken: os.Getenv("ZBROKEN")}
	if x := os.Getenv("ZWITHOUT"); x != "" {
		o.Without = strings.Split(x, ",")
	}
	zzAll = os.Getenv("ZALL")
	r := Run(o)
	fmt.Println(r.Failure)
	fmt.Println(r.Ops, r.Quiescences, r.LongestRounds, r.Done, r.Happened)
}
