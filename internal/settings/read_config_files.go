package settings

import (
	"log/slog"

	"github.com/openberth/berth/config"
)

// Read reads the configuration files. A wrong value is a fault of kind Invalid that names the file, line, option and
// text. Read logs a warning for each unknown or deprecated option.
func Read(log *slog.Logger, files ...string) (Settings, error) {
	s, faults, err := readAll(log, files...)
	if err == nil && len(faults) > 0 {
		err = faults[0]
	}
	if err != nil {
		return Settings{}, err
	}
	for _, e := range s.unknown {
		s.warn(e, unknownOption+suggestion(e))
	}
	for _, warning := range s.warnings {
		log.Warn(warning)
	}
	return s, nil
}

// readAll is Read, but returns all faults. err is not nil if the files cannot be read.
func readAll(log *slog.Logger, files ...string) (s Settings, faults []error, err error) {
	cfg, err := config.Load(files...)
	if err != nil {
		return s, nil, err
	}
	s = Settings{cfg: cfg, files: files}
	s.unknown = cfg.Unknown(Known())
	for _, read := range []func(*config.Config, *slog.Logger) error{s.readService, s.readSpecs, s.readAliases,
		s.readPlacement, s.readCompute, s.readImages, s.readAccounts, s.readBerth, s.readHost, s.readLibvirt, s.readTLS,
		s.readTracing, s.readBandwidth, s.readNetwork, s.readImageStore, s.readPowerVM} {
		err := read(cfg, log)
		if all, several := err.(interface{ Unwrap() []error }); several {
			faults = append(faults, all.Unwrap()...)
		} else if err != nil {
			faults = append(faults, err)
		}
	}
	return s, faults, nil
}

// readService reads the options that more than one service has. It returns the first error.
func (s *Settings) readService(cfg *config.Config, _ *slog.Logger) error {
	for _, read := range []func(*config.Config) error{s.readLogging, s.readHostName, s.readAuthStrategy, s.readLockPath,
		s.readDatabases} {
		if err := read(cfg); err != nil {
			return err
		}
	}
	return nil
}
