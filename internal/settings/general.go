package settings

import (
	"cmp"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/openberth/berth/api/trace"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/sqldb"
)

// generalOptions are the rows of options that more than one service has.
func (s *Settings) generalOptions() config.Options {
	return config.Options{
		config.Flag("DEFAULT", "debug", &s.Debug, false),
		config.Text("DEFAULT", "log_file", &s.LogFile, "").Formerly(config.Name{Option: "logfile"}),
		config.Text("DEFAULT", "log_dir", &s.raw.logDir, "").Formerly(config.Name{Option: "logdir"}),
		config.Parsed("DEFAULT", "host", &s.Host, hostName),
		config.Text("api", "auth_strategy", &s.Auth, "", NoAuth2, HTTPBasic, Keystone),
		config.Flag("api", "enable_instance_password", &s.InstancePassword, true),
		config.Flag("compute", "ports_need_microversion", &s.PortsNeedVersion, true),
		config.Text("oslo_concurrency", "lock_path", &s.LockPath, ""),
		config.Parsed("placement_database", "connection", &s.PlacementDB, databaseURL),
		config.Parsed("database", "connection", &s.ComputeDB, databaseURL),
		config.Parsed("network_database", "connection", &s.NetworkDB, databaseURL),
		config.Flag("vnc", "enabled", &s.Libvirt.VNC, true),
		config.Text("berth", "novnc_directory", &s.Consoles.NoVNC, "/usr/share/novnc"),
		config.Text("berth", "xterm_directory", &s.Consoles.XTerm, "/usr/share/nodejs/xterm"),
		config.Seconds("consoleauth", "token_ttl", &s.Consoles.TokenTTL, 600, 1, 1<<31-1),
		config.Text("berth", "otlp_endpoint", &s.OTLPEndpoint, ""),
		config.List("berth", "ignored_properties", &s.IgnoredProperties),
		config.Flag("DEFAULT", "allow_resize_to_same_host", &s.ResizeToSameHost, false),
		config.Seconds("DEFAULT", "reclaim_instance_interval", &s.ReclaimInterval, 0, 0, 1<<31-1),
		config.Seconds("DEFAULT", "shelved_offload_time", &s.OffloadTime, 0, -1, 1<<31-1),
		config.Text("DEFAULT", "default_availability_zone", &s.DefaultZone, "nova"),
		config.Text("DEFAULT", "default_schedule_zone", &s.ScheduleZone, ""),
		config.Seconds("DEFAULT", "service_down_time", &s.Silence, 60, 1, 86400),
	}
}

// checkGeneral completes the options that more than one service has.
func (s *Settings) checkGeneral(cfg *config.Config, log *slog.Logger) error {
	s.LogFile = logFile(s.LogFile, s.raw.logDir)
	if _, set := cfg.Get("oslo_concurrency", "lock_path"); !set { // empty: no lock
		s.LockPath = defaultLockPath()
	}
	if e, ok := cfg.Get("api", "auth_strategy"); ok {
		s.AuthAt = e.Place()
	}
	s.raiseSilence(log)
	if s.Host == "" {
		name, err := os.Hostname()
		if err != nil {
			return fault.New(fault.Internal, "cannot read the host name of this machine: %w", err)
		}
		s.Host = name
	}
	return errors.Join(s.checkTracing(cfg), s.checkAudit(cfg))
}

// logFile returns the path of the log file, which is relative to dir. As in oslo.log, log_dir without log_file means a
// file with the name of the program.
func logFile(file, dir string) string {
	if dir == "" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, cmp.Or(file, "berth.log"))
}

// leastSilence is the least value of [DEFAULT] service_down_time: agents send a sign of life every ten seconds.
const leastSilence = 15 * time.Second

// raiseSilence raises service_down_time to one and a half intervals, with a warning: between two signs of life of its
// agent no host may count as silent.
func (s *Settings) raiseSilence(log *slog.Logger) {
	if s.Silence > 0 && s.Silence < leastSilence { // 0: a wrong value, which is a fault already
		log.Warn("[DEFAULT] service_down_time is raised: agents send a sign of life every ten seconds",
			"service_down_time", s.Silence, "used", leastSilence)
		s.Silence = leastSilence
	}
}

// endpointVariable is OpenTelemetry's environment variable for what [berth] otlp_endpoint sets.
const endpointVariable = "OTEL_EXPORTER_OTLP_ENDPOINT"

// checkTracing checks the URL of the collector of spans. Its default is in an environment variable.
func (s *Settings) checkTracing(cfg *config.Config) error {
	e, set := cfg.Get("berth", "otlp_endpoint")
	if !set {
		s.OTLPEndpoint = os.Getenv(endpointVariable)
	}
	if s.OTLPEndpoint == "" {
		return nil
	}
	err := trace.CheckEndpoint(s.OTLPEndpoint)
	switch {
	case err != nil && set:
		return e.Fault("%s", fault.TextOf(err))
	case err != nil:
		return fault.New(fault.Invalid, "%s: %s", endpointVariable, fault.TextOf(err))
	}
	return nil
}

// maxHostBytes is the maximum length of [DEFAULT] host in bytes. The name of a device's provider begins with it, and
// Placement allows 200 characters.
const maxHostBytes = 155

// hostName checks [DEFAULT] host.
func hostName(text string) (string, error) {
	if err := provider.CheckHostName(text); err != nil {
		return "", err
	}
	if len(text) > maxHostBytes {
		return "", fault.New(fault.Invalid, "it has %d bytes; at most %d are allowed, because names of resource providers "+
			"begin with it", len(text), maxHostBytes)
	}
	return text, nil
}

// databaseURL checks the form of a database URL. The password in it is never shown.
func databaseURL(text string) (string, error) { return text, sqldb.CheckURL(text) }

// defaultLockPath returns the directory of the locks between processes of this machine. It is emptied at a boot.
func defaultLockPath() string {
	if os.Geteuid() == 0 {
		return "/run/lock/berth"
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "berth")
	}
	return filepath.Join(os.TempDir(), "berth-"+strconv.Itoa(os.Getuid()))
}
