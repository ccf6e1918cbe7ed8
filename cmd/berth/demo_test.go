package main

import (
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/cli/demo"
	"github.com/openberth/berth/internal/testenv"
)

// The tour succeeds on a captured machine and on this machine.
func TestDemo(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	for _, args := range [][]string{{"demo"}, {"demo", "--sysfs", machine(t, 2, 3)}} {
		stdout, stderr, status := output(t, args...)
		if status != 0 {
			t.Fatalf("berth %v: status %d\n%s%s", args, status, stdout, stderr)
		}
		for _, want := range []string{"COMPUTE_MANAGED_PCI_DEVICE", "first", "its port is bound to ",
			"6000 of 10000 kbit/s are used", "too-much is ERROR: ", "NET_BW_EGR_KILOBIT_PER_SEC", "A race", "its plan: ",
			"usages in Placement are 0", "Every step of the tour succeeded"} {
			if !strings.Contains(stdout, want) {
				t.Errorf("berth %v does not print %q:\n%s", args, want, stdout)
			}
		}
	}
	if _, stderr, status := output(t, "demo", "--sysfs", machine(t, 1, 0)); status != 1 || !strings.Contains(stderr,
		"fewer than 2") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// The tour of a PowerVM host succeeds.
func TestDemoOfPowerVM(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	stdout, stderr, status := output(t, "demo", "--powervm")
	if status != 0 {
		t.Fatalf("status %d\n%s%s", status, stdout, stderr)
	}
	for _, want := range []string{"slot 21010010:", "PowerVM IOSlot cmp1 21010011", "third is ERROR",
		"it has the physical I/O slots 2101001",
		"instead of 1", "usages in Placement are 0", "Every step of the tour succeeded"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in:\n%s", want, stdout)
		}
	}
}

// The tour of real guests boots two of them on a libvirt daemon of its own, and leaves nothing behind.
func TestDemoOfRealGuests(t *testing.T) {
	testenv.Need(t, "libvirtd")
	t.Parallel()
	began := time.Now()
	stdout, stderr, status := output(t, "demo", "--real")
	if status != 0 {
		t.Fatalf("status %d\n%s%s", status, stdout, stderr)
	}
	for _, want := range []string{"guest-1 is ACTIVE", "guest-2 is ACTIVE", "guest: ready", "serial console of guest-2",
		"usages in Placement are 0", "Every step of the tour succeeded"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in:\n%s", want, stdout)
		}
	}
	_, dir, _ := strings.Cut(stdout, "instances_path = ")
	dir, _, _ = strings.Cut(dir, "/guests\n")
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory %q of the tour: %v", dir, err)
	}
	if list, err := exec.Command("pgrep", "-f", dir+"/").Output(); err == nil {
		t.Errorf("processes of the tour are left: %s", list)
	}
	t.Logf("the tour took %s", time.Since(began).Round(time.Second))
	for _, flag := range []string{"--stay", "--powervm"} {
		if _, stderr, status := output(t, "demo", "--real", flag); status == 0 || !strings.Contains(stderr, "--real") {
			t.Errorf("%s: status %d: %s", flag, status, stderr)
		}
	}
}

// On a machine without devices the tour uses a captured one and prints that.
func TestDemoOnAMachineWithoutDevices(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	sample, list, err := devices(&out, machine(t, 1, 0), true)
	if err != nil || !sample || len(list) < 10 || !strings.Contains(out.String(),
		"CAPTURED machine instead, not this one") {
		t.Errorf("%v %v %d devices: %s", sample, err, len(list), out.String())
	}
}

// A demo without a console, as BERTH_LISTEN_CONSOLE=none of `berth up` requests it, has no page and names none.
func TestDemoWithoutConsole(t *testing.T) {
	t.Parallel()
	const free = "127.0.0.1:0"
	apis, pages, err := (&demoCmd{ListenPlacement: free, ListenCompute: free, ListenNetwork: free, ListenImage: free,
		ListenConsole: "none"}).listen()
	must(t, err)
	must(t, closeAll(apis...))
	if len(apis) != 4 || pages != nil {
		t.Errorf("%d endpoints, console %v", len(apis), pages)
	}
	var out strings.Builder
	demo.LookAround(&out, urlOf(pages), "http://placement", "http://compute")
	if strings.Contains(out.String(), "sign in") || !strings.Contains(out.String(), "berth device list") {
		t.Errorf("%s", out.String())
	}
}

// After the tour, --stay serves the APIs at the given addresses. An address that is taken ends the command before the
// tour. A client of the running cloud gets the exit status of its command.
func TestDemoStaysAtTheGivenAddresses(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	stdout := expect(t, 1, "--listen-compute", "demo", "--stay", "--listen-placement", "127.0.0.1:0", "--listen-compute",
		taken.Addr().String())
	if strings.Contains(stdout, "A race") {
		t.Errorf("the tour has run: %s", stdout)
	}
	cmd := berth(t, "demo", "--stay", "--listen-placement", "127.0.0.2:0", "--listen-compute", "127.0.0.3:0",
		"--listen-console", "127.0.0.4:0")
	var out testenv.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	compute, console := "", ""
	testenv.Until(t, "the APIs are served", func() (bool, error) {
		compute, console = addressIn(out.String(), "compute"), addressIn(out.String(), "console")
		return compute != "" && console != "" && strings.Contains(out.String(), "\nplacement: http://127.0.0.2:"), nil
	})
	_, status, page := signInToConsole(t, console, url.Values{"token": {"admin"}})
	if name, err := os.Hostname(); err != nil || status != http.StatusOK || !strings.Contains(page,
		`data-row="`+name+`"`) || !strings.HasPrefix(console, "http://127.0.0.4:") {
		t.Errorf("the console at %s: %d %s", console, status, page)
	}
	expect(t, 0, "ERROR", "server", "list", "--compute-url", compute)
	if !strings.HasPrefix(compute, "http://127.0.0.3:") {
		t.Errorf("compute is at %q", compute)
	}
	expect(t, 0, "ID", "flavor", "list", "--compute-url", compute)
	expect(t, 4, "no port needs healing", "heal", "ports", "--compute-url", compute)
	expect(t, 1, "cmp-unknown", "heal", "ports", "--host", "cmp-unknown", "--compute-url", compute)
	interrupt(t, cmd.Process, syscall.SIGTERM)
	if err := <-done; err != nil {
		t.Errorf("%v: %s", err, &out)
	}
}

// addressIn returns the address of a service that a command has printed, or "" if it has not.
func addressIn(output, service string) string {
	_, rest, _ := strings.Cut(output, "\n"+service+": ")
	address, _, ended := strings.Cut(rest, "\n")
	if !ended {
		return ""
	}
	return address
}
