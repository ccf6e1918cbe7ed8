package match

import "math"

// Plus adds two numbers that are not negative. A request may ask for any number of units, so the sum stops at the
// largest int instead of overflowing.
func Plus(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

// Times multiplies two numbers that are not negative. It stops at the largest int, like Plus.
func Times(a, n int) int {
	if n > 0 && a > math.MaxInt/n {
		return math.MaxInt
	}
	return a * n
}
