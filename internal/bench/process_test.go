package bench

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A server that ends by itself is told at once, with what it last said.
func TestAServerThatEndsIsNotWaitedFor(t *testing.T) {
	p, err := Start(filepath.Join(t.TempDir(), "log"), "sh", "-c", "echo broken >&2; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.says("placement: ", 5*time.Minute); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("got %v", err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// A server ends with Stop, and is there until then.
func TestAServerEndsWithStop(t *testing.T) {
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
		t.Error("it is still there")
	}
}

func TestQuantiles(t *testing.T) {
	var r Result
	for i := range 100 {
		r.Took = append(r.Took, time.Duration(i+1))
	}
	for share, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := r.Quantile(share); got != want {
			t.Errorf("%g: %d, wanted %d", share, got, want)
		}
	}
}

func TestACandidateIsCutOut(t *testing.T) {
	answer := []byte(`{"provider_summaries": {}, "allocation_requests": [{"a": 1}, {"a": [2]}]}`)
	for at, want := range map[int]string{0: `{"a": 1}`, 1: `{"a": [2]}`, 9: `{"a": [2]}`} {
		got, err := candidate(answer, at)
		if err != nil || string(got) != want {
			t.Errorf("%d: %s, %v", at, got, err)
		}
	}
	if _, err := candidate([]byte(`{"allocation_requests": []}`), 0); err == nil {
		t.Error("a candidate out of none")
	}
}
