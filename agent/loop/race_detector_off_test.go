//go:build !race

package loop

// raceDetector is whether the race detector is on. It makes a simulated host five times slower, so there are fewer,
// and fewer crashes.
const raceDetector = false
