// Package testenv decides which tests run. `make test` runs go test -short: the tests that need nothing but Go and take
// little time. `make check` runs all of them. The package also has how long a test waits for what must happen.
package testenv

import (
	"strings"
	"testing"
)

// Prefix begins the reason of every test that is skipped by this package. internal/testsummary counts tests by the text
// that follows it.
const Prefix = "left to make check: "

// Need skips the test under -short: it needs a program that is not part of Go, such as MariaDB. Without -short the
// caller fails if the program is missing.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	skip(t, "needs "+strings.Join(programs, " and "))
}

// Long skips the test under -short, because it takes long.
func Long(t testing.TB) {
	t.Helper()
	skip(t, "takes long")
}

func skip(t testing.TB, reason string) {
	t.Helper()
	if testing.Short() {
		t.Skip(Prefix + reason)
	}
}

// Stride is the distance between the points at which a test injects a failure, when it could inject one at each: full
// under -short, and 1 otherwise.
func Stride(full int) int {
	if testing.Short() {
		return full
	}
	return 1
}
