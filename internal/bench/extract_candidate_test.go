package bench

import "testing"

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
