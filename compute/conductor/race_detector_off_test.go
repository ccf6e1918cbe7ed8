//go:build !race

package conductor

// raceDetector is whether the race detector is on. It makes operations many times slower, so they fail at fewer
// calls.
const raceDetector = false
