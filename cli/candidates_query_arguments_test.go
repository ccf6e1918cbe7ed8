package cli

import "testing"

func TestQueryOf(t *testing.T) {
	got, err := queryOf([]string{"resources=VCPU:1&limit=2", "required=A", "required=!B"})
	if err != nil || got.Encode() != "limit=2&required=A&required=%21B&resources=VCPU%3A1" {
		t.Errorf("%v %v", got.Encode(), err)
	}
	for _, bad := range []string{"VCPU:1", "=1", "a=1&b"} {
		if _, err := queryOf([]string{bad}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
