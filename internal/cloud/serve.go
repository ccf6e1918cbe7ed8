package cloud

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/openberth/berth/fault"
)

// The limits of every server: a client that is slower is cut off. Answers have no limit: assignments are a stream.
const (
	headerTime   = 10 * time.Second
	readTime     = 60 * time.Second
	idleTime     = 2 * time.Minute
	headerBytes  = 64 << 10
	shutdownTime = 10 * time.Second
)

// Listen opens a TCP address such as "127.0.0.1:8778". With noauth2, where each caller is who he says he is, an
// address that others can reach is refused.
func Listen(address string, noauth bool) (net.Listener, error) {
	const op = "cloud.Listen"
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fault.New(fault.Invalid, op, "--listen %s: %w; write it as 127.0.0.1:8778", address, err)
	}
	if noauth && !resolved.IP.IsLoopback() {
		return nil, fault.New(fault.Forbidden, op,
			"--listen %s is not a loopback address, and with auth_strategy = noauth2 anybody who reaches it is admin; listen on 127.0.0.1 or [::1]", address)
	}
	// Listen on what was looked at: a name could resolve to something else the second time.
	l, err := net.Listen("tcp", resolved.String())
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, "cannot listen on %s: %w; another process may have it, choose another with --listen", address, err)
	}
	return l, nil
}

// Serve answers on the listener until ctx ends, then lets running requests finish for a while.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	s := &http.Server{Handler: h, ReadHeaderTimeout: headerTime, ReadTimeout: readTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
		BaseContext: func(net.Listener) context.Context { return base }, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err := <-ended:
		return fault.Wrap(fault.Unavailable, "cloud.Serve", err)
	case <-ctx.Done():
	}
	// Streams never finish by themselves: they are cut when the others had their time.
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	stopStreams := time.AfterFunc(time.Second, cut)
	defer stopStreams.Stop()
	err := s.Shutdown(wait)
	if closed := s.Close(); err == nil && closed != nil {
		err = closed
	}
	if served := <-ended; served != nil && !errors.Is(served, http.ErrServerClosed) && err == nil {
		err = served
	}
	return fault.Wrap(fault.Unavailable, "cloud.Serve", err)
}
