package placement

import (
	"net/url"
	"strings"
	"testing"

	"github.com/openberth/berth/resource"
)

func TestAmountsThatOverflow(t *testing.T) {
	for _, amount := range []string{"2147483648", "9223372036854775807", "99999999999999999999999999"} {
		ask, err := ParseAsk(Latest, url.Values{"resources": {"VCPU:" + amount}})
		if err != nil || ask.Groups[0].Resources["VCPU"] <= resource.MaxAmount {
			t.Errorf("%s: %+v, %v", amount, ask, err)
		}
	}
}

func TestCanonicalUUID(t *testing.T) {
	for text, ok := range map[string]bool{
		uuidA: true, strings.ToUpper(uuidA): true, strings.ReplaceAll(uuidA, "-", ""): true, "{" + uuidA + "}": true,
		"urn:uuid:" + uuidA: true,
		"":                  false, uuidA + "a": false, "gggggggg-aaaa-4aaa-8aaa-aaaaaaaaaaaa": false,
	} {
		got, is := CanonicalUUID(text)
		if is != ok || ok && got != uuidA {
			t.Errorf("%q: %q %v", text, got, is)
		}
	}
}
