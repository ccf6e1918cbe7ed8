package allocations

import (
	"context"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
)

// A write is repeated only after a change of another client, with pauses, and at most tries times.
func TestRetry(t *testing.T) {
	changed := fault.New(fault.Conflict, "changed").WithCode(placement.CodeConcurrentUpdate)
	full := fault.New(fault.NoCapacity, "full")
	for name, test := range map[string]struct {
		errs  []error // of the first calls
		calls int
		want  error
	}{
		"written":                 {nil, 1, nil},
		"refused":                 {[]error{full}, 1, full},
		"changed once":            {[]error{changed}, 2, nil},
		"changed, and refused":    {[]error{changed, full}, 2, full},
		"changed again and again": {[]error{changed, changed, changed, changed, changed, changed}, tries, changed},
	} {
		calls, pauses := 0, 0
		w := Writer{Pause: func(_ context.Context, attempt int) {
			if pauses++; attempt != pauses {
				t.Errorf("%s: pause %d is for attempt %d", name, pauses, attempt)
			}
		}}
		err := w.Retry(t.Context(), func(attempt int) error {
			if attempt != calls {
				t.Errorf("%s: call %d is attempt %d", name, calls, attempt)
			}
			if calls++; calls <= len(test.errs) {
				return test.errs[calls-1]
			}
			return nil
		})
		if err != test.want || calls != test.calls || pauses != calls-1 {
			t.Errorf("%s: %v after %d calls and %d pauses", name, err, calls, pauses)
		}
	}
}
