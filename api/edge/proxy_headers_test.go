package edge

import "testing"

// The default port is removed from the host.
func TestDefaultPort(t *testing.T) {
	for _, c := range [][3]string{{"http", "a:80", "a"}, {"https", "a:443", "a"}, {"http", "a:443", "a:443"},
		{"https", "[::1]:443", "[::1]"}, {"http", "a:8080", "a:8080"}} {
		if got := withoutDefaultPort(c[0], c[1]); got != c[2] {
			t.Errorf("%s %s: %s", c[0], c[1], got)
		}
	}
}
