package app

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/openberth/berth/agent/reconcile"
)

// machineIdentity identifies the machine and the lock directory of an agent.
func machineIdentity(dir string) reconcile.Machine {
	var m reconcile.Machine
	if id, err := os.ReadFile("/etc/machine-id"); err == nil {
		m.ID = strings.TrimSpace(string(id))
	}
	place := processSpace()
	info, err := os.Stat(dir)
	if place == "" || err != nil {
		return m // a restarted agent then waits long enough for its predecessor to reconnect
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		m.Place = fmt.Sprintf("%s locks %d:%d", place, stat.Dev, stat.Ino)
	}
	return m
}
