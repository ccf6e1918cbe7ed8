package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// initMachine is a machine for `berth init`: a directory with its configuration, its state and the home of its user.
type initMachine struct {
	t    *testing.T
	dir  string
	args []string
}

func newInitMachine(t *testing.T) *initMachine {
	t.Helper()
	m := &initMachine{t: t, dir: t.TempDir()}
	must(t, os.Mkdir(m.path("home"), 0o700))
	m.args = []string{"--config-dir", m.path("etc"), "--data-dir", m.path("data"), "--home", m.path("home")}
	t.Cleanup(func() {
		if _, err := os.Stat(m.path("data")); err == nil {
			m.run(append([]string{"init", "--undo", "--force"}, m.args...)...)
		}
	})
	return m
}

func (m *initMachine) path(name string) string { return filepath.Join(m.dir, name) }

// command returns a command on the machine, not started.
func (m *initMachine) command(args ...string) *exec.Cmd {
	cmd := berth(m.t, args...)
	cmd.Env = append(cmd.Env, "HOME="+m.path("home"), "XDG_CONFIG_HOME=", "SUDO_USER=",
		"BERTH_LISTEN_PLACEMENT=127.0.0.1:0", "BERTH_LISTEN_COMPUTE=127.0.0.1:0", "BERTH_LISTEN_NETWORK=127.0.0.1:0",
		"BERTH_LISTEN_IMAGE=127.0.0.1:0")
	return cmd
}

func (m *initMachine) run(args ...string) (output string, ok bool) {
	out, err := m.command(args...).CombinedOutput()
	return string(out), err == nil
}

// works runs a command that must succeed.
func (m *initMachine) works(args ...string) string {
	m.t.Helper()
	out, ok := m.run(args...)
	if !ok {
		m.t.Fatalf("berth %s: %s", strings.Join(args, " "), out)
	}
	return out
}

func (m *initMachine) init(args ...string) string {
	m.t.Helper()
	return m.works(append(append([]string{"init"}, args...), m.args...)...)
}

// want checks that a text has parts.
func want(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
}

// isEmpty checks that nothing of the cloud remains.
func (m *initMachine) isEmpty() {
	m.t.Helper()
	must(m.t, filepath.WalkDir(m.dir, func(path string, _ os.DirEntry, err error) error {
		if path != m.dir && path != m.path("home") && path != m.path("disk") {
			m.t.Errorf("%s remains", path)
		}
		return err
	}))
}

// Three commands lead from nothing to a server; a second init changes nothing, and --undo removes everything.
func TestInitAndLaunch(t *testing.T) {
	t.Parallel()
	m := newInitMachine(t)
	want(t, m.init("--driver", "fake", "--listen", testenv.FreeAddress(t), "--plan"), "would make the flavor small")
	m.isEmpty()
	address := testenv.FreeAddress(t)
	want(t, m.init("--driver", "fake", "--listen", address), "made     the flavor small", "undo: ",
		"The cloud is ready at http://"+address)
	want(t, m.init(), "nothing to do")
	if out, ok := m.run(append([]string{"init", "--listen", testenv.FreeAddress(t)}, m.args...)...); ok ||
		!strings.Contains(out, "with other options") {
		t.Errorf("other options: %s", out)
	}
	must(t, os.WriteFile(m.path("disk"), make([]byte, 1<<20), 0o600))
	m.works("image", "add", m.path("disk"), "--name", "debian")
	want(t, m.works("launch", "web", "--image", "debian"), "ACTIVE", "ssh 10.")
	want(t, m.works("server", "list"), "web", "ACTIVE", "small")
	want(t, m.works("host", "list", "--os-cloud", "berth-admin"), "up, FAKE")
	for part, args := range map[string][]string{
		"did you mean debian?":        {"launch", "two", "--image", "debain"},
		"did you mean private?":       {"launch", "two", "--image", "debian", "--network", "privat"},
		`no key pair has the id`:      {"launch", "two", "--image", "debian", "--key", "mine"},
		"No valid host was found":     {"launch", "two", "--image", "debian", "--flavor", "huge"},
		"delete them, or use --force": append([]string{"init", "--undo"}, m.args...),
	} {
		if strings.Contains(part, "No valid host") {
			m.works("flavor", "create", "huge", "--vcpus", "1", "--ram", "999999999", "--disk", "1", "--os-cloud",
				"berth-admin")
		}
		if out, ok := m.run(args...); ok || !strings.Contains(out, part) {
			t.Errorf("%v: %s; want %s", args, out, part)
		}
	}
	want(t, m.init("--undo", "--force"), "deleting the server web", "removed  the flavor small")
	m.isEmpty()
	want(t, m.init("--undo"), "nothing to do")
}

// An init that is killed after any step is completed by the next one, and what was made by all of them is removed, also
// by an undo that is killed after any step.
func TestInitKilledAfterEachStep(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	m := newInitMachine(t)
	made := m.killedAfterEach("made     ", "--driver", "fake", "--listen", testenv.FreeAddress(t))
	if len(made) < 15 {
		t.Errorf("only %d things: %v", len(made), made)
	}
	want(t, m.works("flavor", "list"), "tiny", "small", "xlarge")
	if removed := m.killedAfterEach("removed  ", "--undo"); len(removed) < 5 {
		t.Errorf("only %d things: %v", len(removed), removed)
	}
	m.isEmpty()
}

// killedAfterEach runs init again and again until it has nothing to do. Each run is killed after its first line that
// begins with a word; it returns the things of these lines.
func (m *initMachine) killedAfterEach(word string, args ...string) map[string]int {
	m.t.Helper()
	things := map[string]int{}
	for range 40 {
		cmd := m.command(append(append([]string{"init"}, args...), m.args...)...)
		out, err := cmd.StdoutPipe()
		must(m.t, err)
		must(m.t, cmd.Start())
		complete, lines := false, bufio.NewScanner(out)
		for lines.Scan() {
			if what, ok := strings.CutPrefix(lines.Text(), word); ok {
				things[what]++
				break
			}
			complete = complete || strings.Contains(lines.Text(), "nothing to do")
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if complete {
			return things
		}
	}
	m.t.Fatalf("init does not complete: %v", things)
	return nil
}
