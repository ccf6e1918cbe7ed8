package policy

import (
	"strings"
	"testing"
)

// TestValueOfWrongTypeDenies uses credentials and targets of the wrong type, also under a `not`.
func TestValueOfWrongTypeDenies(t *testing.T) {
	e := enforcerFor(t, nil, Options{}, "deep: not project.id:x\nroles: not role:a\ntarget: not a:%(odd)s\n")
	for rule, c := range map[string]struct {
		creds  Creds
		target map[string]any
	}{
		"deep":   {creds: Creds{"project": "p"}},
		"roles":  {creds: Creds{"roles": "a"}},
		"target": {target: map[string]any{"odd": struct{}{}}},
	} {
		if why := checkAllow(t, e, false, rule, c.creds, c.target); !strings.Contains(why, "cannot be evaluated") {
			t.Error(why)
		}
	}
	checkAllow(t, e, true, "deep", Creds{}, nil)
	checkAllow(t, e, true, "target", Creds{}, nil)
}
