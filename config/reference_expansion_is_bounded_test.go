package config

import (
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// TestReferencesAreBounded reads values whose references double at each level.
func TestReferencesAreBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString("[a]\n")
	for c := 'a'; c < 'z'; c++ {
		text.WriteString(string(c) + " = $" + string(c+1) + "$" + string(c+1) + "\n")
	}
	text.WriteString("z = z\n")
	if _, err := parseConfig(t, text.String()).String("a", "a", "", nil); !strings.Contains(fault.TextOf(err),
		"more than 1000 references") {
		t.Error(err)
	}
	if got, err := parseConfig(t, text.String()).String("a", "s", "", nil); err != nil || len(got) != 1<<7 {
		t.Errorf("%d characters, want %d: %v", len(got), 1<<7, err)
	}
}
