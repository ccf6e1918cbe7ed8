package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
)

// Only the owner can read Berth's files, whatever the umask. Files of an earlier release with other modes are
// restricted, and logged.
func TestDataDirectoryIsPrivate(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	path, dir := conf(t, machine(t, 1, 1)), filepath.Join(t.TempDir(), "data")
	d := upWithoutMask(t, path, dir)
	flavor, err := d.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "f", VCPUs: 1, RAM: 64})
	must(t, err)
	d.untilActive(t, d.server(t, "s", flavor.ID))
	found := modes(t, dir)
	for _, name := range []string{"", "placement.db", "placement.db-wal", "placement.db-shm", "compute.db",
		"compute.db-wal", "compute.lock", "network.lock", "images/image.lock", "network.db", "network.db-wal", "agent",
		"agent/journal", "agent/lock", "agent/guests"} {
		if _, ok := found[filepath.Join(dir, name)]; !ok {
			t.Errorf("%q does not exist", name)
		}
	}
	d.kill() // so that the -wal and -shm files stay

	for name, mode := range found {
		must(t, os.Chmod(name, mode|0o055))
	}
	d = upWithoutMask(t, path, dir)
	modes(t, dir)
	for name := range found {
		if !strings.Contains(d.log.String(), `msg="rights of other users removed"`) || !strings.Contains(d.log.String(),
			" path="+name+"\n") {
			t.Errorf("no line in the log for %s", name)
		}
	}
	d.stop(t)

	// A directory with other files may belong to another program: it is not changed.
	must(t, os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o644))
	must(t, os.Chmod(dir, 0o755))
	d = upWithoutMask(t, path, dir)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 || !strings.Contains(d.log.String(),
		"data directory is open to other users") {
		t.Errorf("%v %v\n%s", info.Mode(), err, d.log)
	}
	d.stop(t)
}

// upWithoutMask is up for a process with the umask 0. The umask of the test's own process is that of all its tests.
func upWithoutMask(t *testing.T, conf, dir string) *daemon {
	t.Helper()
	cmd := berth(t, upArguments(conf, dir)...)
	cmd.Args = append([]string{"sh", "-c", `umask 0; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	return startCommand(t, cloudServices, cmd)
}

// modes returns the mode of each path under dir, and checks that other users have no rights.
func modes(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	found := map[string]fs.FileMode{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		found[path] = info.Mode().Perm()
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	}))
	return found
}
