package sqldb

import (
	"testing"
)

func TestPlaceholdersAreNumbered(t *testing.T) {
	cases := []struct{ query, want string }{
		{"SELECT 1", "SELECT 1"},
		{"a = ? AND b IN (?,?)", "a = $1 AND b IN ($2,$3)"},
		{"'?' ? \"?\" ?", "'?' $1 \"?\" $2"},
		{"'it''s ?' ?", "'it''s ?' $1"},
		{"? -- why?\n?", "$1 -- why?\n$2"},
		{"? /* ?/?*/ ? /*?", "$1 /* ?/?*/ $2 /*?"},
		{"'open ?", "'open ?"},
		{"a - ? / ?", "a - $1 / $2"},
		{"", ""},
	}
	for _, c := range cases {
		if got := numberPlaceholders(c.query); got != c.want {
			t.Errorf("%q became %q, want %q", c.query, got, c.want)
		}
	}
}
