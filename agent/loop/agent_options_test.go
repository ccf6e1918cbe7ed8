package loop

import (
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

func TestNewReportsMissingOptions(t *testing.T) {
	if _, err := New(Options{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
	w := newTestHost(t)
	for _, name := range []string{"../../etc", "..", "a b", strings.Repeat("x", 256)} {
		o := w.options
		o.Host = name
		if _, err := New(o); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "is not a valid host name") {
			t.Errorf("%q: %v", name, err)
		}
	}
	w.options.Dir = ""
	if _, err := New(w.options); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "journal") {
		t.Errorf("%v", err)
	}
}
