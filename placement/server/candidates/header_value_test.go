package candidates

import (
	"strings"
	"testing"
)

func TestHeaderValue(t *testing.T) {
	if got := headerValue("a\r\nb\x7f" + strings.Repeat("ü", 2000)); strings.ContainsAny(got, "\r\n\x7f") ||
		len([]rune(got)) != 1000 {
		t.Errorf("%d %.10q", len([]rune(got)), got)
	}
}
