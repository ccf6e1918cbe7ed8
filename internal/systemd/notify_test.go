package systemd

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

// manager receives messages as systemd does.
func manager(t *testing.T) (path string, receive func() string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return path, func() string {
		if err := conn.SetReadDeadline(time.Now().Add(testenv.Patience)); err != nil {
			t.Fatal(err)
		}
		text := make([]byte, 4096)
		n, err := conn.Read(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(text[:n])
	}
}

// A service sends READY=1, then WATCHDOG=1 as long as it works, then STOPPING=1.
func TestMessages(t *testing.T) {
	path, receive := manager(t)
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "20000")
	m, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	calls, blocked := 0, make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- m.Run(ctx, func(ctx context.Context) {
			if calls++; calls > 3 {
				close(blocked)
				<-ctx.Done()
			}
		}, slog.New(slog.DiscardHandler))
	}()
	for _, want := range []string{"READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"} {
		if got := receive(); got != want {
			t.Errorf("%q instead of %q", got, want)
		}
	}
	<-blocked // a service that does not work sends nothing
	cancel()
	if got := receive(); got != "STOPPING=1" {
		t.Errorf("%q instead of STOPPING=1", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Programs that a service starts get no variables of the manager. The watchdog of another process is ignored.
func TestEnvironment(t *testing.T) {
	for _, c := range []struct {
		limit, pid string
		want       time.Duration
		kind       fault.Kind
	}{
		{"", "", 0, ""}, {"1500000", "", 1500 * time.Millisecond, ""}, {"1500000", "1", 0, ""},
		{"0", "", 0, fault.Invalid}, {"soon", "", 0, fault.Invalid},
	} {
		t.Setenv("NOTIFY_SOCKET", "/run/notify")
		t.Setenv("WATCHDOG_USEC", c.limit)
		t.Setenv("WATCHDOG_PID", c.pid)
		m, err := Find()
		if c.kind == "" && (err != nil || m.watchdog != c.want) || c.kind != "" && !fault.Is(err, c.kind) {
			t.Errorf("%q %q: %v %v", c.limit, c.pid, m.watchdog, err)
		}
		if m, err := Find(); m != (Manager{}) || err != nil {
			t.Errorf("%q %q: found again: %+v %v", c.limit, c.pid, m, err)
		}
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "missing"))
	m, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(t.Context(), nil, nil); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a manager that does not answer: %v", err)
	}
}
