package testenv

import (
	"errors"
	"flag"
	"testing"
	"testing/synctest"
	"time"
)

// failing records how Until ends a test.
type failing struct {
	testing.TB
	message string
}

func (*failing) Helper() {}

func (f *failing) Fatalf(format string, _ ...any) { f.message = format }

// The end of the tests by go test is later than the message.
func TestUntilEndsBeforeTheTimeLimit(t *testing.T) {
	limit := flag.Lookup("test.timeout").Value.String()
	defer func(was time.Time) { began = was; must(t, flag.Set("test.timeout", limit)) }(began)
	for limit, want := range map[string]time.Duration{"0": Patience, "24h": Patience, "1m": 55 * time.Second} {
		began = time.Now()
		must(t, flag.Set("test.timeout", limit))
		if got := left(); got > want || got < want-time.Second {
			t.Errorf("with a limit of %s it is %s", limit, got)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		third := func() bool { calls++; return calls%3 == 0 }
		Until(t, "true", third)
		Until(t, "no error", func() error {
			if !third() {
				return errors.New("not yet")
			}
			return nil
		})
		Until(t, "true beside no error", func() (bool, error) { return third(), nil })
		if calls != 9 {
			t.Errorf("%d calls, want 9", calls)
		}

		f, start := &failing{}, time.Now()
		Until(f, "false", func() (bool, error) { return false, errors.New("no") })
		if took := time.Since(start); f.message == "" || took < Patience || took > Patience+time.Second {
			t.Errorf("after %s: %q", took, f.message)
		}
		if held, err := Wait(func() error { return errors.New("last") }); held || err.Error() != "last" {
			t.Errorf("%t, %v", held, err)
		}
	})
}
