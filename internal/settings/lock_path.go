package settings

import (
	"os"
	"path/filepath"
	"strconv"

	"github.com/openberth/berth/config"
)

// readLockPath reads [oslo_concurrency] lock_path.
func (s *Settings) readLockPath(cfg *config.Config) (err error) {
	s.LockPath, err = cfg.String("oslo_concurrency", "lock_path", defaultLockPath(), nil)
	return err
}

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
