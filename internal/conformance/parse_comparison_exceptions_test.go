package conformance

import (
	"testing"
)

func TestParseRules(t *testing.T) {
	for _, wrong := range []string{"status | ignore | *", "status | never | * | why", "status | ignore | ( | why",
		"status | ignore | * | "} {
		if _, err := ParseRules("x", wrong); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
}
