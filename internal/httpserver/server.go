// Package httpserver serves an HTTP handler on a TCP listener, with or without TLS. It limits open connections, in
// total and for each address, closes connections of slow clients, and finishes running requests on shutdown.
package httpserver

import (
	"context"
	"errors"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"

	"github.com/openberth/berth/fault"
)

// Listen opens the TCP address that a flag gives, such as "127.0.0.1:8778". With noauth2, where callers are not
// authenticated, only a loopback address is allowed (fault.Forbidden).
func Listen(flag, address string, noauth bool) (net.Listener, error) {
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s %s: %w; write it as 127.0.0.1:8778", flag, address, err)
	}
	if noauth && !resolved.IP.IsLoopback() {
		return nil, fault.New(fault.Forbidden,
			"%s %s is not a loopback address, and with auth_strategy = noauth2 every client that reaches it is admin; "+
				"listen on 127.0.0.1 or [::1]", flag, address)
	}
	// Listen on the address that was checked: a name could resolve to another address the second time.
	config := net.ListenConfig{Control: setPeerTimeout}
	l, err := config.Listen(context.Background(), "tcp", resolved.String())
	if err != nil {
		return nil, fault.New(fault.Unavailable,
			"cannot listen on %s: %w; another process may use it, choose another with %s", address, err, flag)
	}
	return l, nil
}

// Serve serves h on the listener until ctx ends. Running requests then have ten seconds to finish; an error reports
// requests that did not. Streams (responses that were flushed before their end) are ended at once, because they have no
// end of their own. Connections of slow clients are closed. The number of connections is limited, in total and for each
// address; see connLimiter. With a certificate, connections use TLS.
func Serve(ctx context.Context, l net.Listener, h http.Handler, connections ConnLimits, cert *Certificate,
	log *slog.Logger) error {
	lim := defaultLimits()
	lim.maxTotal, lim.maxForAddress = connections.Total, connections.forAddress
	return serve(ctx, l, h, cert, log, lim)
}

func serve(ctx context.Context, l net.Listener, h http.Handler, cert *Certificate, log *slog.Logger,
	lim limits) error {
	limiter := newConnLimiter(l, lim, log)
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	s := &http.Server{
		Handler:           withDeadlines(ctx, h, lim),
		ReadHeaderTimeout: lim.headerTimeout,
		IdleTimeout:       lim.idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext:       withConn,
		ConnState:         limiter.connState,
		ErrorLog:          stdlog.New(&connectionErrors{log: log}, "", 0),
		Protocols:         new(http.Protocols),
	}
	s.Protocols.SetHTTP1(true)
	var conns net.Listener = limiter
	if cert != nil {
		conns = cert.listener(limiter, lim.headerTimeout)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(conns) }()
	select {
	case err := <-ended:
		return fault.Wrap(fault.Unavailable, err)
	case <-ctx.Done():
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), lim.shutdownTimeout)
	defer cancel()
	err := s.Shutdown(wait)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fault.New(fault.Unavailable, "requests were cut off: they were not finished %s after the server began "+
			"to stop",
			lim.shutdownTimeout)
	}
	if closed := s.Close(); err == nil && closed != nil {
		err = closed
	}
	if served := <-ended; served != nil && !errors.Is(served, http.ErrServerClosed) && err == nil {
		err = served
	}
	return fault.Wrap("", err)
}
