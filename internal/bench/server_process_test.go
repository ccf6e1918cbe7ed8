package bench

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestProgramThatEndsIsReported tests that the end of a program is reported at once, with its output.
func TestProgramThatEndsIsReported(t *testing.T) {
	p, err := Start(filepath.Join(t.TempDir(), "log"), "sh", "-c", "echo broken >&2; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.awaitLine("placement: ", 5*time.Minute); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("got %v", err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// TestStopEndsProgram tests that a program runs until Stop.
func TestStopEndsProgram(t *testing.T) {
	p, err := Start(filepath.Join(t.TempDir(), "log"), "sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	if now, peak, err := p.Resident(); err != nil || now <= 0 || peak < now {
		t.Errorf("memory: %d, at most %d, %v", now, peak, err)
	}
	if _, err := p.Worked(); err != nil {
		t.Error(err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if _, _, err := p.Resident(); err == nil {
		t.Error("the program is still running")
	}
}
