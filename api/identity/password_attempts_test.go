package identity

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
)

func basicOf(t *testing.T, lines ...string) *HTTPBasic {
	t.Helper()
	path := filepath.Join(t.TempDir(), "htpasswd")
	writeUserFile(t, path, lines...)
	b, err := NewHTTPBasic(BasicOptions{File: path})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Callers with failures wait for each other, and another caller does not wait for them, whatever its address.
func TestFailedSignInsDoNotDelayOthers(t *testing.T) {
	b := basicOf(t, userLine(t, "bob", "b"))
	sign := func(address, name, password string) error {
		r := asUser(name, password)
		r.RemoteAddr = address + ":1"
		_, err := b.Authenticate(r)
		return err
	}
	const many = 150
	for i := range many {
		if err := sign("192.0.2.1", fmt.Sprint("user", i), "wrong"); !fault.Is(err, fault.Forbidden) {
			t.Fatal(err)
		}
	}
	b.attempts.slow <- struct{}{} // the password of a caller with failures is being checked, and takes long
	ctx, cancel := context.WithCancel(t.Context())
	var ended atomic.Int64
	done := make(chan error, many)
	for i := range many {
		go func() {
			r := asUser(fmt.Sprint("user", i), "another").WithContext(ctx)
			r.RemoteAddr = "192.0.2.1:1"
			_, err := b.Authenticate(r)
			ended.Add(1)
			done <- err
		}()
	}
	for range many - maxSuspects {
		if err := <-done; !fault.Is(err, fault.Unavailable) {
			t.Errorf("one too many: %v", err)
		}
	}
	for _, address := range []string{"192.0.2.1", "192.0.2.2"} {
		if err := sign(address, "bob", "b"); err != nil {
			t.Errorf("a correct password from %s: %v", address, err)
		}
	}
	if n := ended.Load(); n != many-maxSuspects {
		t.Errorf("%d callers with failures have ended", n)
	}
	cancel()
	for range maxSuspects {
		if err := <-done; !fault.Is(err, fault.Unavailable) {
			t.Errorf("a request that ended: %v", err)
		}
	}
	<-b.attempts.slow
	if len(b.attempts.addresses)+len(b.attempts.hashing)+len(b.attempts.suspects) != 0 {
		t.Errorf("left: %+v", b.attempts)
	}
}

// A caller waits longer after each failure, and not any more after a success. A wrong password that is repeated is
// not checked again, and does not count.
func TestWaitsAfterFailedSignIns(t *testing.T) {
	b := basicOf(t, userLine(t, "bob", "b"))
	now := time.Now()
	b.now = func() time.Time { return now }
	n := 0
	fail := func(kind fault.Kind) {
		t.Helper()
		n++
		if _, err := b.Authenticate(asUser("bob", fmt.Sprint("wrong", n))); !fault.Is(err, kind) {
			t.Errorf("attempt %d: %v", n, err)
		}
	}
	for range freeFailures + 1 {
		fail(fault.Forbidden)
	}
	fail(fault.Unavailable)
	_, err := b.Authenticate(asUser("bob", "b"))
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.TextOf(err), "4 sign-ins of bob from this address") {
		t.Errorf("a correct password within the wait: %v", err)
	}
	if _, err := b.Authenticate(asUser("bob", "wrong1")); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a wrong password that is known: %v", err)
	}
	now = now.Add(time.Second)
	fail(fault.Forbidden)
	now = now.Add(time.Second)
	fail(fault.Unavailable) // now two seconds
	now = now.Add(time.Second)
	for range 2 {
		if _, err := b.Authenticate(asUser("bob", "b")); err != nil {
			t.Errorf("after the wait: %v", err)
		}
	}
	fail(fault.Forbidden)
	fail(fault.Forbidden)
	now = now.Add(failureMemory)
	if f := b.attempts.failures(Caller{"192.0.2.1", "bob"}, now); f.count != 0 {
		t.Errorf("%+v after the time in which failures count", f)
	}
	for i := range maxFailed + 10 {
		b.attempts.Fail(Caller{"address", fmt.Sprint(i)}, now)
	}
	if n := len(b.attempts.failed); n > maxFailed {
		t.Errorf("%d callers are remembered", n)
	}
}
