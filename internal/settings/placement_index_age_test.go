package settings

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
)

// index_max_age: its default, configured values, and values that are not valid.
func TestIndexMaxAge(t *testing.T) {
	for _, c := range []struct {
		text         string
		refresh, age time.Duration
		wrong        string
	}{
		{"", time.Second, 40 * time.Second, ""},
		{"index_refresh_interval = 0.5", 500 * time.Millisecond, 35 * time.Second, ""},
		{"index_max_age = 2.5", time.Second, 2500 * time.Millisecond, ""},
		{"index_max_age = 0", time.Second, 0, ""},
		{"index_max_age = 1.9", 0, 0, "[berth] index_max_age = 1.9: "},
		{"index_refresh_interval = 60\nindex_max_age = 61", 0, 0, "placement.conf:3"},
		{"index_max_age = -1", 0, 0, "write a number from 0"},
	} {
		path := filepath.Join(t.TempDir(), "placement.conf")
		if err := os.WriteFile(path, []byte("[berth]\n"+c.text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Read(slog.New(slog.DiscardHandler), path)
		if c.wrong != "" {
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%q: %v", c.text, err)
			}
			continue
		}
		if err != nil || s.Placement.IndexRefresh != c.refresh || s.Placement.IndexMaxAge != c.age {
			t.Errorf("%q: a refresh every %s, %s at the most, %v", c.text, s.Placement.IndexRefresh, s.Placement.IndexMaxAge,
				err)
		}
	}
}
