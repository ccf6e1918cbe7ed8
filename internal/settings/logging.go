package settings

import (
	"cmp"
	"path/filepath"

	"github.com/openberth/berth/config"
)

// readLogging reads [DEFAULT] debug and the path of the log file.
func (s *Settings) readLogging(cfg *config.Config) (err error) {
	if s.Debug, err = cfg.Bool("DEFAULT", "debug", false); err != nil {
		return err
	}
	s.LogFile, err = readLogFile(cfg)
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
