// Package systemd reports to the service manager that a service is started and still works, by the protocol of
// sd_notify(3).
package systemd

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/openberth/berth/fault"
)

// Manager is the service manager that started this process. The methods of the zero Manager do nothing.
type Manager struct {
	socket   string
	watchdog time.Duration // the manager ends a process that is silent for so long; 0: no watchdog
}

// Find returns the manager that the environment names. It removes the variables, so that programs that this process
// starts do not send messages in its name. It returns fault.Invalid for a time of the watchdog that is not a number.
func Find() (Manager, error) {
	m := Manager{socket: os.Getenv("NOTIFY_SOCKET")}
	limit, pid := os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		if err := os.Unsetenv(name); err != nil {
			return Manager{}, fault.New(fault.Internal, "cannot remove %s from the environment: %w", name, err)
		}
	}
	if m.socket == "" || limit == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return m, nil
	}
	microseconds, err := strconv.ParseInt(limit, 10, 64)
	if err != nil || microseconds <= 0 {
		return Manager{}, fault.New(fault.Invalid, "WATCHDOG_USEC=%q is not a number of microseconds; systemd sets it from "+
			"WatchdogSec= of the unit", limit)
	}
	m.watchdog = time.Duration(microseconds) * time.Microsecond
	return m, nil
}

// Notify sends assignments such as READY=1, one a line. It returns fault.Unavailable if the manager cannot be reached.
func (m Manager) Notify(assignments string) error {
	if m.socket == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", m.socket) // a name that begins with @ is in the abstract namespace
	if err != nil {
		return fault.New(fault.Unavailable, "cannot reach the service manager at NOTIFY_SOCKET: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(assignments)); err != nil {
		return fault.New(fault.Unavailable, "cannot send %q to the service manager: %w", assignments, err)
	}
	return nil
}

// Run reports that the service is ready, then that it works as often as the watchdog needs, and when ctx ends that it
// stops. works returns when the service does work; while it does not return, the watchdog gets no message, and the
// manager restarts the service. It returns the fault of the first message: without it the manager ends the service.
func (m Manager) Run(ctx context.Context, works func(ctx context.Context), log *slog.Logger) error {
	if m.socket == "" {
		return nil
	}
	if err := m.Notify("READY=1"); err != nil {
		return err
	}
	if m.watchdog > 0 {
		m.keepAlive(ctx, works, log)
	} else {
		<-ctx.Done()
	}
	if err := m.Notify("STOPPING=1"); err != nil {
		log.Warn("service manager not notified", "error", err)
	}
	return nil
}

// keepAlive sends WATCHDOG=1 twice in each time of the watchdog until ctx ends. It does not wait for works after that.
func (m Manager) keepAlive(ctx context.Context, works func(ctx context.Context), log *slog.Logger) {
	ticks := time.NewTicker(m.watchdog / 2)
	defer ticks.Stop()
	for {
		done := make(chan struct{})
		go func() {
			defer close(done)
			works(ctx)
		}()
		select {
		case <-ctx.Done():
			return
		case <-done:
		}
		if err := m.Notify("WATCHDOG=1"); err != nil {
			log.Warn("service manager not notified", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}
