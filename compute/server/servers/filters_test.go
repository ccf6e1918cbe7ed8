package servers

import "testing"

func TestLiteralOfNamePattern(t *testing.T) {
	for pattern, want := range map[string]string{"web": "web", "^web-1$": "web-1", `web\.example`: "web.example",
		"(abc)+de": "abc", "a|b": "",
		"(?i)abc": "", "x?abc*": "ab", ".*": "", "web-[12]-long": "-long"} {
		re, err := nameFilter(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := literal(re); got != want {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
}
