package main

import (
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/linuxguest"
	"github.com/openberth/berth/internal/testenv"
)

// A user types into the shell of a Linux guest over `berth server console`, and so does a script with a pipe. A second
// console and the users of another project are refused. kill -9 of the agent ends the console with the reason;
// afterwards it can be opened again.
func TestInteractiveConsole(t *testing.T) {
	t.Parallel()
	virt := libvirtd.Start(t)
	dir := t.TempDir()
	images := start(t, []string{"image"}, "image", "--config-file", machineless(t, dir), "--data-dir", dir+"/images",
		"--listen", "127.0.0.1:0")
	glance := "\n[glance]\nendpoint_override = " + images.urls["image"] + "\n"
	f := newFleet(t, aliases+pciInPlacement+glance)
	l := &libvirtHost{fleet: f, virt: virt, instances: virt.GuestDir(t)}
	l.more = glance
	f.startAgent("cmp1", l.conf())
	disk := dir + "/linux.img"
	must(t, linuxguest.Build(t.Context(), disk))
	image := addImage(t, disk, images.urls["image"])
	c := f.compute.compute()
	flavor, err := c.CreateFlavor(t.Context(), compute.CreateFlavor{Name: "linux", VCPUs: 1, RAM: 256, Disk: 1})
	must(t, err)
	s, err := c.CreateServer(t.Context(), compute.CreateServer{Name: "shell", Flavor: flavor.ID, Image: image})
	must(t, err)
	testenv.Until(t, "the server is ACTIVE", func() (bool, error) {
		now, err := c.Server(t.Context(), s.ID)
		return now.Status == "ACTIVE", err
	})
	l.awaitConsole(s.ID, linuxguest.Ready)

	console := f.openConsole("shell")
	console.types("\necho $((6 * 7))-$(hostname)\n")
	console.awaits("42-shell")
	f.run(1, "cannot be opened", "server", "console", "shell")
	f.run(1, "no server has the id", "server", "console", s.ID, "--token", "eve:other")
	console.types("\x1d")
	if err := console.cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-]: %v: %s", err, console.out)
	}

	piped := berth(t, f.args("server", "console", "shell", "--linger", "30s")...)
	piped.Stdin = strings.NewReader("echo piped-$((43 - 1))\n")
	if out, err := piped.CombinedOutput(); err != nil || !strings.Contains(string(out), "piped-42") {
		t.Errorf("after the end of its input: %v: %s", err, out)
	}

	console = f.openConsole("shell")
	f.killAndRestart("cmp1")
	if err := console.cmd.Wait(); err == nil || !strings.Contains(console.out.String(),
		"the agent of the server's host has disconnected; open the console again") {
		t.Errorf("after kill -9 of the agent: %v: %s", err, console.out)
	}
	console = f.openConsole("shell")
	console.types("echo again-$((40 + 2))\n")
	console.awaits("again-42")
	f.delete(compute.Server{ID: s.ID})
	if err := console.cmd.Wait(); err == nil || !strings.Contains(console.out.String(), "the console is closed") {
		t.Errorf("after the delete: %v: %s", err, console.out)
	}
}

// machineless writes the configuration of a service that has no host.
func machineless(t *testing.T, dir string) string {
	t.Helper()
	path := dir + "/service.conf"
	writeFile(t, path, "[api]\nauth_strategy = noauth2\n")
	return path
}

// consoleProcess is a running `berth server console`.
type consoleProcess struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Writer
	out *testenv.Buffer
}

// openConsole starts the command and waits until it is connected.
func (f *fleet) openConsole(server string) *consoleProcess {
	f.t.Helper()
	cmd := berth(f.t, f.args("server", "console", server)...)
	in, err := cmd.StdinPipe()
	must(f.t, err)
	c := &consoleProcess{f.t, cmd, in, &testenv.Buffer{}}
	cmd.Stdout, cmd.Stderr = c.out, c.out
	must(f.t, cmd.Start())
	f.t.Cleanup(func() { _ = cmd.Process.Kill() })
	c.awaits("Connected to the console")
	return c
}

func (c *consoleProcess) types(text string) {
	c.t.Helper()
	_, err := io.WriteString(c.in, text)
	must(c.t, err)
}

func (c *consoleProcess) awaits(text string) {
	c.t.Helper()
	testenv.Until(c.t, "the console has "+text, func() (bool, error) {
		return strings.Contains(c.out.String(), text), nil
	})
}
