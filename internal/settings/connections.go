package settings

import (
	"log/slog"
	"syscall"

	"github.com/openberth/berth/api/cors"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/httpserver"
)

// connectionOptions are the rows of the options of the HTTP listeners.
func (s *Settings) connectionOptions() config.Options {
	return append(config.Options{
		config.Number("berth", "max_connections", &s.Connections.Total, httpserver.DefaultMaxConnections, 1, 1<<20),
		config.Number("berth", "max_connections_per_address", &s.Connections.PerAddress, -1, 0, 1<<20),
		config.Fractions("berth", "request_timeout", &s.RequestTime, 30, 0.1, 3600),
		config.Flag("oslo_middleware", "enable_proxy_headers_parsing", &s.ProxyHeaders, false),
	}, config.Elsewhere("cors", "allowed_origin", "allow_credentials", "expose_headers", "max_age", "allow_methods",
		"allow_headers")...)
}

// checkConnections completes the limits for open connections, in total and for each address, and reads [cors]. By
// default one address may have half of the total, so that it cannot block all others. Loopback addresses, and all
// addresses behind a proxy, may have all, because they can stand for many clients.
func (s *Settings) checkConnections(cfg *config.Config, log *slog.Logger) (err error) {
	c := &s.Connections
	_, set := cfg.Get("berth", "max_connections")
	if c.Total, err = openable(c.Total, set, log); err != nil {
		return err
	}
	_, set = cfg.Get("berth", "max_connections_per_address")
	if c.PerAddress < 0 { // not set, or empty
		c.PerAddress = 0
		if !s.ProxyHeaders {
			c.PerAddress = max(c.Total/2, 1)
		}
	}
	if set {
		c.PerLoopback = c.PerAddress
	}
	if s.Placement.CORS, err = readOrigins(cfg, cors.Defaults()); err != nil {
		return err
	}
	s.Compute.CORS, err = readOrigins(cfg, cors.ComputeDefaults())
	return err
}

// reservedFiles is how many of the process's file descriptors are kept for databases and the log, not for client
// connections.
const reservedFiles = 256

// openable lowers [berth] max_connections to the number of files that the process may open, with a warning if the
// option is set, or if less than half of its default is left. Go has raised the soft limit of the process to the hard
// limit at its start.
func openable(asked int, set bool, log *slog.Logger) (int, error) {
	var may syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &may); err != nil {
		return 0, fault.New(fault.Internal, "cannot read the limit of open files: %w", err)
	}
	has := max(int(min(may.Cur, 1<<30))-reservedFiles, 1)
	if has >= asked {
		return asked, nil
	}
	if set || has < httpserver.DefaultMaxConnections/2 {
		log.Warn("[berth] max_connections lowered to the hard limit of open files; raise the limit (LimitNOFILE of systemd, "+
			"ulimit -Hn) if more agents or clients must connect", "configured", asked, "connections", has, "files", may.Cur)
	}
	return has, nil
}

// readOrigins reads [cors] over the defaults of a service.
func readOrigins(cfg *config.Config, c cors.Options) (cors.Options, error) {
	var err error
	for option, list := range map[string]*[]string{"allowed_origin": &c.AllowedOrigin, "expose_headers": &c.ExposeHeaders,
		"allow_methods": &c.AllowMethods, "allow_headers": &c.AllowHeaders} {
		if *list, err = cfg.Strings("cors", option, *list); err != nil {
			return c, err
		}
	}
	if c.AllowCredentials, err = cfg.Bool("cors", "allow_credentials", c.AllowCredentials); err != nil {
		return c, err
	}
	c.MaxAge, err = cfg.Int("cors", "max_age", c.MaxAge, 0, 1<<31-1)
	return c, err
}

// CheckOrigins returns a fault if [cors] allowed_origin allows every web page while callers are not authenticated.
// missing is the auth_strategy that applies if the option is not set. With noauth2 a page needs no token, so it would
// be an administrator. Every page can have the origin "null", in a sandboxed frame. Origins that are listed by name are
// the operator's decision.
func (s Settings) CheckOrigins(missing string) error {
	if s.Strategy(missing) != NoAuth2 {
		return nil
	}
	for _, origin := range s.Placement.CORS.AllowedOrigin {
		if origin != "*" && origin != "null" {
			continue
		}
		e, _ := s.cfg.Get("cors", "allowed_origin")
		return e.Fault("%s lets every web page act as administrator while [api] auth_strategy is "+
			"noauth2; name the origins of pages that you trust, or set auth_strategy = http_basic or keystone", origin)
	}
	return nil
}
