package settings

import (
	"cmp"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/httpserver"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/sqldb"
)

var passthroughWhitelist = []config.Name{{Group: "pci", Option: "passthrough_whitelist"},
	{Group: "DEFAULT", Option: "pci_passthrough_whitelist"}}

// maxHostBytes is the maximum length of [DEFAULT] host in bytes. The name of a device's provider begins with it, and
// Placement allows 200 characters.
const maxHostBytes = 155

func (s *Settings) readService(cfg *config.Config, log *slog.Logger) (err error) {
	name, err := os.Hostname()
	if err != nil {
		return fault.New(fault.Internal, "settings.Read", "cannot read the host name of this machine: %w", err)
	}
	if s.Debug, err = cfg.Bool("DEFAULT", "debug", false); err != nil {
		return err
	}
	if s.LogFile, err = readLogFile(cfg); err != nil {
		return err
	}
	if s.Host, err = cfg.String("DEFAULT", "host", name, nil); err != nil {
		return err
	}
	if e, ok := cfg.Get("DEFAULT", "host"); ok {
		if err := provider.CheckHostName(s.Host); err != nil {
			return e.Fault("settings.Read", "%s", fault.TextOf(err))
		}
		if len(s.Host) > maxHostBytes {
			return e.Fault("settings.Read", "it has %d bytes; at most %d are allowed, because names of resource providers "+
				"begin with it",
				len(s.Host), maxHostBytes)
		}
	}
	if s.Auth, err = cfg.String("api", "auth_strategy", "", []string{"noauth2", "keystone"}); err != nil {
		return err
	}
	if e, ok := cfg.Get("api", "auth_strategy"); ok {
		s.AuthAt = e.Place()
	}
	if err := s.readLockPath(cfg); err != nil {
		return err
	}
	if s.PlacementDB, err = readURL(cfg, "placement_database"); err != nil {
		return err
	}
	s.ComputeDB, err = readURL(cfg, "database")
	return err
}

// readLogFile reads log_file, a path relative to log_dir. As in oslo.log, log_dir without log_file means a file with
// the name of the program.
func readLogFile(cfg *config.Config) (string, error) {
	file, err := cfg.String("DEFAULT", "log_file", "", nil, config.Name{Option: "logfile"})
	if err != nil {
		return "", err
	}
	dir, err := cfg.String("DEFAULT", "log_dir", "", nil, config.Name{Option: "logdir"})
	if err != nil || dir == "" || filepath.IsAbs(file) {
		return file, err
	}
	return filepath.Join(dir, cmp.Or(file, "berth.log")), nil
}

// readURL reads a database URL and checks its form. The password in it is never shown.
func readURL(cfg *config.Config, group string) (string, error) {
	e, ok := cfg.Get(group, "connection")
	if !ok {
		return "", nil
	}
	if err := e.Check("settings.Read"); err != nil {
		return "", err
	}
	if err := sqldb.CheckURL(e.Value); err != nil {
		return "", e.Fault("settings.Read", "%s", fault.TextOf(err))
	}
	return e.Value, nil
}

// readSpecs reads all occurrences of device_spec. It returns the errors of all wrong ones.
func (s *Settings) readSpecs(cfg *config.Config, _ *slog.Logger) (err error) {
	var wrong []error
	if s.ReportInPlacement, err = cfg.Bool("pci", "report_in_placement", false); err != nil {
		wrong = append(wrong, err)
	}
	for _, e := range cfg.All("pci", "device_spec", passthroughWhitelist...) {
		if e.Option != "device_spec" {
			s.warn(e, "deprecated name; use [pci] device_spec")
		}
		if err := e.Check("settings.Read"); err != nil {
			wrong = append(wrong, err)
			continue
		}
		rules, err := pci.ParseSpecs(e.Value)
		if err != nil {
			wrong = append(wrong, e.Fault("settings.Read", "%s", fault.TextOf(err)))
			continue
		}
		for i := range rules {
			rules[i].At = e.Place()
		}
		s.Rules = append(s.Rules, rules...)
	}
	return errors.Join(wrong...)
}

// readAliases reads all occurrences of alias. It returns the errors of all wrong ones.
func (s *Settings) readAliases(cfg *config.Config, _ *slog.Logger) (err error) {
	if s.PCIInPlacement, err = cfg.Bool("filter_scheduler", "pci_in_placement", false); err != nil {
		return err
	}
	if s.ResizeToSameHost, err = cfg.Bool("DEFAULT", "allow_resize_to_same_host", false); err != nil {
		return err
	}
	s.Aliases = pci.Aliases{}
	var wrong []error
	for _, e := range cfg.All("pci", "alias", config.Name{Group: "DEFAULT", Option: "pci_alias"}) {
		if e.Option != "alias" {
			s.warn(e, "deprecated name; use [pci] alias")
		}
		if err := e.Check("settings.Read"); err != nil {
			wrong = append(wrong, err)
		} else if err := s.Aliases.Add(e.Value, s.PCIInPlacement); err != nil {
			wrong = append(wrong, e.Fault("settings.Read", "%s", fault.TextOf(err)))
		}
	}
	return errors.Join(wrong...)
}

func (s *Settings) readBerth(cfg *config.Config, log *slog.Logger) (err error) {
	if s.Sysfs, err = cfg.String("berth", "sysfs", "/sys", nil); err != nil {
		return err
	}
	if e, ok := cfg.Get("berth", "sysfs"); ok {
		if _, err := OpenSysfs(s.Sysfs); err != nil {
			return e.Fault("settings.Read", "%s; name a directory shaped like /sys, or a captured machine", fault.TextOf(err))
		}
		if s.Sysfs, err = filepath.Abs(s.Sysfs); err != nil {
			return e.Fault("settings.Read", "%s", err)
		}
	}
	seconds, err := cfg.Int("berth", "rescan_interval", 60, 1, 86400)
	if err != nil {
		return err
	}
	s.Rescan = time.Duration(seconds) * time.Second
	if s.Connections, err = readConnections(cfg, s.Placement.ProxyHeaders, log); err != nil {
		return err
	}
	limit, err := cfg.Float("berth", "request_timeout", defaultRequestTime.Seconds(), 0.1, 3600)
	if err != nil {
		return err
	}
	s.RequestTime = time.Duration(limit * float64(time.Second))
	if s.Capacity.VCPUs, err = cfg.Int("berth", "fake_vcpus", 64, 1, 1<<20); err != nil {
		return err
	}
	if s.Capacity.MemoryMB, err = cfg.Int("berth", "fake_memory_mb", 262144, 1, 1<<30); err != nil {
		return err
	}
	s.Capacity.DiskGB, err = cfg.Int("berth", "fake_disk_gb", 4096, 1, 1<<30)
	return err
}

// defaultRequestTime is the default of [berth] request_timeout.
const defaultRequestTime = 30 * time.Second

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

// readMaxConnections reads [berth] max_connections and lowers it to the number of files that the process may open.
func readMaxConnections(cfg *config.Config, log *slog.Logger) (int, error) {
	asked, err := cfg.Int("berth", "max_connections", httpserver.DefaultMaxConnections, 1, 1<<20)
	if err != nil {
		return 0, err
	}
	var may syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &may); err != nil {
		return 0, fault.New(fault.Internal, "settings.Read", "cannot read the limit of open files: %w", err)
	}
	if has := max(int(min(may.Cur, 1<<30))-reservedFiles, 1); has < asked {
		log.Warn("[berth] max_connections lowered to the limit of open files", "configured", asked, "connections", has,
			"files", may.Cur)
		return has, nil
	}
	return asked, nil
}
