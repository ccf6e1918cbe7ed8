package imagecache

import (
	"bytes"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"
)

// TestShrink removes the least recently used copies beyond the limit, and never one that is used, worked on, or was
// used a moment ago. It starts from the files alone, as after a restart.
func TestShrink(t *testing.T) {
	c := New(t.TempDir(), nil, slog.New(slog.DiscardHandler))
	now, size := time.Now(), int64(0)
	name := func(digit, suffix string) string { return digit + id[1:] + "." + suffix }
	for file, age := range map[string]time.Duration{name("a", "qcow2"): 5 * time.Hour, name("a", "sha512"): 5 * time.Hour,
		name("b", "raw"): 4 * time.Hour, name("c", "raw"): 3 * time.Hour, name("d", "part"): 2 * time.Hour,
		name("e", "raw"): time.Hour, name("f", "raw"): time.Minute, "notes.raw": 9 * time.Hour} {
		if err := os.WriteFile(c.file(file), bytes.Repeat([]byte("x"), 8<<10), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(c.file(file), now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
		status, err := os.Stat(c.file(file))
		if err != nil {
			t.Fatal(err)
		}
		size = allocated(status)
	}
	used := func(file string) bool { return file == name("b", "raw") }
	if bytes, err := c.Bytes(); err != nil || bytes != 7*size {
		t.Fatalf("%d bytes, want %d: %v", bytes, 7*size, err)
	}
	if err := c.acquire(t.Context(), "c"+id[1:]); err != nil { // it is being read
		t.Fatal(err)
	}
	for _, step := range []struct {
		most int64
		want []string
		left int64
	}{
		{7 * size, nil, 7 * size},
		{6 * size, []string{name("a", "qcow2"), name("a", "sha512")}, 5 * size},
		{4*size + 1, []string{name("d", "part")}, 4 * size},
		{1, []string{name("e", "raw")}, 3 * size},
		{0, nil, 3 * size},
	} {
		removed, left, err := c.Shrink(used, now, step.most)
		if err != nil || !slices.Equal(removed, step.want) || left != step.left {
			t.Errorf("to %d bytes: removed %v, %d left (%v), want %v, %d", step.most, removed, left, err, step.want, step.left)
		}
	}
	c.release("c" + id[1:])
	if removed, left, err := c.Shrink(used, now, 0); err != nil || !slices.Equal(removed, []string{name("c", "raw")}) ||
		left != 2*size {
		t.Errorf("removed %v, %d left (%v)", removed, left, err)
	}
	if removed, left, err := c.Shrink(used, now.Add(time.Hour), 0); err != nil || len(removed) != 1 || left != size {
		t.Errorf("later: removed %v, %d left (%v)", removed, left, err)
	}
	if _, err := os.Stat(c.file("notes.raw")); err != nil {
		t.Error(err)
	}
}
