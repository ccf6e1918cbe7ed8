//go:build race

package sim

// usualOps is how many operations the tests do under the race detector; ops_without_race_detector_test.go says why so
// few.
const usualOps = 50000
