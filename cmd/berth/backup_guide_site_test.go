package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/internal/testenv"
)

// backupChapter returns the chapter "Backup and restore" of the operator's guide.
func backupChapter(t *testing.T) string {
	t.Helper()
	return guideChapter(t, "Backup and restore")
}

// guide returns the text of the operator's guide: its files in the order of their names.
func guide(t *testing.T) (text string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "docs/guide/[0-9a-z]*.md"))
	must(t, err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		must(t, err)
		text += string(content) + "\n"
	}
	return text
}

// guideChapter returns the text of a chapter of the operator's guide.
func guideChapter(t *testing.T, title string) string {
	t.Helper()
	_, after, found := strings.Cut(guide(t), "\n## "+title+"\n")
	chapter, _, _ := strings.Cut(after, "\n## ")
	if !found {
		t.Fatalf("the operator's guide has no chapter %q", title)
	}
	return chapter
}

// The sh blocks of the chapter, in order.
const (
	setNames = iota // runs before each of the others
	save
	putDatabase
	showState
	deleteAllocation
	heal
	adopt
	destroyGuest
	putJournal
	blockCount
)

// guideSite is a cloud of processes on three machines, each with a directory that has berth.conf, data and backup:
// placement and compute run on the machine "services", agents on "cmp1" and "cmp2". The blocks of the chapter run in
// these directories.
type guideSite struct {
	*fleet
	kind   string // of the databases: sqlite or mariadb
	blocks []string
	ran    map[int]bool
	env    []string // of the blocks
	calls  chan systemctlCall
	shown  strings.Builder // what the scripts have printed
}

// systemctlCall is a call of systemctl in a block.
type systemctlCall struct {
	verb, service, machine string
	done                   chan struct{}
}

// systemctl is the program of this name for the blocks. It asks the test to start and stop the services, so that the
// test can end them.
const systemctl = `#!/bin/sh
exec curl -fsS --max-time 300 -X POST "$SERVICES/$1/$2/$(basename "$PWD")"
`

// newGuideSite creates the machine of the services and starts them. client is the configuration of MariaDB's programs
// there.
func newGuideSite(t *testing.T, kind, conf, client string) *guideSite {
	t.Helper()
	s := &guideSite{fleet: &fleet{t: t, dir: testenv.MemoryDir(t), agents: map[string]*daemon{}}, kind: kind,
		ran: map[int]bool{}, calls: make(chan systemctlCall)}
	s.readBlocks()
	server := httptest.NewServer(http.HandlerFunc(s.handleSystemctl))
	t.Cleanup(server.Close)
	bin := s.path("bin")
	must(t, os.Mkdir(bin, 0o700))
	must(t, os.Symlink(program(t), filepath.Join(bin, "berth")))
	must(t, os.WriteFile(filepath.Join(bin, "systemctl"), []byte(systemctl), 0o700))
	s.placement = &daemon{urls: map[string]string{"placement": "http://" + testenv.FreeAddress(t)}}
	s.compute = &daemon{urls: map[string]string{"compute": "http://" + testenv.FreeAddress(t)}}
	s.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "SERVICES="+server.URL,
		"HOME="+s.path("services"), "BERTH_TOKEN=admin",
		"BERTH_PLACEMENT_URL="+s.placement.urls["placement"], "BERTH_COMPUTE_URL="+s.compute.urls["compute"])
	t.Cleanup(s.logs)
	s.addMachine("services", conf)
	if kind == "mariadb" {
		must(t, os.WriteFile(filepath.Join(s.path("services"), ".my.cnf"), []byte(client), 0o600))
		s.shell("services", "mariadb -e 'CREATE DATABASE placement; CREATE DATABASE compute'")
	}
	s.systemctl("start", "placement", "services")
	s.systemctl("start", "compute", "services")
	return s
}

// logs prints what the scripts have printed and the logs of the services at the end of a failed test, after its errors.
func (s *guideSite) logs() {
	if !s.t.Failed() {
		return
	}
	s.t.Logf("scripts:\n%s", s.shown.String())
	s.t.Logf("compute:\n%s", s.compute.log)
	for host, agent := range s.agents {
		s.t.Logf("agent of %s:\n%s", host, agent.log)
	}
}

// readBlocks reads the blocks for every database and those for this kind.
func (s *guideSite) readBlocks() {
	for _, m := range regexp.MustCompile("(?ms)^```sh ?(\\w*)\n(.*?)^```$").FindAllStringSubmatch(backupChapter(s.t), -1) {
		if m[1] == "" || m[1] == s.kind {
			s.blocks = append(s.blocks, m[2])
		}
	}
	if len(s.blocks) != blockCount {
		s.t.Fatalf("the chapter has %d blocks for %s, this test %d; adapt the test", len(s.blocks), s.kind, blockCount)
	}
}

// addMachine creates a machine's directory.
func (s *guideSite) addMachine(name, conf string) {
	s.t.Helper()
	must(s.t, os.MkdirAll(filepath.Join(s.path(name), "backup"), 0o700))
	text := "[api]\nauth_strategy = noauth2\n[oslo_concurrency]\nlock_path = " + s.path("locks") + "\n" + conf
	must(s.t, os.WriteFile(filepath.Join(s.path(name), "berth.conf"), []byte(text), 0o600))
}

// addHost creates a host and starts its agent.
func (s *guideSite) addHost(name string) {
	s.t.Helper()
	s.addMachine(name, fmt.Sprintf("[DEFAULT]\nhost = %s\ncompute_driver = fake.FakeDriver\n"+
		"[berth]\nsysfs = %s\nrescan_interval = 1\n%s", name, bus81(s.t),
		deviceSpecs+reportInPlacement))
	s.systemctl("start", "agent", name)
}

// data returns a path under the data directory of a machine.
func (s *guideSite) data(machine string, parts ...string) string {
	return filepath.Join(append([]string{s.path(machine), "data"}, parts...)...)
}

// run runs a block of the chapter on a machine, with variables such as "NAME=compute", and returns what it prints.
func (s *guideSite) run(machine string, block int, variables ...string) string {
	s.t.Helper()
	s.ran[setNames], s.ran[block] = true, true
	return s.shell(machine, s.blocks[setNames]+strings.Join(variables, "\n")+"\n"+s.blocks[block])
}

// shell runs a script on a machine.
func (s *guideSite) shell(machine, script string) string {
	t := s.t
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "set -eux\n"+script)
	cmd.Dir, cmd.WaitDelay = s.path(machine), 10*time.Second
	cmd.Env = append(s.env, "PWD="+cmd.Dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case c := <-s.calls:
			s.systemctl(c.verb, strings.TrimPrefix(c.service, "berth-"), c.machine)
			close(c.done)
		case err := <-ended:
			fmt.Fprintf(&s.shown, "on %s:\n%s", machine, out.String())
			if err != nil {
				t.Fatalf("on %s: %v: %s", machine, err, out.String())
			}
			return out.String()
		}
	}
}

// handleSystemctl passes a call of systemctl to the test, as POST /verb/service/machine, and waits for its end.
func (s *guideSite) handleSystemctl(_ http.ResponseWriter, r *http.Request) {
	words := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	c := systemctlCall{words[0], words[1], words[2], make(chan struct{})}
	select {
	case s.calls <- c:
	case <-r.Context().Done():
		return
	}
	select {
	case <-c.done:
	case <-r.Context().Done():
	}
}

// systemctl starts or stops a service on a machine. When it starts an agent, it returns when compute has
// received a report of the agent or the agent has ended.
func (s *guideSite) systemctl(verb, service, machine string) {
	t := s.t
	t.Helper()
	args := []string{service, "--config-file", filepath.Join(s.path(machine), "berth.conf"), "--data-dir", s.data(machine)}
	switch verb + " " + service {
	case "start placement":
		s.placement = start(t, []string{"placement"}, append(args, "--listen", s.address(s.placement, service))...)
	case "start compute":
		s.compute = start(t, []string{"compute"}, append(args, "--listen", s.address(s.compute, service), "--placement-url",
			s.placement.urls["placement"])...)
	case "start agent":
		before, agent := s.lastReport(machine), start(t, nil, s.args(args...)...)
		s.agents[machine] = agent
		testenv.Until(t, "the agent of "+machine+" reports or ends", func() (bool, error) {
			return agent.ended() ||
				s.lastReport(machine) != before, nil
		})
	case "stop placement":
		s.placement.stop(t)
	case "stop compute":
		s.compute.stop(t)
	case "stop agent":
		if !s.agents[machine].ended() {
			s.agents[machine].stop(t)
		}
	default:
		t.Fatalf("unknown call: systemctl %s %s", verb, service)
	}
}

// address returns the address of a service, also after it was stopped.
func (s *guideSite) address(d *daemon, service string) string {
	_, port, err := net.SplitHostPort(strings.TrimPrefix(d.urls[service], "http://"))
	must(s.t, err)
	return net.JoinHostPort("127.0.0.1", port)
}
