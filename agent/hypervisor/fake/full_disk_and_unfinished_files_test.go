package fake

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/fault"
)

func TestInvalidFileIsReported(t *testing.T) {
	dir := t.TempDir()
	h, err := New(dir, hypervisor.Capacity{})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "x.json")
	for _, text := range []string{"{", `{"devices":[{"id":"?"}]}`, `{"devices":[{"request_id":"r"}]}`, `{"id":"x"} y`,
		`{"address":"x"}`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Guests(t.Context()); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if c, err := h.Capacity(t.Context()); err != nil || !strings.Contains(c.Remarks.String(), name) {
			t.Errorf("%s: the remark is %q, %v", text, c.Remarks.String(), err)
		}
	}
}

// A build that fails because the disk is full leaves no file behind, and the guest that was there stays.
func TestFullDiskLeavesNoFiles(t *testing.T) {
	dir := t.TempDir()
	h, err := New(dir, hypervisor.Capacity{})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Build(t.Context(), hypervisor.Guest{ID: "there", Name: "before"}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"there", "fresh"} {
		// what is written there meets a full disk
		if err := os.Symlink("/dev/full", filepath.Join(dir, id+".json.new")); err != nil {
			t.Fatal(err)
		}
		if err := h.Build(t.Context(), hypervisor.Guest{ID: id, Name: "after"}); !fault.Is(err, fault.Unavailable) ||
			!strings.Contains(err.Error(), "no space left") {
			t.Errorf("%s: %v", id, err)
		}
	}
	if files := names(t, dir); files != "there.json" {
		t.Errorf("left are %s", files)
	}
	if guests, err := h.Guests(t.Context()); err != nil || len(guests) != 1 || guests[0].Name != "before" {
		t.Errorf("%+v %v", guests, err)
	}
}

// Files that a killed agent was writing are removed at the next start, and by the end of their guest.
func TestUnfinishedFilesAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "[odd]*name")
	h, err := New(dir, hypervisor.Capacity{})
	if err != nil {
		t.Fatal(err)
	}
	var _ hypervisor.Starter = h
	if err := h.Start(t.Context()); err != nil {
		t.Fatalf("without a directory: %v", err)
	}
	if err := h.Build(t.Context(), hypervisor.Guest{ID: "g"}); err != nil {
		t.Fatal(err)
	}
	leave := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	leave("g.json.new")
	leave("other.json.new")
	leave("notes.new")
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if files := names(t, dir); files != "g.json notes.new" {
		t.Errorf("after a start: %s", files)
	}
	leave("g.json.new")
	if err := h.Destroy(t.Context(), "g"); err != nil {
		t.Fatal(err)
	}
	if files := names(t, dir); files != "notes.new" {
		t.Errorf("after the end of its guest: %s", files)
	}
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}
