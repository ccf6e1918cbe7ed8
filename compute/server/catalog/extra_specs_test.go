package catalog

import (
	"strings"
	"testing"
)

// TestNameForms tests which names are allowed: 255 characters are, 256 are not.
func TestNameForms(t *testing.T) {
	for what, f := range map[string]nameForm{
		"extra spec": SpecKey, "flavor": flavorID, "key pair": keyPairName, "imported key pair": importedName,
	} {
		for text, want := range map[string]bool{
			"a": true, "a b": true, strings.Repeat("a", 255): true,
			strings.Repeat("a", 256): false, "": false, "a/b": false, "ä": false, "a\n": false,
			" a": f == SpecKey, "a:b": f == SpecKey, "a.b": f != keyPairName, "a@b": f == importedName,
		} {
			if got := f.MatchString(text); got != want {
				t.Errorf("%s %.9q with %d characters: %t, want %t", what, text, len(text), got, want)
			}
		}
	}
}
