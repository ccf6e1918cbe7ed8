package setup

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/cloudsfile"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/join"
)

// services answer as the APIs of a cloud, by the path and the query.
type services struct {
	t       *testing.T
	answers map[string]string // 404 for others
	calls   []string
}

func (s *services) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := r.Method + " " + r.URL.RequestURI()
	s.calls = append(s.calls, call)
	for part, answer := range s.answers {
		if strings.Contains(call, part) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, answer)
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

// runningCloud returns a cloud whose service runs: a process with its command line, and services that answer for it.
func runningCloud(t *testing.T) (*Cloud, *services, *strings.Builder) {
	t.Helper()
	s := &services{t: t, answers: map[string]string{"/servers/detail": `{"servers": []}`, "/v2/images": `{"images": []}`,
		"/v2.1/os-hosts": `{"hosts": []}`, "/hosts": `{"hosts": []}`}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	o := tryOptions(t.TempDir())
	o.Listen = strings.TrimPrefix(server.URL, "http://")
	o, err := o.Complete()
	must(t, err)
	var out strings.Builder
	c := &Cloud{o: o, out: &out}
	must(t, os.MkdirAll(filepath.Dir(o.cloudsFile()), 0o700))
	must(t, os.Mkdir(o.Data, 0o700))
	_, err = cloudsfile.Merge(o.cloudsFile(), c.cloud(adminCloud, admin, "secret"))
	must(t, err)
	runProcess(t, c.process())
	return c, s, &out
}

// runProcess runs a process with the command line of a program.
func runProcess(t *testing.T, p process) {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", "read line", "sh"}, p.args...)...)
	input, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _, _ = input.Close(), cmd.Wait() })
	must(t, os.WriteFile(p.pidFile, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600))
}

// recordOf writes a record.
func recordOf(t *testing.T, o Options, change func(*record)) {
	t.Helper()
	r, err := openRecord(o)
	must(t, err)
	r.Options = o
	change(r)
	must(t, r.write())
	must(t, r.close())
}

// An undo that failed after it had found no servers finds those that were created since.
func TestUndoChecksServersAgain(t *testing.T) {
	c, s, _ := runningCloud(t)
	must(t, os.Mkdir(c.o.stateDir(), 0o700))
	recordOf(t, c.o, func(r *record) { r.Made = []string{"directory " + c.o.stateDir(), "service", "flavor tiny"} })
	s.answers["DELETE /compute/v2.1/flavors"] = `no JSON`
	s.answers["/flavors"] = `no JSON`
	if err := c.Undo(t.Context(), false); err == nil || !strings.Contains(err.Error(), "cannot remove the flavor tiny") {
		t.Fatal(err)
	}
	s.answers["/servers/detail"] = `{"servers": [{"id": "1", "name": "web"}]}`
	if err := c.Undo(t.Context(), false); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "1 server ") {
		t.Error(err, s.calls)
	}
	s.answers["/servers/detail"] = `{"servers": []}`
	s.answers["os_hidden=true"] = `{"images": [{"id": "1", "name": "old"}]}`
	s.answers["os_hidden=false"] = s.answers["/v2/images"]
	delete(s.answers, "/v2/images")
	if err := c.Undo(t.Context(), false); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "1 image,") {
		t.Error(err, s.calls)
	}
	if !exists(c.o.stateDir()) {
		t.Error("the state is removed")
	}
}

// An undo that was interrupted while it stopped the service is completed; after a new init it is not.
func TestUndoStopped(t *testing.T) {
	o, err := tryOptions(t.TempDir()).Complete()
	must(t, err)
	must(t, os.Mkdir(o.Data, 0o700))
	c := &Cloud{o: o, out: &strings.Builder{}}
	made := []string{"directory " + o.stateDir(), "service"}
	for _, stopping := range []bool{false, true} {
		recordOf(t, o, func(r *record) { r.Made, r.Stopping = made, stopping })
		if err := c.Undo(t.Context(), false); stopping != (err == nil) {
			t.Errorf("%v: %v", stopping, err)
		}
	}
	must(t, os.MkdirAll(o.Data, 0o700))
	recordOf(t, o, func(r *record) { r.Made, r.Stopping = made, true; must(t, r.begin()) })
	if err := c.Undo(t.Context(), false); !fault.Is(err, fault.Conflict) {
		t.Error(err)
	}
}

// On a machine that has joined, `berth init` without options keeps the configuration of the agent, and an undo checks
// its guests also after one that failed.
func TestInitOfJoinedMachine(t *testing.T) {
	o := tryOptions(t.TempDir())
	o.Join, o.Host = "https://127.0.0.1:1", "second"
	o, err := o.Complete()
	must(t, err)
	c := &Cloud{o: o, out: &strings.Builder{}}
	c.joined = &join.Joined{Grant: join.Grant{Account: "host-a", Password: "secret"}}
	must(t, os.MkdirAll(o.Config, 0o700))
	must(t, os.MkdirAll(filepath.Join(o.agentDir(), "agent", "guests"), 0o700))
	configuration := agentConfiguration(c)
	must(t, writeBlock(o.agentFile(), configuration))
	recordOf(t, o, func(r *record) {
		r.Joined, r.Stopping = c.joined, true
		r.Made = []string{"exchange", "authority", "part of " + o.agentFile(), "service"}
	})
	runProcess(t, agentProcess(c))
	must(t, os.WriteFile(o.caFile(), nil, 0o600)) // so that the calls of the host fail
	for name, run := range map[string]func(*Cloud) error{
		"init":        func(c *Cloud) error { return c.Make(t.Context()) },
		"init --plan": func(c *Cloud) error { return c.Plan(t.Context()) },
	} {
		var out strings.Builder
		again, err := New(Options{Data: o.Data}, Options{User: "ann"}, &out)
		must(t, err)
		err = run(again)
		if _, same, read := readBlock(o.agentFile(), configuration); !same || read != nil {
			t.Errorf("%s: %v: the configuration differs: %s", name, err, textOf(t, o.agentFile()))
		}
		if strings.Contains(out.String(), "made     ") || strings.Contains(out.String(), "would make the conf") {
			t.Errorf("%s: %s", name, out.String())
		}
	}
	must(t, os.WriteFile(filepath.Join(o.agentDir(), "agent", "guests", "1.json"), nil, 0o600))
	if err := c.Undo(t.Context(), false); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "1 guest;") {
		t.Error(err)
	}
}

// What the agent has written below instances_path is removed, the directory of the package is not. Guests that remain
// keep their disks, and what an earlier cloud has left stays. What is kept is not reported as removed.
func TestUndoOfGuestFiles(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string // files below the directory, before init and before undo
		want          string // what undo prints
		left          bool
	}{
		"like a pattern [a]": {"", "11111111-2222-3333-4444-555555555555/disk", "kept     the copies of images", true},
		"copies":             {"", "_base/image.raw", "removed  the copies of images", false},
		"a guest":            {"", "11111111-2222-3333-4444-555555555555/disk", "kept     the copies of images", true},
		"other name": {"", "on-b/11111111-2222-3333-4444-555555555555/disk", "kept     the copies of images",
			true},
		"earlier cloud": {"_base/image.raw", "_base/other.raw", "", true},
	} {
		o, err := tryOptions(filepath.Join(t.TempDir(), strings.ReplaceAll(name, " ", "-"))).Complete()
		must(t, err)
		var out strings.Builder
		cloud := &Cloud{o: o, out: &out}
		write := func(file string) {
			if file != "" {
				path := filepath.Join(o.instances(), file)
				must(t, os.MkdirAll(filepath.Dir(path), 0o700))
				must(t, os.WriteFile(path, nil, 0o600))
			}
		}
		must(t, os.MkdirAll(o.instances(), 0o711))
		write(c.before)
		r, err := openRecord(o)
		must(t, err)
		r.Options = o
		files := guestFiles(cloud)
		_, err = cloud.makeOne(t.Context(), r, files)
		must(t, err)
		write(c.after)
		out.Reset()
		if r.has(files.id) {
			must(t, undoOne(t.Context(), cloud, r, files, true))
		}
		if !strings.HasPrefix(out.String(), c.want) || strings.Count(out.String(), "\n") > 1 {
			t.Errorf("%s: %q, want %q", name, out.String(), c.want)
		}
		if !exists(o.instances()) || exists(filepath.Join(o.instances(), c.after)) != c.left {
			t.Errorf("%s: the files remain, or the directory does not", name)
		}
		must(t, r.close())
	}
}

// A directory with files of others is kept, and not reported as removed.
func TestUndoOfUsedDirectory(t *testing.T) {
	o, err := tryOptions(t.TempDir()).Complete()
	must(t, err)
	must(t, os.MkdirAll(o.Config, 0o700))
	must(t, os.MkdirAll(o.Data, 0o700))
	must(t, os.WriteFile(filepath.Join(o.Config, "mine"), nil, 0o600))
	var out strings.Builder
	c := &Cloud{o: o, out: &out}
	recordOf(t, o, func(r *record) { r.Made = []string{"directory " + o.Config} })
	must(t, c.Undo(t.Context(), false))
	if !exists(filepath.Join(o.Config, "mine")) || out.String() != "kept     the directory "+o.Config+
		": it has files that `berth init` did not make\n" {
		t.Error(out.String())
	}
}

// The undo of a host waits until the agent has removed its links, not for those of others, and not forever.
func TestUndoAwaitsLinks(t *testing.T) {
	dir, limit := netDir, bridgeTime
	defer func() { netDir, bridgeTime = dir, limit }()
	netDir, bridgeTime = t.TempDir(), 0
	link := func(name, alias string) {
		must(t, os.Mkdir(filepath.Join(netDir, name), 0o700))
		must(t, os.WriteFile(filepath.Join(netDir, name, "ifalias"), []byte(alias), 0o600))
	}
	var out strings.Builder
	c := &Cloud{out: &out}
	link("eth0", "uplink\n")
	must(t, awaitNoLinks(t.Context(), c))
	if out.Len() > 0 {
		t.Error(out.String())
	}
	link("brq1", "berth:network\n")
	must(t, awaitNoLinks(t.Context(), c))
	if !strings.HasPrefix(out.String(), "kept     the links brq1: ") {
		t.Error(out.String())
	}
	out.Reset()
	bridgeTime = time.Minute
	path, removed := filepath.Join(netDir, "brq1"), make(chan error)
	go func() { removed <- os.RemoveAll(path) }()
	must(t, awaitNoLinks(t.Context(), c))
	must(t, <-removed)
	if out.Len() > 0 {
		t.Error(out.String())
	}
}
