package app_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/settings"
)

// A part that does not exist is left out. One that cannot be looked for is an error: a backup without it would seem
// complete.
func TestSavedState(t *testing.T) {
	dir := t.TempDir()
	if _, err := app.SavedStateOf(settings.Settings{}, dir); !fault.Is(err, fault.Invalid) {
		t.Errorf("without state: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "compute.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	parts, err := app.SavedStateOf(settings.Settings{}, dir)
	if err != nil || len(parts) != 1 || parts[0].Path != filepath.Join(dir, "compute.db") {
		t.Errorf("%v %v", parts, err)
	}
	if err := os.WriteFile(filepath.Join(dir, app.AgentDir), nil, 0o600); err != nil { // in place of the directory
		t.Fatal(err)
	}
	_, err = app.SavedStateOf(settings.Settings{}, dir)
	if !fault.Is(err, fault.Unavailable) || errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), "whether there is a journal") {
		t.Errorf("a journal that cannot be looked for: %v", err)
	}
}
