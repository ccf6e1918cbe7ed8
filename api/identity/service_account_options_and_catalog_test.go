package identity

import (
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

func TestAddressFromTheCatalog(t *testing.T) {
	f := newFake(t)
	f.catalog = []doc{{"type": "image", "endpoints": []doc{{"interface": "public", "region": "R1", "url": "http://public"},
		{"interface": "internal", "region_id": "R2", "url": "http://two"}}}}
	k, err := NewKeystone(KeystoneOptions{AuthURL: f.URL + "/identity", Username: "svc", Password: "secret",
		UserDomainID: "default"})
	if err != nil {
		t.Fatal(err)
	}
	k.now = f.clock
	for _, c := range []struct {
		kind, region string
		interfaces   []string
		want, err    string
	}{
		{"image", "", []string{"internal", "public"}, "http://two", ""},
		{"image", "R1", []string{"internal", "public"}, "http://public", ""},
		{"image", "R3", []string{"internal", "public"}, "", "no service of type image in region R3 with the interface " +
			"internal or public"},
		{"volume", "", []string{"internal"}, "", "no service of type volume with"},
	} {
		got, err := k.Address(t.Context(), c.kind, c.interfaces, c.region)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && (!fault.Is(err, fault.Unavailable) ||
			!strings.Contains(fault.TextOf(err), c.err)) {
			t.Errorf("%+v: %q %v", c, got, err)
		}
		if absent := c.kind == "volume"; (fault.CodeOf(err) == CodeNoService) != absent {
			t.Errorf("%+v: code %q", c, fault.CodeOf(err))
		}
	}
	first, err := k.SignIn(t.Context())
	if err != nil || first == "" {
		t.Fatal(first, err)
	}
	if again, _ := k.SignIn(t.Context()); again != first {
		t.Error("the token is not cached")
	}
	k.Forget(first)
	if again, err := k.SignIn(t.Context()); err != nil || again == first {
		t.Errorf("%q %v", again, err)
	}
}
