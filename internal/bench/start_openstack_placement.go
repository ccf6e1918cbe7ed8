package bench

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/internal/testenv"
)

// StartOriginal starts OpenStack's own Placement as Debian runs it, in uwsgi with two processes, on a database that it
// brings up to date, with its placement.conf, which ends with lines, and its log in dir. It returns once the server
// responds.
//
// Other than with Debian's lazy-apps, the processes are forked from one that has loaded the application: loading takes
// two seconds of processor time, and writes the standard traits and classes, which two processes cannot do at the same
// time in an empty database. oslo.db opens connections of its own in each process. At its end a process does not take
// Python down, because greenlet aborts in a forked one.
func StartOriginal(dir, database string, lines ...string) (*Process, error) {
	return StartOriginalFrom("", dir, database, lines...)
}

// StartOriginalFrom is StartOriginal with the program of a source tree, which runs with Debian's Python and libraries,
// or with that of Debian's package if source is empty.
func StartOriginalFrom(source, dir, database string, lines ...string) (*Process, error) {
	for _, program := range []string{"placement-manage", "uwsgi", "/usr/bin/placement-api"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("OpenStack's own Placement is not installed; run `make tools`: %w", err)
		}
	}
	if _, err := Configure(dir, database, lines...); err != nil {
		return nil, err
	}
	env := []string{"OS_PLACEMENT_CONFIG_DIR=" + dir}
	manage, application := []string{"placement-manage"}, []string{"--wsgi-file", "/usr/bin/placement-api"}
	if source != "" {
		// pbr takes the version from git or from an installed package; a source tree may have neither.
		env = append(env, "PYTHONPATH="+source, "PBR_VERSION=99")
		manage, application = []string{"/usr/bin/python3", "-c", "from placement.cmd import manage; manage.main()"},
			[]string{"--module", "placement.wsgi.api"}
	}
	if err := createTables(source, database, func() error {
		sync := exec.Command(manage[0], append(manage[1:], "--config-dir", dir, "db", "sync")...)
		sync.Env = append(os.Environ(), env...)
		if out, err := sync.CombinedOutput(); err != nil {
			return fmt.Errorf("placement-manage db sync: %w\n%s", err, out)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // uwsgi cannot choose a port and print it
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	args := slices.Concat([]string{"env"}, env, []string{"uwsgi", "--plugins", "python3", "--http-socket", addr},
		application, []string{"--master", "--no-orphans", "--processes", "2", "--skip-atexit-teardown", "--die-on-term",
			"--need-app", "--disable-logging", "--buffer-size", "65535", "--worker-reload-mercy", "1"})
	p, err := Start(filepath.Join(dir, "original.log"), args...)
	if err != nil {
		return nil, err
	}
	p.Addr = addr
	if err := p.await(5 * time.Minute); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// createTables creates or upgrades the tables of a database with sync. Those of Debian's package in a new SQLite file
// are made once on a machine: they take 4 s of processor time.
func createTables(source, database string, sync func() error) error {
	file, isFile := strings.CutPrefix(database, "sqlite:///")
	if _, err := os.Stat(file); !isFile || err == nil || source != "" {
		return sync()
	}
	made, err := os.MkdirTemp(filepath.Dir(file), "made-") // on the same file system
	if err != nil {
		return err
	}
	copied := filepath.Join(made, "placement.db")
	if err := testenv.Fill(made, "placement-manage", nil, func() error {
		if err := sync(); err != nil {
			return err
		}
		return os.Rename(file, copied)
	}); err != nil {
		return err
	}
	return errors.Join(os.Rename(copied, file), os.RemoveAll(made))
}
