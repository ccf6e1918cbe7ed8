package scenario

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestScenarios runs all scenarios. With -rewrite it writes the results of commands into those that have others.
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".txt")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Run(t, file)
		})
	}
}
