package libvirtd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
)

// A daemon without a cache starts QEMU several times to learn what it can do, which takes seconds, and minutes on a
// busy machine. So the daemons of a process begin with what the first ones have learned. known has the files of that
// cache by their names, which depend on the path of a program: the program of the daemons has the same path in all
// their mount namespaces.
var known = struct {
	sync.Mutex
	files map[string][]byte
}{files: map[string][]byte{}}

// emulator is the program in bin that libvirt runs in the place of QEMU, and programs is the path of bin in the mount
// namespace of each daemon.
const (
	emulator = "qemu-system-x86_64"
	programs = "/run/libvirt/bin"
)

// knownDir is the directory of the daemon that becomes its cache.
const knownDir = "capabilities"

// programTime is the time in a file of the cache at which the program changed. libvirt compares it.
var programTime = regexp.MustCompile(`<qemuctime>\d+</qemuctime>`)

// writeKnown writes the known files for the program of this daemon.
func (d *Daemon) writeKnown(t testing.TB) {
	t.Helper()
	known.Lock()
	defer known.Unlock()
	d.mkdir(t, knownDir)
	var stat syscall.Stat_t
	if err := syscall.Stat(d.path("bin/"+emulator), &stat); err != nil {
		t.Fatal(err)
	}
	for name, text := range known.files {
		if bytes.Contains(text, []byte("<emulator>"+programs+"/"+emulator+"</emulator>")) {
			text = programTime.ReplaceAll(text, fmt.Appendf(nil, "<qemuctime>%d</qemuctime>", stat.Ctim.Sec))
		}
		d.write(t, filepath.Join(knownDir, name), string(text), 0o600)
	}
}

// keepKnown keeps the files of the daemon's cache.
func (d *Daemon) keepKnown() {
	paths, _ := filepath.Glob(d.path("cache/qemu/capabilities/*.xml")) // an error is that of the pattern
	known.Lock()
	defer known.Unlock()
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil && len(text) > 0 {
			known.files[filepath.Base(path)] = text
		}
	}
}
