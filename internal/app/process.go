package app

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"github.com/openberth/berth/compute/store"
)

// thisProcess is this process as others are told of it that want the same database.
func thisProcess() store.LeaseOwner {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	return store.LeaseOwner{Instance: uuid.NewString(), Host: name, PID: os.Getpid(), ProcessSpace: processSpace(), StartTime: processStartTime(os.Getpid())}
}

// processPlace tells the process ids that are seen here from those of other machines, of this one before it was booted, and of other containers.
// Empty where that cannot be told.
func processSpace() string {
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

// processBirth is when a process began, in ticks since the machine was booted (proc_pid_stat(5), starttime). Empty where that cannot be told.
func processStartTime(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	fields := strings.Fields(rest) // from the third, the state
	const starttime = 22 - 3
	if len(fields) <= starttime {
		return ""
	}
	if _, err := strconv.ParseUint(fields[starttime], 10, 64); err != nil {
		return ""
	}
	return fields[starttime]
}

// runs says whether a process is known to run: it is one of those that are seen here.
func isRunning(h store.LeaseOwner) bool {
	return h.ProcessSpace != "" && h.ProcessSpace == processSpace() && h.StartTime != "" && h.StartTime == processStartTime(h.PID)
}

// ended says whether a process is known to have ended: it was one of those that are seen here, and is none of them any more.
func hasEnded(h store.LeaseOwner) bool {
	if h.ProcessSpace == "" || h.ProcessSpace != processSpace() {
		return false
	}
	if errors.Is(syscall.Kill(h.PID, 0), syscall.ESRCH) {
		return true
	}
	birth := processStartTime(h.PID)
	return birth != "" && h.StartTime != "" && birth != h.StartTime
}
