//go:build race

package conductor

const raceDetector = true
