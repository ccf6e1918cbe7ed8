package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"

	"golang.org/x/sync/errgroup"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/httpserver"
	"github.com/openberth/berth/internal/settings"
)

// endpoint is one API to serve.
type endpoint struct {
	name    string
	flag    string // the flag that sets the address
	address string
	noauth  bool // every client that reaches it is admin

	listener net.Listener
	cert     *httpserver.Certificate // nil: without TLS
	handler  http.Handler
	lost     <-chan struct{} // closed when the service must stop; nil: never
	ready    <-chan struct{} // closed when the address may be printed; nil: at once
}

// of makes the endpoint that of a service.
func (p *endpoint) of(s *app.Service) { p.handler, p.lost = s.Handler, s.Lost }

// listen opens all addresses or none, so that no service starts whose API cannot be served. With [ssl] cert_file it
// first reads the certificate of all of them.
func listen(conf settings.Settings, log *slog.Logger, endpoints ...*endpoint) error {
	var cert *httpserver.Certificate
	if conf.TLS.Listener.Cert.Path != "" {
		var err error
		if cert, err = openCertificate(conf.TLS.Listener, log); err != nil {
			return err
		}
	}
	for i, p := range endpoints {
		l, err := httpserver.Listen(p.flag, p.address, p.noauth)
		if err != nil {
			return errors.Join(err, closeAll(endpoints[:i]...))
		}
		p.listener, p.cert = l, cert
		if cert == nil && !isLoopback(l.Addr()) {
			log.Warn("other machines can reach this address, and their tokens and data are not encrypted; set [ssl] "+
				"cert_file and key_file", "service", p.name, "address", l.Addr().String())
		}
	}
	return nil
}

func isLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// url returns the address of the API for clients.
func (p *endpoint) url() string {
	scheme := "http"
	if p.cert != nil {
		scheme = "https"
	}
	return scheme + "://" + p.listener.Addr().String()
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
	defer tuneHeap()()
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
		h := p.handler
		if p.noauth {
			h = httpserver.LoopbackOnly(h)
		}
		group.Go(func() error { return httpserver.Serve(ctx, p.listener, h, connections, p.cert, log) })
	}
	group.Go(func() error {
		if !announce(ctx, s, endpoints...) {
			return nil
		}
		return s.manager.Run(ctx, func(ctx context.Context) { answerHealth(ctx, endpoints...) }, log)
	})
	return group.Wait()
}

// The garbage collector runs when the heap has grown by heapGrowth percent; by 100 without it, when thousands of agents
// or hosts need twice the memory that is in use. With a small database that would be many times a second, so the heap
// contains heapBallast bytes that are never used and occupy no memory.
const (
	heapGrowth  = 50
	heapBallast = 64 << 20
)

// tuneHeap applies heapGrowth, unless the environment has GOGC, and heapBallast until the returned function is called.
func tuneHeap() (end func()) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	ballast := make([]byte, heapBallast)
	return func() { runtime.KeepAlive(ballast) }
}

// answerHealth returns when each API has answered /healthz, with any status: a service whose database does not answer
// is not repaired by a restart.
func answerHealth(ctx context.Context, endpoints ...*endpoint) {
	for _, p := range endpoints {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/healthz", http.NoBody)
		if err != nil {
			continue // does not occur: the URL is valid
		}
		if response, err := rest.InMemory(p.handler).Do(request); err == nil {
			_ = response.Body.Close() // its status does not matter
		}
	}
}

// announce prints the addresses of endpoints as soon as each is ready. It returns false if ctx ends before.
func announce(ctx context.Context, s streams, endpoints ...*endpoint) bool {
	for _, p := range endpoints {
		if p.ready != nil {
			select {
			case <-p.ready:
			case <-ctx.Done():
				return false
			}
		}
		fmt.Fprintf(s.out, "%s: %s\n", p.name, p.url())
	}
	return true
}
