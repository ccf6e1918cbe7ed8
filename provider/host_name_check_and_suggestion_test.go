package provider

import (
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

func TestCheckHostName(t *testing.T) {
	for _, name := range []string{"cmp1", "cmp-1.example.org", "rack_12.node_07", "UPPER", "7", "compute.17.",
		"domain-c26.9d1f", "(none)", "host@rack", "host#1",
		"2f6c2ce8-0a3b-4d52-9a3c-7f0c5b0b5a7e", "fe80::1%eth0", "größe", "...", strings.Repeat("x", MaxHostName),
		strings.Repeat("ö", MaxHostName)} {
		if err := CheckHostName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", "../../etc", "/etc", "a/b", `a\b`, "a b", " a", "a\t", "a\nb", "a\x00",
		"a\x7f", "a\u0085", "a\u00a0b", "a\u200bb",
		"a\u202eb", "\xff", strings.Repeat("x", MaxHostName+1), strings.Repeat("ö", MaxHostName+1)} {
		if err := CheckHostName(name); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", name, err)
		} else if text := err.Error(); len(text) > 600 || strings.ContainsAny(text, "\n\x00") {
			t.Errorf("%q: the message is %q", name, text)
		}
	}
}

func TestUnknownHost(t *testing.T) {
	known := []string{"cmp1", "cmp2", "storage.rack1", "node7.example.org", "gpu-rack12-07", "cmp3", "cmp4"}
	for name, want := range map[string]string{
		"cmpl":              "did you mean cmp1 or cmp2 or cmp3?",
		"Cmp1":              "did you mean cmp1 or ",
		"gpu-rack21-07":     "did you mean gpu-rack12-07?",
		"node7":             "did you mean node7.example.org?",
		"cmp2.example.org":  "did you mean cmp2?",
		"cmp1.x":            "did you mean cmp1?",
		"something-else":    "`berth host list` shows",
		"node7.example.com": "did you mean node7.example.org?",
	} {
		err := UnknownHost(name, known)
		if !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "no agent has reported for "+
			"host "+name+"; "+want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}
