package settings

import (
	"log/slog"
	"path/filepath"
	"time"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

func (s *Settings) readBerth(cfg *config.Config, log *slog.Logger) (err error) {
	if s.Sysfs, err = cfg.String("berth", "sysfs", "/sys", nil); err != nil {
		return err
	}
	if e, ok := cfg.Get("berth", "sysfs"); ok {
		if _, err := OpenSysfs(s.Sysfs); err != nil {
			return e.Fault("%s; name a directory shaped like /sys, or a captured machine", fault.TextOf(err))
		}
		if s.Sysfs, err = filepath.Abs(s.Sysfs); err != nil {
			return e.Fault("%s", err)
		}
	}
	seconds, err := cfg.Int("berth", "rescan_interval", 60, 1, 86400)
	if err != nil {
		return err
	}
	s.Rescan = time.Duration(seconds) * time.Second
	if seconds, err = cfg.Int("berth", "port_interval", 30, 1, 3600); err != nil {
		return err
	}
	s.PortInterval = time.Duration(seconds) * time.Second
	if err := s.readSilence(cfg, log); err != nil {
		return err
	}
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

// defaultSilence is the default of [DEFAULT] service_down_time, as in Nova, and leastSilence its least value: agents
// send a sign of life every ten seconds.
const (
	defaultSilence = time.Minute
	leastSilence   = 15 * time.Second
)

// readSilence reads [DEFAULT] service_down_time. Between two signs of life of its agent no host may count as silent, so
// a value below one and a half intervals is raised, with a warning.
func (s *Settings) readSilence(cfg *config.Config, log *slog.Logger) error {
	seconds, err := cfg.Int("DEFAULT", "service_down_time", int(defaultSilence.Seconds()), 1, 86400)
	if err != nil {
		return err
	}
	s.Silence = time.Duration(seconds) * time.Second
	if s.Silence < leastSilence {
		log.Warn("[DEFAULT] service_down_time is raised: agents send a sign of life every ten seconds",
			"service_down_time", s.Silence, "used", leastSilence)
		s.Silence = leastSilence
	}
	return nil
}
