package fault

import "testing"

func TestDidYouMean(t *testing.T) {
	known := []string{"web", "debian-12", "debian-13", "debian-11", "debian-10", "", "Lan", "web"}
	for word, want := range map[string]string{
		"wbe":       "did you mean web?",
		"debian":    "did you mean debian-12 or debian-13 or debian-11?",
		"debian-14": "did you mean debian-12 or debian-13 or debian-11?",
		"lan":       "did you mean Lan?",
		"xyz":       "see the list",
		"":          "see the list",
		"ab":        "see the list",
	} {
		if got := DidYouMean(word, known, "see the list"); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}
