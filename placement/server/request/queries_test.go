package request

import (
	"fmt"
	"testing"
)

// A query is parsed as in the original: a % that does not begin an escaped byte is kept, and a semicolon is a
// separator.
func TestParseQuery(t *testing.T) {
	for raw, want := range map[string]string{
		"":                     "map[]",
		"a=1&b=2&a=3":          "map[a:[1 3] b:[2]]",
		"a&&b=":                "map[a:[] b:[]]",
		"a=%41%zz%4%":          "map[a:[A%zz%4%]]",
		"a=x+y%2B%zz+%C3%BC":   "map[a:[x y+%zz ü]]",
		"a=1;b=2":              "map[a:[1] b:[2]]",
		"%61%q=b=c":            "map[a%q:[b=c]]",
		"a=%%41":               "map[a:[%A]]",
		"=1":                   "map[:[1]]",
		"required=!A&in:x=%2C": "map[in:x:[,] required:[!A]]",
	} {
		if got := fmt.Sprint(map[string][]string(parseQuery(raw))); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}
