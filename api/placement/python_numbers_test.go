package placement

import (
	"math"
	"strings"
	"testing"
	"unicode"
)

func TestWholeNumber(t *testing.T) {
	for text, want := range map[string]int{
		"0": 0, "7": 7, "+7": 7, "-7": -7, "007": 7, "1_000": 1000, " 12\n": 12, "\u0661\u0662": 12, "\uff13": 3,
		"\U0001d7d9":           1,
		"99999999999999999999": math.MaxInt, "-99999999999999999999": math.MinInt,
	} {
		if got, ok := wholeNumber(text); !ok || got != want {
			t.Errorf("%q: %d, %v; should be %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", " ", "-", "+", "+-1", "++1", "_1", "1_", "1__0", "0x1", "1e0", "1.0", "1 0",
		"\u00b2", "\x1f1", strings.Repeat("1", 4301)} {
		if got, ok := wholeNumber(text); ok {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}

// TestDigits compares digit with Unicode's runs: each begins with zero and has ten digits.
func TestDigits(t *testing.T) {
	before := -1
	for r := rune(0); r <= unicode.MaxRune; r++ {
		d := digit(r)
		if (d >= 0) != unicode.Is(unicode.Nd, r) {
			t.Fatalf("%U: %d", r, d)
		}
		if d >= 0 && d != (before+1)%10 || d < 0 && before >= 0 && before != 9 {
			t.Fatalf("%U is %d after %d", r, d, before)
		}
		before = d
	}
}
