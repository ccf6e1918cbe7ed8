package settings

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/openberth/berth/fault"
)

// Without --config-file, Placement reads the same files as OpenStack's Placement.
func TestPlacementFiles(t *testing.T) {
	given, usual, empty := t.TempDir(), t.TempDir(), t.TempDir()
	write := func(parts ...string) string {
		path := filepath.Join(parts...)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one := write(given, "placement.conf")
	write(given, "other.conf")
	two := write(usual, "placement.conf")
	late, early := write(usual, "placement.conf.d", "20-b.conf"), write(usual, "placement.conf.d", "10-a.conf")
	write(usual, "placement.conf.d", "notes.txt")
	for _, c := range []struct {
		given, usual string
		want         []string
	}{{given, usual, []string{one}}, {"", usual, []string{two, early, late}}, {"", empty, nil}} {
		if got, err := placementFiles(c.given, c.usual); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q %q: %v %v", c.given, c.usual, got, err)
		}
	}
	if _, err := placementFiles(empty, usual); !fault.Is(err, fault.NotFound) {
		t.Errorf("a directory without the file: %v", err)
	}
}
