package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/testenv"
)

// An agent starts while its libvirt has lost all definitions, as after a new installation. The host has a condition
// that names `berth agent adopt`, gets no server, and nothing of its guests is touched. The agent continues by itself
// when libvirt has them again. When they are lost for good, it continues after the operator has adopted this libvirt.
func TestAgentStartsWithUnknownLibvirt(t *testing.T) {
	t.Parallel()
	virt := libvirtd.Start(t)
	f := newFleet(t, aliases+pciInPlacement)
	l := &libvirtHost{fleet: f, virt: virt, instances: virt.GuestDir(t)}
	conf := l.conf()
	f.startAgent("cmp1", conf)
	l.flavorWithDisk("a-pci-dev:1")
	s := f.wantActiveOn("cmp1", f.server("web", "a-pci-dev:1"))
	f.act(s, "SHUTOFF", "os-stop", nil)
	holds := f.devices(s)
	f.agents["cmp1"].stop(t)

	l.whileStopped("mkdir /etc/libvirt/lost && mv /etc/libvirt/qemu/*.xml /etc/libvirt/secrets /etc/libvirt/lost/")
	l.startsUnknown(s, holds)
	l.whileStopped("mv /etc/libvirt/lost/*.xml /etc/libvirt/qemu/ && rm -rf /etc/libvirt/secrets && " +
		"mv /etc/libvirt/lost/secrets /etc/libvirt/")
	f.wantStarted("cmp1")
	f.act(s, "ACTIVE", "os-start", nil)
	f.act(s, "SHUTOFF", "os-stop", nil)
	f.agents["cmp1"].stop(t)

	l.whileStopped("rm -r /etc/libvirt/qemu/*.xml /etc/libvirt/secrets")
	l.startsUnknown(s, holds)
	f.agents["cmp1"].stop(t)
	adopt := f.args("agent", "adopt", "--config-file", conf, "--data-dir", f.path("cmp1"), "--yes")
	if out, errs, status := output(t, adopt...); status != 0 {
		t.Fatalf("adopt: %s%s", out, errs)
	}
	delete(f.agents, "cmp1")
	f.startAgent("cmp1", conf)
	f.wantStarted("cmp1")
	f.act(s, "ACTIVE", "os-start", nil)
	if now := f.devices(s); now != holds {
		t.Errorf("the guest has the devices %s, before %s", now, holds)
	}
}

// whileStopped runs a command in the directories of libvirt while it does not run.
func (l *libvirtHost) whileStopped(command string) {
	l.t.Helper()
	l.virt.Stop(l.t)
	ctx := context.WithoutCancel(l.t.Context())
	if out, err := l.virt.Command(ctx, "sh", "-c", command).CombinedOutput(); err != nil {
		l.t.Fatalf("%v: %s", err, out)
	}
	l.virt.Resume(l.t)
}

// files returns the sizes and times of all files of guests, by path.
func (l *libvirtHost) files() map[string]string {
	l.t.Helper()
	out := map[string]string{}
	must(l.t, filepath.WalkDir(l.instances, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			out[path] = fmt.Sprint(info.Size(), info.ModTime().UnixNano())
		}
		return err
	}))
	return out
}

// startsUnknown starts the agent, and checks that it touches nothing and that the host gets no server.
func (l *libvirtHost) startsUnknown(s compute.Server, holds string) {
	t := l.t
	t.Helper()
	files := l.files()
	l.agents["cmp1"] = start(t, nil, l.args("agent", "--config-file", l.path("cmp1.conf"), "--data-dir",
		l.path("cmp1"))...)
	l.wantStartFailed("cmp1", "berth agent adopt")
	other := l.server("other", "a-pci-dev:1")
	if other.Status != "ERROR" {
		t.Errorf("another server is %s", other.Status)
	}
	l.delete(other)
	if now, err := l.compute.compute().Server(t.Context(), s.ID); err != nil || now.Status != "SHUTOFF" {
		t.Errorf("the server is %s %v", now.Status, err)
	}
	if now := l.devices(s); now != holds {
		t.Errorf("compute has the devices %q of the guest, before %q", now, holds)
	}
	if now := l.files(); !maps.Equal(now, files) {
		t.Errorf("the files are %v, before %v", now, files)
	}
	if domains, err := l.dial().Domains(t.Context()); err != nil || len(domains) != 0 {
		t.Errorf("libvirt has %+v %v", domains, err)
	}
}

// wantStartFailed waits until compute shows that the start of a host's agent has failed, and what to do.
func (f *fleet) wantStartFailed(name, todo string) {
	f.t.Helper()
	testenv.Until(f.t, "the start of the agent of "+name+" has failed", func() (bool, error) {
		list, _ := f.berth(0, "host", "list")
		shown, _ := f.berth(0, "host", "show", name)
		ok := true
		for _, out := range []string{list, shown} {
			ok = ok && strings.Contains(out, "start failed") && strings.Contains(out, todo)
		}
		return ok, fault.New(fault.Internal, "%s%s", list, shown)
	})
}

// wantStarted waits until a host is up.
func (f *fleet) wantStarted(name string) {
	f.t.Helper()
	testenv.Until(f.t, name+" is up", func() (bool, error) {
		out, _ := f.berth(0, "host", "list")
		return strings.Contains(out, name) && !strings.Contains(out, "start failed"), fmt.Errorf("%s", out)
	})
}
