package address

import "testing"

// TestParse refuses zones, which may have any bytes.
func TestParse(t *testing.T) {
	for text, valid := range map[string]bool{"10.0.0.1": true, "fe80::1": true, "fe80::1%eth0": false,
		"fe80::1%x\ninterface=lo": false, "10.0.0.1\n": false, "": false} {
		if _, err := Parse(text); (err == nil) != valid {
			t.Errorf("%q: %v", text, err)
		}
	}
}
