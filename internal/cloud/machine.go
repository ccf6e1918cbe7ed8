package cloud

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/openberth/berth/agent/loop"
	"github.com/openberth/berth/config"
)

// readLocks reads [oslo_concurrency] lock_path.
func (s *Settings) readLocks(cfg *config.Config) (err error) {
	s.LockPath, err = cfg.String("oslo_concurrency", "lock_path", defaultLockPath(), nil)
	return err
}

// defaultLockPath is where the locks are that processes of this machine exclude each other by. It does not survive a
// boot.
func defaultLockPath() string {
	if os.Geteuid() == 0 {
		return "/run/lock/berth"
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "berth")
	}
	return filepath.Join(os.TempDir(), "berth-"+strconv.Itoa(os.Getuid()))
}

// thisMachine identifies where an agent runs whose locks are in dir.
func thisMachine(dir string) loop.Machine {
	var m loop.Machine
	if id, err := os.ReadFile("/etc/machine-id"); err == nil {
		m.ID = strings.TrimSpace(string(id))
	}
	place := processPlace()
	info, err := os.Stat(dir)
	if place == "" || err != nil {
		return m // then a restart waits until its predecessor has had time to reconnect
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		m.Place = fmt.Sprintf("%s locks %d:%d", place, stat.Dev, stat.Ino)
	}
	return m
}
