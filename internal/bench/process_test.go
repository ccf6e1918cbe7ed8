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

func TestQuantiles(t *testing.T) {
	var r Result
	for i := range 100 {
		r.Took = append(r.Took, time.Duration(i+1))
	}
	for share, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := r.Quantile(share); got != want {
			t.Errorf("%g: %d, want %d", share, got, want)
		}
	}
}

func TestCandidateIsExtracted(t *testing.T) {
	answer := []byte(`{"provider_summaries": {}, "allocation_requests": [{"a": 1}, {"a": [2]}]}`)
	for at, want := range map[int]string{0: `{"a": 1}`, 1: `{"a": [2]}`, 9: `{"a": [2]}`} {
		got, err := candidate(answer, at)
		if err != nil || string(got) != want {
			t.Errorf("%d: %s, %v", at, got, err)
		}
	}
	if _, err := candidate([]byte(`{"allocation_requests": []}`), 0); err == nil {
		t.Error("a candidate from an empty list")
	}
}
