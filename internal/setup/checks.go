package setup

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/openberth/berth/cloudsfile"
	"github.com/openberth/berth/fault"
)

// apiPorts are the ports that `berth up` uses beside that of all APIs, by the variable that sets another address.
var apiPorts = map[string]string{"BERTH_LISTEN_PLACEMENT": "127.0.0.1:8778", "BERTH_LISTEN_COMPUTE": "127.0.0.1:8774",
	"BERTH_LISTEN_NETWORK": "127.0.0.1:9696", "BERTH_LISTEN_IMAGE": "127.0.0.1:9292",
	"BERTH_LISTEN_CONSOLE": "127.0.0.1:8780"}

// leastDisk is the free space that the data directory needs, in bytes, by driver.
var leastDisk = map[string]uint64{Libvirt: 4 << 30, Fake: 256 << 20}

// problems returns everything that prevents Make, so that it can be corrected at once.
func (c *Cloud) problems(ctx context.Context, r *record) (all []error) {
	add := func(format string, args ...any) { all = append(all, fault.New(fault.Conflict, format, args...)) }
	running, err := c.process().running(ctx)
	if err != nil {
		all = append(all, err)
	}
	checkDirectories(c, r, add)
	if c.o.Driver == Libvirt {
		checkLibvirt(c, add)
		checkMoves(c, r, add)
	}
	checkFiles(c, r, add)
	checkKey(c, r, add)
	if running && !r.has("service") {
		add("a service of Berth runs already; stop it with `systemctl disable --now berth`")
	}
	if !running {
		checkPorts(c, add)
	}
	return all
}

// checkDirectories checks that this user can write the directories, and that the disk has room for a new cloud.
func checkDirectories(c *Cloud, r *record, add func(string, ...any)) {
	for _, dir := range []string{c.o.Config, c.o.Data, c.o.Home} {
		at := dir
		for at != "/" && !exists(at) {
			at = filepath.Dir(at)
		}
		const write = 2 // W_OK of access(2)
		if syscall.Access(at, write) != nil {
			add("%s is not writable; run `berth init` as root", at)
		}
	}
	if r.has("service") {
		return
	}
	at := c.o.Data
	for at != "/" && !exists(at) {
		at = filepath.Dir(at)
	}
	var disk syscall.Statfs_t
	if syscall.Statfs(at, &disk) == nil {
		if free := disk.Bavail * uint64(disk.Bsize); free < leastDisk[c.o.Driver] {
			add("%s has %d MiB free; the cloud needs at least %d MiB", at, free>>20, leastDisk[c.o.Driver]>>20)
		}
	}
}

// The sockets of libvirt: that for all its parts, which the agent uses, and that of its separate daemon for QEMU.
var (
	libvirtSocket = "/run/libvirt/libvirt-sock"
	qemuSocket    = "/run/libvirt/virtqemud-sock"
)

// hostPrograms are the programs that the agent runs, with Debian's packages that have them.
var hostPrograms = []struct{ program, from string }{{"nft", "nftables"}, {"dnsmasq", "dnsmasq-base"},
	{"ip", "iproute2"}, {"qemu-img", "qemu-utils"}}

// checkLibvirt checks what virtual machines and their network need.
func checkLibvirt(c *Cloud, add func(string, ...any)) {
	if os.Geteuid() != 0 {
		add("virtual machines and networks need root; run `sudo berth init`, or try --driver fake")
	}
	if runtime.GOARCH != "amd64" {
		add("virtual machines need amd64, and this machine is %s; use another machine, or try --driver fake", runtime.GOARCH)
	}
	switch {
	case exists(libvirtSocket):
	case exists(qemuSocket):
		add("the separate daemons of libvirt run without virtproxyd: there is no %s; `systemctl enable --now "+
			"virtproxyd.socket` starts it", libvirtSocket)
	default:
		add("libvirt does not run: there is no %s; install and start it (Debian: apt-get install qemu-system "+
			"libvirt-daemon-system), or try --driver fake", libvirtSocket)
	}
	for _, one := range hostPrograms {
		if _, err := exec.LookPath(one.program); err != nil && !exists("/usr/sbin/"+one.program) {
			add("the program %s is missing; install it (Debian: apt-get install %s)", one.program, one.from)
		}
	}
	if file, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0); err != nil {
		c.say("note     /dev/kvm cannot be used (%v): guests run without KVM, which is slow", err)
	} else {
		_ = file.Close()
	}
}

// checkFiles checks that existing files are those of an earlier run.
func checkFiles(c *Cloud, r *record, add func(string, ...any)) {
	o := c.o
	text, err := os.ReadFile(o.confFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		add("cannot read %s: %v", o.confFile(), err)
	}
	if set := optionsOutside(string(text)); len(set) > 0 && !r.has("part of "+o.confFile()) {
		add("%s sets options already, such as %q; move it away, or configure the services yourself", o.confFile(), set[0])
	}
	for path, id := range map[string]string{o.userFile(): "account " + admin, o.caKey(): "authority",
		o.caFile(): "authority", o.certFile(): "certificate", o.keyFile(): "certificate"} {
		if _, err := os.Lstat(path); err == nil && !r.has(id) && (path == o.userFile() || o.tls()) {
			add("%s exists and is not from `berth init`; move it away", path)
		}
	}
	for _, name := range []string{clouds0, adminCloud} {
		switch _, found, err := cloudsfile.Read(o.cloudsFile(), name); {
		case err != nil:
			add("%v", err)
		case found && !r.has("clouds"):
			add("%s has a cloud %s that is not from `berth init`; rename it", o.cloudsFile(), name)
		}
	}
}

// checkPorts checks that the addresses of the APIs are free.
func checkPorts(c *Cloud, add func(string, ...any)) {
	addresses := []string{c.o.Listen}
	for variable, address := range apiPorts {
		if own := os.Getenv(variable); own != "" && c.process().unit == "" {
			address = own
		}
		addresses = append(addresses, address)
	}
	for _, address := range addresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			add("the address %s cannot be used: %v; stop the program that uses it, or choose another address", address, err)
			continue
		}
		_ = l.Close()
	}
}

// makeDirectory creates the data directory. It is removed with the last record, if it is empty then.
func makeDirectory(path string) error {
	if exists(path) {
		return nil
	}
	return fault.Wrap(fault.Unavailable, os.MkdirAll(path, 0o755))
}

// removeData removes the data directory if nothing is in it.
func removeData(dir string) {
	if dir != packagedData {
		_ = os.Remove(dir) // it fails if there is something in it
	}
}
