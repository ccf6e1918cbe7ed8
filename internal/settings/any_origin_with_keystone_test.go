package settings

import (
	"testing"

	"github.com/openberth/berth/fault"
)

// With Keystone a page needs a token, so any origin may be allowed.
func TestAnyOriginWithKeystone(t *testing.T) {
	s, _, err := readText(t, keystoneConf+"[cors]\nallowed_origin = *\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CheckOrigins("keystone"); err != nil {
		t.Error(err)
	}
	if s, _, err = readText(t, "[cors]\nallowed_origin = *\n"); err != nil {
		t.Fatal(err)
	}
	if err := s.CheckOrigins("keystone"); err != nil {
		t.Errorf("an unset auth_strategy of berth placement means keystone: %v", err)
	}
	if err := s.CheckOrigins("noauth2"); !fault.Is(err, fault.Invalid) {
		t.Errorf("an unset auth_strategy of berth up means noauth2: %v", err)
	}
}
