package imagecache

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestRemoveUnused removes what no guest has used for a day, and nothing else.
func TestRemoveUnused(t *testing.T) {
	dir := t.TempDir()
	c := New(filepath.Join(dir, "_base"), nil, slog.New(slog.DiscardHandler))
	if removed, err := c.RemoveUnused(nil, time.Now(), 0); len(removed) > 0 || err != nil {
		t.Errorf("without a directory: %v %v", removed, err)
	}
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	now := time.Now()
	name := func(digit, suffix string) string { return digit + id[1:] + "." + suffix }
	ages := map[string]time.Duration{name("a", "qcow2"): 2 * day, name("b", "raw"): 2 * day, name("c", "raw"): day / 2,
		name("a", "sha512"): 2 * day, name("b", "sha512"): 2 * day, name("d", "part"): 2 * day,
		name("e", "part"): 2 * day, "notes.raw": 2 * day, name("f", "iso"): 2 * day}
	for file, age := range ages {
		path := filepath.Join(c.dir, file)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.acquire(t.Context(), "e"+id[1:]); err != nil { // it is being downloaded
		t.Fatal(err)
	}
	used := func(file string) bool { return file == name("b", "raw") }
	removed, err := c.RemoveUnused(used, now, day)
	want := []string{name("a", "qcow2"), name("a", "sha512"), name("d", "part")}
	if err != nil || !slices.Equal(removed, want) {
		t.Errorf("removed %v, want %v (%v)", removed, want, err)
	}
	unused := func(string) bool { return false }
	removed, err = c.RemoveUnused(unused, now.Add(day/2), day)
	if want := []string{name("c", "raw")}; err != nil || !slices.Equal(removed, want) {
		t.Errorf("half a day later: removed %v, want %v (%v)", removed, want, err)
	}
	removed, err = c.RemoveUnused(unused, now.Add(day), day)
	if want := []string{name("b", "raw"), name("b", "sha512")}; err != nil || !slices.Equal(removed, want) {
		t.Errorf("a day after the last use: removed %v, want %v (%v)", removed, want, err)
	}
}
