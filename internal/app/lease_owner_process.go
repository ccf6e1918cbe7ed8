package app

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"github.com/openberth/berth/compute/store/lease"
)

// thisProcess returns this process as other processes see it that use the same database.
func thisProcess() lease.Owner {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	return lease.Owner{Instance: uuid.NewString(), Host: name, PID: os.Getpid(),
		BootID: bootID(), LockID: computeLocks.only(), StartTime: processStartTime(os.Getpid())}
}

// sameBoot reports whether the process id of an owner is visible here.
func sameBoot(h lease.Owner) bool {
	return h.BootID != "" && h.BootID == bootID()
}

// hadMyLock reports whether an owner had the lock that this process has now, so that it has ended. It may have run
// before a reboot, or in another container.
func hadMyLock(h lease.Owner) bool {
	return h.LockID != "" && h.LockID == computeLocks.only()
}

// bootID returns an identifier of the process ids that are visible here: of this boot of this machine and of this
// container. It returns "" if the identifier cannot be read.
func bootID() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + space
}

// processStartTime returns when a process started, in clock ticks since boot (proc_pid_stat(5), starttime), or "" if
// that cannot be read.
func processStartTime(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	fields := strings.Fields(rest) // starts with the third field, the state
	const starttime = 22 - 3
	if len(fields) <= starttime {
		return ""
	}
	if _, err := strconv.ParseUint(fields[starttime], 10, 64); err != nil {
		return ""
	}
	return fields[starttime]
}

// isRunning reports whether a process certainly runs: it is visible here and has the same start time.
func isRunning(h lease.Owner) bool {
	return sameBoot(h) && h.StartTime != "" && h.StartTime == processStartTime(h.PID)
}

// hasEnded reports whether a process has certainly ended: it was visible here and no longer exists, or it had the lock
// that this process has.
func hasEnded(h lease.Owner) bool {
	if hadMyLock(h) {
		return true
	}
	if !sameBoot(h) {
		return false
	}
	if errors.Is(syscall.Kill(h.PID, 0), syscall.ESRCH) {
		return true
	}
	started := processStartTime(h.PID)
	return started != "" && h.StartTime != "" && started != h.StartTime
}
