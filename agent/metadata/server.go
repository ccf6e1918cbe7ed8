package metadata

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/openberth/berth/agent/configdrive"
	"github.com/openberth/berth/fault"
)

// The limits of a listener.
const (
	maxConnections = 64 // of a network
	maxOfGuest     = 8  // of these, of one guest
	maxHeader      = 16 << 10
	readTime       = 10 * time.Second
	answerTime     = 30 * time.Second
)

// Guest returns the server whose guest has an address in a network, with all that its documents say. NotFound: no guest
// of this host has it.
type Guest func(ctx context.Context, network string, address netip.Addr) (configdrive.Server, error)

// Service answers guests of several networks. It is safe for concurrent use.
type Service struct {
	guests *answers
	log    *slog.Logger

	mu      sync.Mutex
	servers map[side]*server
}

// side is an interface of the host by which it answers guests of a network.
type side struct{ network, on string }

// server answers guests of one side.
type server struct {
	at   int // the index of the interface, which is another one after it was made again
	http *http.Server
}

// New returns a service that answers no network.
func New(guest Guest, log *slog.Logger) *Service {
	return &Service{guests: &answers{guest: guest, now: time.Now}, log: log, servers: map[side]*server{}}
}

// Serve makes the networks that are answered those of a map of their interfaces. It returns the faults by network.
func (s *Service) Serve(port int, interfaces map[string][]string) map[string]error {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := map[string]error{}
	for at, one := range s.servers {
		if !slices.Contains(interfaces[at.network], at.on) || indexOf(at.on) != one.at {
			one.http.Close()
			delete(s.servers, at)
		}
	}
	for network, list := range interfaces {
		for _, on := range list {
			if at := (side{network, on}); s.servers[at] == nil {
				if err := s.start(at, port); err != nil {
					failed[network] = err
				}
			}
		}
	}
	return failed
}

// start starts the server of a side. The caller holds mu.
func (s *Service) start(at side, port int) error {
	l, err := listen(port, at.on)
	if err != nil {
		return fault.New(fault.Unavailable, "metadata are not served on %s: %w; port %d may be in use", at.on, err, port)
	}
	one := &server{at: indexOf(at.on), http: &http.Server{Handler: s.handler(at.network), ReadTimeout: readTime,
		WriteTimeout: answerTime, IdleTimeout: readTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}}
	s.servers[at] = one
	go func() {
		err := one.http.Serve(limited(l))
		s.ended(at, one, err)
	}()
	return nil
}

// indexOf returns the index of an interface; 0: it does not exist.
func indexOf(on string) int {
	i, err := net.InterfaceByName(on)
	if err != nil {
		return 0
	}
	return i.Index
}

// ended forgets a server that has ended by itself, so that the next call of Serve starts it again.
func (s *Service) ended(at side, one *server, err error) {
	if errors.Is(err, http.ErrServerClosed) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.servers[at] == one {
		delete(s.servers, at)
		s.log.Warn("metadata server ended", "network", at.network, "interface", at.on, "error", err)
	}
}

// Close ends all servers.
func (s *Service) Close() { s.Serve(0, nil) }

// listen listens on a port of one interface only, with IPv6 if the kernel has it: others, and the loopback, do not
// reach it.
func listen(port int, on string) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = syscall.SetsockoptString(int(fd), syscall.SOL_SOCKET,
				syscall.SO_BINDTODEVICE, on)
		})
		return errors.Join(err, failed)
	}}
	return config.Listen(context.Background(), "tcp", net.JoinHostPort("", number(port)))
}

// handler answers guests of a network.
func (s *Service) handler(network string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		if r.Method != http.MethodGet && r.Method != http.MethodHead || err != nil {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "Only GET is answered here.", http.StatusMethodNotAllowed)
			return
		}
		at := from.Addr().Unmap().WithZone("") // of a link-local address: the interface
		guest, err := s.guests.of(r.Context(), network, at)
		if err != nil {
			if log, before := s.guests.mayWarn(network); log {
				s.log.Warn("metadata not served", "network", network, "address", at.String(), "error", err,
					"not_logged_before", before)
			}
			http.Error(w, "The metadata of this guest are not available.", status(err))
			return
		}
		content, kind, found, err := document(guest, at, r.URL.Path)
		switch {
		case err != nil:
			s.log.Warn("metadata not valid", "server", guest.ID, "error", err)
			http.Error(w, "The metadata of this guest are not valid.", http.StatusInternalServerError)
		case !found:
			http.NotFound(w, r)
		default:
			w.Header().Set("Content-Type", kind)
			w.Write(content)
		}
	})
}

// limited accepts at most maxConnections, and maxOfGuest of one address; further ones are closed at once.
func limited(l net.Listener) net.Listener {
	return &limitedListener{Listener: l, open: map[netip.Addr]int{}}
}

type limitedListener struct {
	net.Listener
	mu    sync.Mutex
	total int
	open  map[netip.Addr]int
}

// Accept returns the next connection within the limits.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, err := netip.ParseAddrPort(c.RemoteAddr().String())
		if err == nil && l.take(from.Addr()) {
			return &limitedConn{Conn: c, release: sync.OnceFunc(func() { l.release(from.Addr()) })}, nil
		}
		c.Close()
	}
}

func (l *limitedListener) take(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total >= maxConnections || l.open[from] >= maxOfGuest {
		return false
	}
	l.total++
	l.open[from]++
	return true
}

func (l *limitedListener) release(from netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if l.open[from]--; l.open[from] == 0 {
		delete(l.open, from)
	}
}

type limitedConn struct {
	net.Conn
	release func()
}

// Close closes the connection, which then no longer counts.
func (c *limitedConn) Close() error {
	c.release()
	return c.Conn.Close()
}
