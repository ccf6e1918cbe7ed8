//go:build nested

package vfguest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"

	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
)

// pfDisk is the NVMe PF whose VFs are disks of guests; pfFiles has the file system with the guests' files.
const (
	pfDisk  = "0000:11:00.0"
	pfFiles = "0000:21:00.0"
)

// instances is the directory with the guests' files. QEMU opens them without a cache, which a tmpfs does not support.
const instances = "/var/lib/berth/instances"

// bootPatience is the limit for the start of a guest in the lab, whose CPU is emulated by an emulated CPU.
const bootPatience = 12 * time.Minute

// libvirtFiles configure libvirt's daemon: the lab has neither cgroups nor a security module.
var libvirtFiles = map[string]string{
	"libvirtd.conf": "listen_tls = 0\nlisten_tcp = 0\nauth_unix_rw = \"none\"\nunix_sock_rw_perms = \"0700\"\n",
	"qemu.conf": "security_driver = \"none\"\nstdio_handler = \"file\"\ncgroup_controllers = []\nnamespaces = []\n" +
		"user = \"libvirt-qemu\"\ngroup = \"libvirt-qemu\"\n",
}

// libvirtd is libvirt's daemon of the lab.
type libvirtd struct {
	m   *machine
	cmd *exec.Cmd
}

// newLibvirtd starts the daemon.
func newLibvirtd(m *machine) *libvirtd {
	m.t.Helper()
	for name, text := range libvirtFiles {
		must(m.t, os.WriteFile(filepath.Join("/etc/libvirt", name), []byte(text), 0o600))
	}
	l := &libvirtd{m: m}
	l.start()
	m.t.Cleanup(func() {
		l.kill()
		if m.t.Failed() {
			files, _ := filepath.Glob("/var/log/libvirt/qemu/*.log") // the pattern is valid
			for _, name := range append(files, "/run/libvirtd.log") {
				text, err := os.ReadFile(name)
				m.t.Logf("%s: %v\n%s", name, err, last(text, 40))
			}
		}
	})
	return l
}

// start starts the daemon and waits until it answers.
func (l *libvirtd) start() {
	l.m.t.Helper()
	log, err := os.OpenFile("/run/libvirtd.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(l.m.t, err)
	defer log.Close()
	l.cmd = exec.Command("libvirtd", "--config", "/etc/libvirt/libvirtd.conf")
	l.cmd.Stdout, l.cmd.Stderr = log, log
	must(l.m.t, l.cmd.Start())
	l.m.till("libvirtd answers", func() bool { return l.domains() >= 0 })
}

// kill ends the daemon with SIGKILL. Guests continue to run.
func (l *libvirtd) kill() {
	_ = l.cmd.Process.Kill() // it may have ended
	_ = l.cmd.Wait()         // it was killed
}

// domains returns the number of domains, or -1 if the daemon does not answer.
func (l *libvirtd) domains() int {
	c, err := rpc.Dial(l.m.t.Context(), "/run/libvirt/libvirt-sock", "qemu:///system", 0)
	if err != nil {
		return -1
	}
	defer c.Close()
	all, err := c.Domains(l.m.t.Context())
	if err != nil {
		return -1
	}
	return len(all)
}

// driver returns the driver of a PCI function; empty: it has none.
func driver(address string) string {
	target, err := os.Readlink("/sys/bus/pci/devices/" + address + "/driver")
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

// nvmeName returns the name of an NVMe controller, such as nvme0; empty: no driver has the function.
func nvmeName(address string) string {
	found, _ := filepath.Glob("/sys/bus/pci/devices/" + address + "/nvme/nvme*") // the pattern is valid
	if len(found) == 0 {
		return ""
	}
	return filepath.Base(found[0])
}

// namespacePath is the name of a controller's path to the first namespace of its subsystem, such as nvme0c2n1, or
// nvme0n1 without multipath.
var namespacePath = regexp.MustCompile(`/(nvme\d+)(c\d+)?(n1)$`)

// disk waits until the driver has connected an NVMe controller to its namespace, and returns the namespace's device.
// The controllers of a subsystem share it.
func (m *machine) disk(address string) (path string) {
	m.t.Helper()
	m.till(address+" has a namespace", func() bool {
		found, _ := filepath.Glob("/sys/bus/pci/devices/" + address + "/nvme/nvme*/nvme*n1") // the pattern is valid
		if len(found) == 0 {
			return false
		}
		name := namespacePath.FindStringSubmatch(found[0])
		path = "/dev/" + name[1] + name[3]
		_, err := os.Stat(path)
		return err == nil
	})
	return path
}

// adminCommand is the kernel's struct nvme_admin_cmd.
type adminCommand struct {
	opcode, flags               uint8
	_                           uint16
	nsid, cdw2, cdw3            uint32
	metadata, addr              uint64
	metadataLen, dataLen        uint32
	cdw10, cdw11, cdw12, cdw13  uint32
	cdw14, cdw15, timeout, size uint32
}

// virtualization sends the command Virtualization Management of NVMe to a PF: an action for one of its controllers, of
// which 0 is its own and n is that of VF n; resource is 0 for queues and 1 for interrupts.
func (m *machine) virtualization(pf string, controller, resource, action, amount uint32) {
	m.t.Helper()
	const nvmeAdminCommand, virtualizationManagement = 0xc0484e41, 0x1c
	dev, err := os.OpenFile("/dev/"+nvmeName(pf), os.O_RDWR, 0)
	must(m.t, err)
	defer dev.Close()
	c := adminCommand{opcode: virtualizationManagement, cdw10: controller<<16 | resource<<8 | action, cdw11: amount}
	status, _, errno := syscall.Syscall(syscall.SYS_IOCTL, dev.Fd(), nvmeAdminCommand, uintptr(unsafe.Pointer(&c)))
	if errno != 0 || status != 0 {
		m.t.Fatalf("%s: action %d for controller %d: %v, status %#x", pf, action, controller, errno, status)
	}
}

// onlineDisks gives VFs of an NVMe PF, by number, queues and interrupts, and binds them to their driver. They have the
// namespace of the PF.
func (m *machine) onlineDisks(pf string, vfs ...uint32) {
	m.t.Helper()
	const queues, interrupts, primary, assign, online = 0, 1, 1, 8, 9
	m.virtualization(pf, 0, interrupts, primary, 0)
	m.virtualization(pf, 0, queues, primary, 0)
	must(m.t, os.WriteFile("/sys/class/nvme/"+nvmeName(pf)+"/reset_controller", []byte("1"), 0))
	for _, n := range vfs {
		m.virtualization(pf, n, interrupts, assign, 1)
		m.virtualization(pf, n, queues, assign, 2)
		m.virtualization(pf, n, 0, online, 0)
		at := strings.TrimSuffix(pf, "0") + fmt.Sprint(n)
		must(m.t, os.WriteFile("/sys/bus/pci/drivers_probe", []byte(at), 0))
		m.disk(at)
	}
}

// mountFiles makes and mounts the file system with the guests' files.
func (m *machine) mountFiles() {
	m.t.Helper()
	must(m.t, os.MkdirAll(instances, 0o711))
	m.command("mkfs.ext4", "-q", m.disk(pfFiles))
	m.command("mount", m.disk(pfFiles), instances)
	must(m.t, os.Chmod(instances, 0o711))
}

// begins returns the first bytes of a disk.
func (m *machine) begins(path string, length int) string {
	m.t.Helper()
	file, err := os.Open(path)
	must(m.t, err)
	defer file.Close()
	text := make([]byte, length)
	_, err = io.ReadFull(file, text)
	must(m.t, err)
	return string(text)
}

func (m *machine) command(name string, arguments ...string) {
	m.t.Helper()
	if out, err := exec.CommandContext(m.t.Context(), name, arguments...).CombinedOutput(); err != nil {
		m.t.Fatalf("%s: %v: %s", name, err, out)
	}
}

// counterpart gives the other NIC on the wire, the PF of an unused VF, an address in a VLAN. QEMU passes frames of a
// VLAN to a PF only if one of its VFs is in the VLAN.
func (m *machine) counterpart(vf string, vlan int, address string) {
	m.t.Helper()
	unused := m.find(vf)
	pf, err := netlink.LinkByName(unused.Interface)
	must(m.t, err)
	must(m.t, netlink.LinkSetVfVlan(pf, unused.Index, vlan))
	link := &netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: "counterpart", ParentIndex: pf.Attrs().Index}, VlanId: vlan}
	must(m.t, netlink.LinkAdd(link))
	at, err := netlink.ParseAddr(address)
	must(m.t, err)
	must(m.t, netlink.AddrAdd(link, at))
	must(m.t, netlink.LinkSetUp(link))
}

// phase logs what has been reached, and how long it took.
func (m *machine) phase(what string) {
	now := time.Now()
	if m.since.IsZero() {
		m.since = now
	}
	m.t.Logf("%6.1f s  %s", now.Sub(m.since).Seconds(), what)
	m.since = now
}
