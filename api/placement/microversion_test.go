package placement

import (
	"net/http"
	"testing"

	"github.com/openberth/berth/fault"
)

func TestRequestVersion(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  Version
		code  string
		bad   bool
	}{
		{nil, 0, "", false},
		{[]string{"placement 1.39"}, 39, "", false},
		{[]string{"Placement 1.5"}, 5, "", false},
		{[]string{"placement latest"}, 39, "", false},
		{[]string{"compute 2.1, placement 1.4"}, 4, "", false},
		{[]string{"placement 1.3, compute 2.1", "placement 1.4"}, 4, "", false},
		{[]string{"compute 2.1"}, 0, "", false},
		{[]string{"placement"}, 0, "", false},
		{[]string{"placement LATEST"}, 0, "", true},
		{[]string{"placement 1"}, 0, "", true},
		{[]string{"placement 1.x"}, 0, "", true},
		{[]string{"placement 1.40"}, 0, CodeVersion, true},
		{[]string{"placement 2.0"}, 0, CodeVersion, true},
		{[]string{"placement 1.-1"}, 0, CodeVersion, true},
	} {
		got, err := RequestVersion(http.Header{VersionHeader: c.lines})
		if got != c.want || (err != nil) != c.bad || fault.CodeOf(err) != c.code {
			t.Errorf("%q: %s, %v", c.lines, got, err)
		}
	}
}

// FuzzParseVersion checks that every parsed version can be printed and parsed again.
func FuzzParseVersion(f *testing.F) {
	for _, text := range []string{"1.39", "latest", "1.", "-1.3", " 1 . 4 ", "1.0039", "2.1", "99999999999999999999.1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := ParseVersion(text)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("a refusal of kind %s: %v", fault.KindOf(err), err)
			}
			return
		}
		if again, err := ParseVersion(v.String()); err != nil || again != v {
			t.Fatalf("%q is %s, and that is %s, %v", text, v, again, err)
		}
	})
}
