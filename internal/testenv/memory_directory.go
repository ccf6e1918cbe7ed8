package testenv

import (
	"os"
	"syscall"
	"testing"
)

// leastFree is the free space below which a file system in memory is not used: containers often have 64 MiB.
const leastFree = 1 << 30

// Memory returns a directory in memory for os.MkdirTemp, or "", its default, if the system has no room in memory.
func Memory() string {
	const memory = "/dev/shm"
	var free syscall.Statfs_t
	if err := syscall.Statfs(memory, &free); err != nil || free.Bavail*uint64(free.Bsize) < leastFree {
		return ""
	}
	return memory
}

// MemoryDir is t.TempDir in memory where the system has room for it. A test that ends processes, and no machine, does
// not depend on the disk, and would wait for it most of the time: at each commit of a database and entry of a journal.
func MemoryDir(t testing.TB) string {
	t.Helper()
	memory := Memory()
	if memory == "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "berth-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
