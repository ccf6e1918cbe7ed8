package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/testenv"
)

// A server becomes a virtual machine of a real libvirtd, with a device. It survives kill -9 of the agent and of
// libvirtd; it is started again when it ends by itself; it is stopped, started and rebuilt. After the delete nothing of
// it is left.
func TestLibvirtGuests(t *testing.T) {
	t.Parallel()
	virt := libvirtd.Start(t)
	f := newFleet(t, aliases+pciInPlacement)
	l := &libvirtHost{fleet: f, virt: virt, instances: virt.GuestDir(t)}
	f.startAgent("cmp1", l.conf())
	l.flavorWithDisk("a-pci-dev:1")
	s := f.wantActiveOn("cmp1", f.server("web", "a-pci-dev:1"))
	if out, _ := f.berth(0, "host", "list"); !strings.Contains(out, "guests run with emulated CPUs") {
		t.Errorf("host list:\n%s", out)
	}
	first := l.domain(s)
	if xml := l.xml(first); !strings.Contains(xml, "<hostdev mode='subsystem' type='pci' managed='yes'>") ||
		f.devices(s) == "" {
		t.Errorf("the guest has no device:\n%s", xml)
	}

	f.killAndRestart("cmp1")
	virt.Stop(t)
	virt.Resume(t)
	if now := l.domain(s); now != first {
		t.Errorf("the guest was started again: %+v, before %+v", now, first)
	}
	c := l.dial()
	// The daemon may still be connecting to the guest; then it ends it, and returns an error.
	if err := c.Destroy(t.Context(), first); err != nil && !strings.Contains(err.Error(), "domain is not running") {
		t.Fatal(err)
	}
	testenv.Until(t, "the guest runs again", func() (bool, error) {
		now := l.domain(s)
		return now.ID >= 0 && now.ID != first.ID, nil
	})

	l.undefineAndEnd(c, s.ID, first)

	f.act(s, "SHUTOFF", "os-stop", nil)
	if now := l.domain(s); now.ID >= 0 {
		t.Error("the stopped guest runs")
	}
	f.act(s, "ACTIVE", "os-start", nil)
	s = f.act(s, "ACTIVE", "rebuild", map[string]any{"imageRef": ""})
	l.wantFiles(s.ID, "config.iso", "console.log", "disk-1.qcow2", "guest.xml")
	f.delete(s)
	if _, err := c.Lookup(t.Context(), first.UUID); !fault.Is(err, fault.NotFound) {
		t.Errorf("after the delete: %v", err)
	}
	l.wantFiles("", ".first-host", "hosts")
	f.wantActiveOn("cmp1", f.server("next", "a-pci-dev:2"))
}

// undefineAndEnd undefines the running guest of a server and then ends it: it is defined again around its disk and
// runs, and the history of the server says so.
func (l *libvirtHost) undefineAndEnd(c *rpc.Client, server string, guest rpc.Domain) {
	l.t.Helper()
	disk := filepath.Join(l.instances, server, "disk-0.qcow2")
	before, err := os.Stat(disk)
	must(l.t, err)
	must(l.t, c.Undefine(l.t.Context(), guest))
	must(l.t, c.Destroy(l.t.Context(), guest))
	testenv.Until(l.t, "the guest is defined again and runs", func() (bool, error) {
		now, err := c.Lookup(l.t.Context(), guest.UUID)
		out, _ := l.berth(0, "server", "why", server)
		return err == nil && now.ID >= 0 && strings.Contains(out, "it was made again around its disk at "), err
	})
	if after, err := os.Stat(disk); err != nil || !os.SameFile(before, after) {
		l.t.Errorf("the guest has another disk: %v", err)
	}
}

// An agent that starts while libvirtd does not run reports what to do, and serves its host when libvirtd runs. It then
// removes the files of a guest whose removal was interrupted.
func TestLibvirtStartsAfterItsAgent(t *testing.T) {
	t.Parallel()
	virt := libvirtd.Start(t)
	f := newFleet(t, aliases+pciInPlacement)
	l := &libvirtHost{fleet: f, virt: virt, instances: virt.GuestDir(t)}
	l.flavorWithDisk("a-pci-dev:1")
	left := filepath.Join(l.instances, uuid.NewString())
	must(t, os.Mkdir(left, 0o700))
	must(t, os.WriteFile(filepath.Join(left, "guest.xml"), []byte(`<guest id="x" domain="`+filepath.Base(left)+
		`" host="cmp1" made="true" removing="true"></guest>`), 0o600))
	virt.Stop(t)
	agent := start(t, nil, f.args("agent", "--config-file", l.conf(), "--data-dir", f.path("cmp1"))...)
	f.agents["cmp1"] = agent
	testenv.Until(t, "the agent says what to do", func() (bool, error) {
		text := agent.log.String()
		return strings.Contains(text, "the host cannot be reported as it is") && strings.Contains(text, "start libvirtd"),
			fmt.Errorf("%s", text)
	})
	f.wantStartFailed("cmp1", "start libvirtd")
	if hosts, err := f.compute.hosts().Hosts(t.Context()); err != nil || len(hosts) != 1 || hosts[0].Provider != "" {
		t.Errorf("the host was reported: %+v %v", hosts, err)
	}
	virt.Resume(t)
	hostIs := func(what string, down bool) {
		t.Helper()
		testenv.Until(t, what, func() (bool, error) {
			out, _ := f.berth(0, "host", "list")
			return strings.Contains(out, "cmp1") && strings.Contains(out, "start libvirtd") == down, fmt.Errorf("%s", out)
		})
	}
	hostIs("the host is reported, and its hypervisor answers", false)
	f.wantActiveOn("cmp1", f.server("web", "a-pci-dev:1"))
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("the files of a removed guest: %v", err)
	}
	virt.Stop(t)
	hostIs("the host has the condition", true)
	virt.Resume(t)
	hostIs("the condition is gone", false)
}

// libvirtHost is a host of a fleet with a libvirtd of its own.
type libvirtHost struct {
	*fleet
	virt      *libvirtd.Daemon
	instances string
	more      string // lines of the configuration, such as those of an image service
}

// conf writes the configuration of the host. Only events report a guest that ends: the host is not observed again.
func (l *libvirtHost) conf() string {
	var machine strings.Builder
	machine.WriteString("A machine with the devices of package libvirtd.\n")
	for function := 1; function <= 3; function++ {
		at := fmt.Sprintf("0000:3b:00.%d", function)
		dir := "devices/pci0000:3a/" + at + "/"
		fmt.Fprintf(&machine, "-- bus/pci/devices/%s -> ../../../%s --\n", at, strings.TrimSuffix(dir, "/"))
		fmt.Fprintf(&machine, "-- %siommu_group -> ../../../kernel/iommu_groups/%d --\n", dir, function)
		for file, text := range map[string]string{"vendor": "0x8086", "device": "0x1533", "class": "0x020000",
			"numa_node": "0"} {
			fmt.Fprintf(&machine, "-- %s%s --\n%s\n", dir, file, text)
		}
	}
	path := l.path("machine.txtar")
	if err := os.WriteFile(path, []byte(machine.String()), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return l.file("cmp1", fmt.Sprintf("[DEFAULT]\nhost = cmp1\ncompute_driver = libvirt.LibvirtDriver\n"+
		"instances_path = %s\nshutdown_timeout = 0\n[libvirt]\nvirt_type = qemu\n"+
		"connection_uri = qemu+unix:///system?socket=%s\n[oslo_concurrency]\nlock_path = %s\n[berth]\nsysfs = %s\n"+
		"rescan_interval = 3600\n%s%s%s", l.instances, l.virt.Socket, l.path("locks"), path, deviceSpecs,
		reportInPlacement, l.more))
}

// flavorWithDisk creates the flavor with devices that f.server uses, with a disk.
func (l *libvirtHost) flavorWithDisk(alias string) {
	l.t.Helper()
	c := l.compute.compute()
	flavor, err := c.CreateFlavor(l.t.Context(), compute.CreateFlavor{Name: alias, VCPUs: 1, RAM: 64, Disk: 1})
	if err == nil {
		err = c.SetExtraSpecs(l.t.Context(), flavor.ID, map[string]string{"pci_passthrough:alias": alias})
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *libvirtHost) dial() *rpc.Client {
	l.t.Helper()
	c, err := rpc.Dial(l.t.Context(), l.virt.Socket, "qemu:///system", 0)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { c.Close() })
	return c
}

// domain returns the domain of a server.
func (l *libvirtHost) domain(s compute.Server) rpc.Domain {
	l.t.Helper()
	d, err := l.dial().Lookup(l.t.Context(), uuid.MustParse(s.ID))
	if err != nil {
		l.t.Fatal(err)
	}
	return d
}

func (l *libvirtHost) xml(of rpc.Domain) string {
	l.t.Helper()
	text, err := l.dial().XML(l.t.Context(), of, rpc.Persistent)
	if err != nil {
		l.t.Fatal(err)
	}
	return text
}

// wantFiles checks the files in a directory below that of the guests.
func (l *libvirtHost) wantFiles(dir string, want ...string) {
	l.t.Helper()
	entries, err := os.ReadDir(filepath.Join(l.instances, dir))
	if err != nil {
		l.t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		l.t.Errorf("%s has %v, want %v", dir, got, want)
	}
}

// startLibvirtCloud starts `berth up` on a machine whose agent uses a libvirtd of the test.
func startLibvirtCloud(t *testing.T) (*libvirtHost, *daemon) {
	t.Helper()
	return startLibvirtCloudOn(t, libvirtd.Start(t), "")
}

// startLibvirtCloudOn starts `berth up` with further lines of the configuration.
func startLibvirtCloudOn(t *testing.T, virt *libvirtd.Daemon, more string) (*libvirtHost, *daemon) {
	t.Helper()
	l := &libvirtHost{fleet: &fleet{t: t, dir: t.TempDir(), compute: &daemon{}}, virt: virt,
		instances: virt.GuestDir(t), more: more}
	d := start(t, []string{"placement", "compute", "network", "image"}, "up", "--config-file", l.conf(), "--data-dir",
		l.path("data"), "--listen-placement", "127.0.0.1:0", "--listen-compute", "127.0.0.1:0",
		"--listen-network", "127.0.0.1:0", "--listen-image", "127.0.0.1:0")
	return l, d
}

// addImage adds a public image from a file, and returns its id.
func addImage(t *testing.T, file, service string) string {
	t.Helper()
	out, errs, status := output(t, "image", "add", file, "--name", "disk", "--visibility", "public", "--image-url",
		service, "-o", "json")
	var image struct{ ID string }
	if err := json.Unmarshal([]byte(out), &image); err != nil || status != 0 {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	return image.ID
}

// A server of `berth up` boots from an image of its image service: the first line of the guest appears in the log of
// its console. The test prints how long that takes after the request, beside one by `virsh create`.
func TestLibvirtBootsImage(t *testing.T) {
	t.Parallel()
	l, d := startLibvirtCloud(t)
	disk := l.path("disk.img")
	must(t, os.WriteFile(disk, libvirtd.BootSector("first line of the guest\n"), 0o600))
	image := addImage(t, disk, d.urls["image"])
	flavor, err := d.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "small", VCPUs: 1, RAM: 64, Disk: 1})
	must(t, err)
	began := time.Now()
	s, err := d.compute().CreateServer(t.Context(), compute.CreateServer{Name: "booted", Flavor: flavor.ID,
		Image: image})
	must(t, err)
	l.awaitConsole(s.ID, "first line of the guest")
	t.Logf("first console line %s after POST /servers", time.Since(began).Round(time.Millisecond))
	testenv.Until(t, "the console with length 1 is the last line of the whole console", func() (bool, error) {
		status, all := consoleOutput(t, d.urls["compute"], s.ID, "null")
		if status != http.StatusOK || !strings.Contains(all, "SeaBIOS") || !strings.Contains(all, "first line of the guest") {
			return false, fmt.Errorf("whole console: %d %q", status, all)
		}
		status, last := consoleOutput(t, d.urls["compute"], s.ID, "1")
		if status != http.StatusOK {
			return false, fmt.Errorf("last line: %d %q", status, last)
		}
		last = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(last), `{"output":"`), `"}`)
		all = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(all), `"}`), `\n`)
		return last != "" && len(last) < len(all)/2 && strings.HasSuffix(all, last), fmt.Errorf("%q of %q", last, all)
	})
	if status, text := consoleOutput(t, d.urls["compute"], s.ID, `"x"`); status != http.StatusBadRequest {
		t.Errorf("length x: %d %q", status, text)
	}
	testenv.Until(t, "the diagnostics have a CPU that has run, and the disk", func() (bool, error) {
		var out compute.Diagnostics
		_, err := d.compute().REST.Do(t.Context(), http.MethodGet, "/v2.1/servers/"+s.ID+"/diagnostics", nil, &out)
		return err == nil && out.State == "running" && out.Memory.Maximum == 64 && len(out.CPUDetails) == 1 &&
				out.CPUDetails[0].Time > 0 && len(out.DiskDetails) > 0 && out.DiskDetails[0].ReadBytes > 0,
			fmt.Errorf("%+v %w", out, err)
	})
	must(t, d.compute().Act(t.Context(), s.ID, "os-stop", nil))
	testenv.Until(t, "the server is SHUTOFF", func() (bool, error) {
		now, err := d.compute().Server(t.Context(), s.ID)
		return now.Status == "SHUTOFF", err
	})
	direct := l.startDirectly(l.domain(compute.Server{ID: s.ID}))
	t.Logf("first console line %s after virsh create of the same domain", direct.Round(time.Millisecond))
}

// consoleOutput calls the action os-getConsoleOutput and returns the status and the body.
func consoleOutput(t *testing.T, url, id, length string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v2.1/servers/"+id+"/action",
		strings.NewReader(`{"os-getConsoleOutput": {"length": `+length+`}}`))
	must(t, err)
	request.Header.Set("X-Auth-Token", "admin")
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(body)
}

// awaitConsole waits until the console of a server has printed a text.
func (l *libvirtHost) awaitConsole(id, text string) {
	l.t.Helper()
	testenv.Until(l.t, "the console has a text", func() (bool, error) {
		data, err := os.ReadFile(filepath.Join(l.instances, id, "console.log"))
		if os.IsNotExist(err) {
			return false, nil
		}
		if err == nil {
			err = fmt.Errorf("it has %q", data)
		}
		return strings.Contains(string(data), text), err
	})
}

// startDirectly starts a domain by `virsh create`, with the definition of one that does not run, but with another UUID,
// console and config drive. It returns the time until the guest has printed its first line.
func (l *libvirtHost) startDirectly(of rpc.Domain) time.Duration {
	l.t.Helper()
	id, xml := uuid.NewString(), l.xml(of)
	console := filepath.Join(l.instances, id, "console.log")
	must(l.t, os.Mkdir(filepath.Dir(console), 0o711))
	drive, err := os.ReadFile(filepath.Join(l.instances, of.UUID.String(), "config.iso"))
	must(l.t, err)
	must(l.t, os.WriteFile(filepath.Join(l.instances, id, "config.iso"), drive, 0o600))
	for _, name := range []string{"console.log", "config.iso"} {
		xml = strings.ReplaceAll(xml, filepath.Join(l.instances, of.UUID.String(), name),
			filepath.Join(l.instances, id, name))
	}
	xml = strings.ReplaceAll(xml, "<uuid>"+of.UUID.String(), "<uuid>"+id)
	xml = strings.ReplaceAll(xml, "<name>"+of.Name, "<name>direct")
	xml = regexp.MustCompile(`(?s)<metadata>.*</metadata>`).ReplaceAllString(xml, "")
	file := l.path("direct.xml")
	must(l.t, os.WriteFile(file, []byte(xml), 0o600))
	began := time.Now()
	out, err := exec.Command("virsh", "-c", "qemu+unix:///system?socket="+l.virt.Socket, "create", file).CombinedOutput()
	if err != nil {
		l.t.Fatalf("%v: %s", err, out)
	}
	l.awaitConsole(id, "first line of the guest")
	return time.Since(began)
}
