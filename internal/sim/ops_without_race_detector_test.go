//go:build !race

package sim

// usualOps is how many operations the tests do. The simulation is one goroutine, so that the race detector finds
// nothing in it: under it, which costs five times as much, there are fewer.
const usualOps = 100000
