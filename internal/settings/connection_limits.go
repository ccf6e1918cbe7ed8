package settings

import (
	"log/slog"
	"syscall"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/httpserver"
)

// reservedFiles is how many of the process's file descriptors are kept for databases and the log, not for client
// connections.
const reservedFiles = 256

// readConnections reads the limits for open connections, in total and for each address. By default one address may have
// half of the total, so that it cannot block all others. Loopback addresses, and all addresses behind a proxy, may have
// all, because they can stand for many clients.
func readConnections(cfg *config.Config, proxied bool, log *slog.Logger) (c httpserver.ConnLimits, err error) {
	if c.Total, err = readMaxConnections(cfg, log); err != nil {
		return c, err
	}
	if !proxied {
		c.PerAddress = max(c.Total/2, 1)
	}
	share, err := cfg.Int("berth", "max_connections_per_address", c.PerAddress, 0, 1<<20)
	if _, ok := cfg.Get("berth", "max_connections_per_address"); ok && err == nil {
		c.PerAddress, c.PerLoopback = share, share
	}
	return c, err
}

// readMaxConnections reads [berth] max_connections and lowers it to the number of files that the process may open. Go
// has raised the soft limit of the process to the hard limit at its start.
func readMaxConnections(cfg *config.Config, log *slog.Logger) (int, error) {
	asked, err := cfg.Int("berth", "max_connections", httpserver.DefaultMaxConnections, 1, 1<<20)
	if err != nil {
		return 0, err
	}
	var may syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &may); err != nil {
		return 0, fault.New(fault.Internal, "cannot read the limit of open files: %w", err)
	}
	if has := max(int(min(may.Cur, 1<<30))-reservedFiles, 1); has < asked {
		log.Warn("[berth] max_connections lowered to the hard limit of open files; raise the limit (LimitNOFILE of systemd, "+
			"ulimit -Hn) if more agents or clients must connect", "configured", asked, "connections", has, "files", may.Cur)
		return has, nil
	}
	return asked, nil
}
