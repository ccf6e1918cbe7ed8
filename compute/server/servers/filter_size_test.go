package servers

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
)

// A short regular expression may need many steps for each name. It is refused; those that people write are not.
func TestSizeOfFilters(t *testing.T) {
	name := strings.Repeat("a", 255)
	for _, text := range []string{strings.Repeat("(.?){1000}", 25) + "$", strings.Repeat("[a-z]{0,1000}", 19)} {
		began := time.Now()
		re, err := pattern("ip", text)
		if err == nil {
			re.MatchString(name)
		}
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%.20s… is accepted: %v; it took %s", text, err, time.Since(began))
		}
		if _, err := nameFilter(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("%.20s… is accepted as a name: %v", text, err)
		}
	}
	for _, text := range []string{name, `^web-[0-9]{1,4}$`, `.{0,255}`, `(?i)` + name, `10\.0\.[0-9]+\..*`} {
		if _, err := pattern("ip", text[:min(len(text), maxPattern)]); err != nil {
			t.Errorf("%.20s…: %v", text, err)
		}
	}
}
