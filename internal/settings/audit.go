package settings

import (
	"errors"
	"os"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

// AuditLog is the driver that records requests.
const AuditLog = "log"

// auditOptions are the rows of the options of the audit log, and of the audits of the cloud.
func (s *Settings) auditOptions() config.Options {
	return config.Options{
		config.Text("audit_middleware_notifications", "driver", &s.Audit.Driver, "noop", "noop", AuditLog),
		config.Text("berth", "audit_directory", &s.Audit.Directory, ""),
		config.Number("berth", "audit_days", &s.Audit.Days, 90, 0, 36500),
		config.Seconds("audit", "interval", &s.AuditInterval, 0, 0, 7*86400),
	}
}

// checkAudit returns an error if the directory does not exist, or would not be used.
func (s *Settings) checkAudit(cfg *config.Config) error {
	e, set := cfg.Get("berth", "audit_directory")
	if !set || s.Audit.Directory == "" {
		return nil
	}
	if s.Audit.Driver != AuditLog {
		return fault.New(fault.Invalid, "%s: [berth] audit_directory is set, but nothing is recorded; set "+
			"[audit_middleware_notifications] driver = log, or remove it", e.Place())
	}
	info, err := os.Stat(s.Audit.Directory)
	if err == nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if err != nil {
		return fault.New(fault.Invalid, "%s: [berth] audit_directory = %s: %w; create it with write permission for the "+
			"user of the service", e.Place(), s.Audit.Directory, err)
	}
	return nil
}
