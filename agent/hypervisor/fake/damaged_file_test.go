package fake_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/fake"
	"github.com/openberth/berth/fault"
)

// A file of a guest is damaged, such as empty after a file system became read-only: the other guests are served, a
// remark names the file, and the guest is not built again over it.
func TestDamagedGuestFileEndsNothing(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"empty":       func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"garbage":     func(path string) error { return os.WriteFile(path, []byte("\x00{"), 0o600) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"unreadable":  func(path string) error { return os.Symlink(path, path) },
	} {
		t.Run(name, func(t *testing.T) { withDamagedFile(t, damage) })
	}
}

func withDamagedFile(t *testing.T, damage func(path string) error) {
	dir := t.TempDir()
	h, err := fake.New(dir, hypervisor.Capacity{})
	if err != nil {
		t.Fatal(err)
	}
	whole := hypervisor.Guest{ID: "whole", Name: "whole", VCPUs: 1, MemoryMB: 1}
	if err := h.Build(t.Context(), whole); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty.json")
	if err := damage(empty); err != nil {
		t.Fatal(err)
	}
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	guests, err := h.Guests(t.Context())
	if err != nil || len(guests) != 1 || guests[0].ID != "whole" {
		t.Errorf("guests %+v, %v", guests, err)
	}
	if c, err := h.Capacity(t.Context()); err != nil || !strings.Contains(c.Remarks.String(), empty) ||
		c.Remarks[0].Subject != "empty" {
		t.Errorf("the remark is %q, %v", c.Remarks, err)
	}
	again := hypervisor.Guest{ID: "empty", Name: "empty", VCPUs: 1, MemoryMB: 1}
	if err := h.Build(t.Context(), again); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), empty) {
		t.Errorf("the guest of the empty file is built: %v", err)
	}
	if err := h.Build(t.Context(), hypervisor.Guest{ID: "new", Name: "new", VCPUs: 1, MemoryMB: 1}); err != nil {
		t.Errorf("another guest is not built: %v", err)
	}
	if err := h.Destroy(t.Context(), "empty"); err != nil {
		t.Errorf("it is not destroyed: %v", err)
	}
	if c, err := h.Guests(t.Context()); err != nil || len(c) != 2 {
		t.Errorf("guests %+v, %v", c, err)
	}
	if c, err := h.Capacity(t.Context()); err != nil || c.Remarks.String() != "" {
		t.Errorf("after the removal the remark is %q, %v", c.Remarks.String(), err)
	}
}
