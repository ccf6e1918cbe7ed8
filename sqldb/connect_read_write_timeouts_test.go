package sqldb

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/openberth/berth/internal/databases"
)

// connectionLimits checks the default time limits of connections to servers, and that options in the URL change them.
func connectionLimits(t *testing.T, maria, postgres *databases.Server) {
	for options, want := range map[string][3]time.Duration{
		"": {10 * time.Second, time.Minute, time.Minute},
		"&connect_timeout=3&read_timeout=4&write_timeout=0": {3 * time.Second, 4 * time.Second, 0},
	} {
		a, err := parseURL(maria.Database(t) + options)
		must(t, err)
		c, err := mysqlConfig(a)
		must(t, err)
		if got := [3]time.Duration{c.Timeout, c.ReadTimeout, c.WriteTimeout}; got != want {
			t.Errorf("MariaDB%s: %v", options, got)
		}
		conn, err := c.DialFunc(t.Context(), c.Net, c.Addr)
		must(t, err)
		if got := userTimeoutOf(t, conn); got != 30000 {
			t.Errorf("MariaDB%s: TCP_USER_TIMEOUT %d", options, got)
		}
		must(t, conn.Close())
	}
	for options, want := range map[string]int{"": 30000, "?tcp_user_timeout=5000&connect_timeout=3": 5000,
		"?tcp_user_timeout=0": 0} {
		conn, err := open(t, postgres.Database(t)+options).pool.Conn(t.Context())
		must(t, err)
		must(t, conn.Raw(func(raw any) error {
			timed := raw.(*stdlib.Conn).Conn().PgConn().Conn().(*timedConn)
			if got := userTimeoutOf(t, timed.Conn); got != want || timed.limit != time.Minute {
				t.Errorf("PostgreSQL%s: TCP_USER_TIMEOUT %d, reads have %s", options, got, timed.limit)
			}
			return nil
		}))
		must(t, conn.Close())
	}
}

func userTimeoutOf(t *testing.T, conn net.Conn) (value int) {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	must(t, err)
	var failed error
	must(t, raw.Control(func(fd uintptr) {
		value, failed = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout)
	}))
	must(t, failed)
	return value
}

// TestTimedConnLimitsReadsAndWrites checks that a read without an answer ends after the limit, or at the driver's own
// deadline if that is earlier, in whatever order they are set.
func TestTimedConnLimitsReadsAndWrites(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	c := &timedConn{Conn: here, limit: 20 * time.Millisecond}
	defer c.Close()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || !lost(err) {
		t.Errorf("read: %v", err)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write: %v", err)
	}
	c.limit = time.Hour
	must(t, c.SetDeadline(time.Now().Add(-time.Second)))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read after the driver's deadline: %v", err)
	}
	ended := make(chan error)
	must(t, c.SetDeadline(time.Time{}))
	go func() { _, err := c.Read(make([]byte, 1)); ended <- err }()
	time.Sleep(5 * time.Millisecond)
	must(t, c.SetDeadline(time.Now()))
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read until the driver's deadline: %v", err)
	}
}
