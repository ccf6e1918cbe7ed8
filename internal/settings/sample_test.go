package settings

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/openberth/berth/config"
)

// sampleLine matches a line of a sample that sets an option when the # is removed.
var sampleLine = regexp.MustCompile(`(?m)^#([A-Za-z0-9_]+ =.*)$`)

// A sample sets nothing. It has every option once, below a text. With all defaults set, the settings are the same as
// without a file.
func TestSample(t *testing.T) {
	for name, agent := range map[string]bool{"services": false, "agent": true} {
		t.Run(name, func(t *testing.T) {
			sample := Sample(agent)
			for range 5 {
				if Sample(agent) != sample {
					t.Fatal("two samples differ")
				}
			}
			file, err := config.Parse("sample", []byte(sample))
			if err != nil || len(file.Entries) > 0 {
				t.Fatalf("%v %v", file, err)
			}
			set := sampleLine.ReplaceAllString(sample, "$1")
			file, err = config.Parse("sample", []byte(set))
			if err != nil {
				t.Fatal(err)
			}
			table := (&Settings{}).table()
			if agent {
				table = (&Settings{}).agentTable()
			}
			items := optionItems(sampleChapter(t))
			seen, different := map[config.Name]int{}, map[config.Name]bool{}
			for _, e := range file.Entries {
				seen[config.Name{Group: e.Group, Option: e.Option}]++
			}
			for _, o := range table {
				different[o.Name] = true
				if seen[o.Name] != 1 {
					t.Errorf("[%s] %s occurs %d times", o.Group, o.Option, seen[o.Name])
				}
				if textOf(o, items) == "" {
					t.Errorf("[%s] %s has no text", o.Group, o.Option)
				}
			}
			if len(seen) != len(different) {
				t.Errorf("%d options instead of %d", len(seen), len(different))
			}
		})
	}
}

func sampleChapter(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/guide/options.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDefaultsOfSample(t *testing.T) {
	set := regexp.MustCompile(`(?m)^#([A-Za-z0-9_]+ = .+)$`).ReplaceAllString(Sample(false), "$1")
	if strings.Count(set, "\n[") < 10 {
		t.Fatalf("few groups:\n%s", set)
	}
	path := filepath.Join(t.TempDir(), "berth.conf")
	if err := os.WriteFile(path, []byte(set), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Read(slog.New(slog.DiscardHandler), path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Read(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	// Other fields have pointers to what was opened.
	for _, pair := range [][2]any{{got.Libvirt, want.Libvirt}, {got.HostSettings, want.HostSettings},
		{got.Connections, want.Connections}, {got.Consoles, want.Consoles}, {got.Times, want.Times},
		{got.Quota.Limits, want.Quota.Limits}, {got.Rescan, want.Rescan}, {got.LockPath, want.LockPath},
		{got.Bandwidth, want.Bandwidth}, {got.Network.MTU, want.Network.MTU}} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%+v\nwithout a file\n%+v", pair[0], pair[1])
		}
	}
}
