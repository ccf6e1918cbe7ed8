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

// service_down_time: its default, a value that is raised, and values that are not valid.
func TestServiceDownTime(t *testing.T) {
	for _, c := range []struct {
		text    string
		silence time.Duration
		warned  bool
		wrong   string
	}{
		{"", time.Minute, false, ""},
		{"service_down_time = 90", 90 * time.Second, false, ""},
		{"service_down_time = 15", 15 * time.Second, false, ""},
		{"service_down_time = 10", 15 * time.Second, true, ""},
		{"service_down_time = 60\n[berth]\nrescan_interval = 3600", time.Minute, false, ""},
		{"service_down_time = 0", 0, false, "[DEFAULT] service_down_time = 0: "},
	} {
		path := filepath.Join(t.TempDir(), "berth.conf")
		if err := os.WriteFile(path, []byte("[DEFAULT]\n"+c.text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		s, err := Read(slog.New(slog.NewTextHandler(&log, nil)), path)
		if c.wrong != "" {
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%q: %v", c.text, err)
			}
			continue
		}
		if warned := strings.Contains(log.String(), "service_down_time is raised"); err != nil || s.Silence != c.silence ||
			warned != c.warned {
			t.Errorf("%q: silent after %s, warned %t, %v", c.text, s.Silence, warned, err)
		}
	}
}
