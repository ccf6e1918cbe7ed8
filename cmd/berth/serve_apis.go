package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"golang.org/x/sync/errgroup"

	"github.com/openberth/berth/internal/httpserver"
)

// endpoint is one API to serve.
type endpoint struct {
	name    string
	flag    string // the flag that sets the address
	address string
	noauth  bool // every client that reaches it is admin

	listener net.Listener
	handler  http.Handler
	lost     <-chan struct{} // closed when the service must stop; nil: never
}

// listen opens all addresses or none, so that no service starts whose API cannot be served.
func listen(endpoints ...*endpoint) error {
	for i, p := range endpoints {
		l, err := httpserver.Listen(p.flag, p.address, p.noauth)
		if err != nil {
			return errors.Join(err, closeAll(endpoints[:i]...))
		}
		p.listener = l
	}
	return nil
}

func closeAll(endpoints ...*endpoint) (err error) {
	for _, p := range endpoints {
		err = errors.Join(err, p.listener.Close())
	}
	return err
}

// serve prints the addresses and serves until ctx ends, one endpoint fails, or one service is lost.
func serve(ctx context.Context, s streams, connections httpserver.ConnLimits, log *slog.Logger,
	endpoints ...*endpoint) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range endpoints {
		group.Go(func() error {
			select {
			case <-ctx.Done():
			case <-p.lost: // Close of the service returns the reason
				cancel()
			}
			return nil
		})
		fmt.Fprintf(s.out, "%s: http://%s\n", p.name, p.listener.Addr())
		h := p.handler
		if p.noauth {
			h = httpserver.LoopbackOnly(h)
		}
		group.Go(func() error { return httpserver.Serve(ctx, p.listener, h, connections, log) })
	}
	return group.Wait()
}
