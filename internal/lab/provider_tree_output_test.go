package lab

import (
	"regexp"
	"strconv"
	"testing"
)

// hasProvider reports whether the provider tree that berth printed has this provider with this capacity of a custom
// resource class.
func hasProvider(output, name string, capacity int) bool {
	return regexp.MustCompile(`(?m)` + regexp.QuoteMeta(name) + `\s+CUSTOM_\w+ \d+/` + strconv.Itoa(capacity) +
		`\b`).MatchString(output)
}

func TestHasProvider(t *testing.T) {
	const name = "lab_0000:11:00.0"
	for printed, want := range map[string]bool{
		"├─ lab_0000:11:00.0  CUSTOM_PASSTHROUGH 0/4  [A B]\n":               true,
		"├─ lab_0000:11:00.0  CUSTOM_PASSTHROUGH 4/1\n":                      false,
		"├─ lab_0000:11:00.0  CUSTOM_PASSTHROUGH 0/40\n":                     false,
		"├─ lab_0000:11:00.0\n└─ lab_0000:21:00.0  CUSTOM_PASSTHROUGH 0/4\n": false,
		"├─ lab_0000:11:00.01  CUSTOM_PASSTHROUGH 0/4\n":                     false,
		"lab\n": false,
	} {
		if got := hasProvider(printed, name, 4); got != want {
			t.Errorf("%q: %v, want %v", printed, got, want)
		}
	}
}
