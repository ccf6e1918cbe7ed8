package address

import (
	"net/netip"
	"testing"
)

// The first free prefix is found between used ones of any length, and there is none in a full pool.
func TestFreePrefix(t *testing.T) {
	parse := func(texts ...string) (all []netip.Prefix) {
		for _, text := range texts {
			all = append(all, netip.MustParsePrefix(text))
		}
		return all
	}
	for _, c := range []struct {
		pools, used []netip.Prefix
		bits        int
		want        string
	}{
		{parse("10.0.0.0/24"), nil, 26, "10.0.0.0/26"},
		{parse("10.0.0.0/24"), parse("10.0.0.0/28"), 26, "10.0.0.64/26"},
		{parse("10.0.0.0/24"), parse("10.0.0.0/25", "10.0.0.128/27"), 26, "10.0.0.192/26"},
		{parse("10.0.0.0/24"), parse("10.0.0.0/24"), 26, ""},
		{parse("10.0.0.0/24", "10.0.1.0/24"), parse("10.0.0.128/25"), 24, "10.0.1.0/24"},
		{parse("10.0.0.0/24"), nil, 23, ""},
		{parse("255.255.255.0/24"), parse("255.255.255.0/25"), 25, "255.255.255.128/25"},
		{parse("255.255.255.0/24"), parse("255.255.255.128/25"), 24, ""},
		{parse("fd00::/48"), parse("fd00::/64", "fd00:0:0:1::/64"), 64, "fd00:0:0:2::/64"},
		{parse("10.0.1.0/24", "10.0.0.0/24", "10.0.2.0/23"), nil, 22, "10.0.0.0/22"},
		{parse("10.0.1.0/24", "10.0.2.0/24"), nil, 23, ""},
		{parse("0.0.0.0/1", "128.0.0.0/1"), nil, 1, "0.0.0.0/1"},
		{parse("10.0.0.0/8", "10.1.0.0/16"), parse("10.0.0.0/9"), 10, "10.128.0.0/10"},
	} {
		got, ok := FreePrefix(c.pools, c.used, c.bits)
		if ok != (c.want != "") || ok && got.String() != c.want {
			t.Errorf("/%d in %v beside %v: %v %t, want %s", c.bits, c.pools, c.used, got, ok, c.want)
		}
	}
}
