package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/internal/testenv"
)

// libvirtMachine is a machine for `berth init`: namespaces with a libvirt daemon, /etc/berth, /var/lib/berth and a home
// of their own.
type libvirtMachine struct {
	t   *testing.T
	dir string
	pid int // of the first process of its namespaces
}

// libvirtMachineScript prepares the namespaces; $1 is a directory, $2 the name of the machine. Its end ends everything
// in them.
const libvirtMachineScript = `set -e
cd "$1"
mkdir etc var home lib cache log libvirt
chmod 755 . var lib
hostname "$2"
for name in lib cache log; do
	mkdir -p /var/$name/libvirt
	mount --bind $name /var/$name/libvirt
done
mount -t tmpfs tmpfs /run
mkdir -p /run/libvirt /run/lock /etc/libvirt /etc/berth /var/lib/berth
mount --bind libvirt /etc/libvirt
mount --bind etc /etc/berth
mount --bind var /var/lib/berth
mount -t sysfs sysfs /sys
cat >/etc/libvirt/libvirtd.conf <<'END'
auth_unix_rw = "none"
unix_sock_rw_perms = "0700"
END
cat >/etc/libvirt/qemu.conf <<'END'
security_driver = "none"
stdio_handler = "file"
cgroup_controllers = []
namespaces = []
user = "libvirt-qemu"
group = "libvirt-qemu"
END
echo "host_uuid = \"$(cat /proc/sys/kernel/random/uuid)\"" >>/etc/libvirt/libvirtd.conf
ip link set lo up
libvirtd --config /etc/libvirt/libvirtd.conf >libvirtd.log 2>&1 &
until [ -e /run/libvirt/libvirt-sock ]; do sleep 0.1; done
touch ready
wait
`

func newLibvirtMachine(t *testing.T, name string) *libvirtMachine {
	t.Helper()
	dir, err := os.MkdirTemp("", "bi") // short: a path of a Unix socket has at most 107 bytes
	must(t, err)
	m := &libvirtMachine{t: t, dir: dir}
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "--net", "--uts", "--pid", "--fork",
		"--kill-child", "--mount-proc", "sh", "-c", libvirtMachineScript, "sh", dir, name)
	var log logBuffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.WaitDelay = 5 * time.Second
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		must(t, os.RemoveAll(dir))
	})
	eventually(t, "libvirt of "+name+" runs", func() (bool, error) {
		_, err := os.Stat(filepath.Join(dir, "ready"))
		return err == nil, nil
	})
	text, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", cmd.Process.Pid))
	must(t, err)
	m.pid, err = strconv.Atoi(strings.Fields(string(text))[0])
	must(t, err)
	return m
}

// run runs a command on the machine, and returns its output.
func (m *libvirtMachine) run(name string, args ...string) (string, error) {
	cmd := exec.CommandContext(m.t.Context(), "nsenter", append([]string{"--target", strconv.Itoa(m.pid), "--mount",
		"--net", "--uts", "--pid", name}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+filepath.Join(m.dir, "home"), "SUDO_USER=", "XDG_CONFIG_HOME=",
		"BERTH_LISTEN=", "XDG_CACHE_HOME="+imageCache())
	cmd.Dir = m.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// imageCache returns the directory in which `berth image build` keeps Debian's packages.
func imageCache() string {
	if dir, err := os.UserCacheDir(); err == nil {
		return dir
	}
	return os.TempDir()
}

func (m *libvirtMachine) works(name string, args ...string) string {
	m.t.Helper()
	out, err := m.run(name, args...)
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(m.dir, "var", "berth.log"))
		m.t.Fatalf("%s %s: %v\n%s\n%s", name, strings.Join(args, " "), err, out, log)
	}
	return out
}

// ssh waits until a server answers by ssh, and returns the output of a command there.
func (m *libvirtMachine) ssh(address, command string) (out string) {
	m.t.Helper()
	eventually(m.t, "ssh to "+address, func() (bool, error) {
		var err error
		out, err = m.run("ssh", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o",
			"LogLevel=ERROR", "-o", "BatchMode=yes", "-o", "ConnectTimeout=3", "-i",
			filepath.Join(m.dir, "home/.ssh/id_ed25519"), "root@"+address, command)
		return err == nil, nil
	})
	return out
}

// addressOf returns the address that launch has printed.
func addressOf(t *testing.T, launched string) string {
	t.Helper()
	_, rest, found := strings.Cut(launched, "ssh root@")
	if !found {
		t.Fatalf("no command for ssh: %s", launched)
	}
	return strings.Fields(rest)[0]
}

// Three commands lead from a machine with libvirt to a server that answers by ssh. Then a second machine joins, and
// servers on both machines answer. Undo leaves nothing on the machines, neither files nor bridges nor tables.
func TestInitWithLibvirtOnTwoMachines(t *testing.T) {
	testenv.Need(t, "libvirtd", "QEMU", "nft", "dnsmasq", "ssh")
	program := program(t)
	first, second := newLibvirtMachine(t, "one"), newLibvirtMachine(t, "two")
	must(t, exec.Command("ip", "link", "add", "wire", "netns", strconv.Itoa(first.pid), "type", "veth", "peer", "name",
		"wire", "netns", strconv.Itoa(second.pid)).Run())
	for m, address := range map[*libvirtMachine]string{first: "192.0.2.1/24", second: "192.0.2.2/24"} {
		m.works("ip", "address", "add", address, "dev", "wire")
		m.works("ip", "link", "set", "wire", "up")
	}
	options := filepath.Join(first.dir, "init.yaml") // TCG, because KVM may not work inside another virtual machine
	must(t, os.WriteFile(options, []byte("virt_type: qemu\nlisten: 192.0.2.1\n"), 0o600))
	names := []string{"-c", "ip -brief link | cut -d ' ' -f 1"}
	links, began := first.works("sh", names...), time.Now()
	first.works(program, "init", "--file", options)
	first.works(program, "image", "build", filepath.Join(first.dir, "debian.img"), "--name", "debian")
	address := addressOf(t, first.works(program, "launch", "web", "--image", "debian"))
	want(t, first.ssh(address, "hostname"), "web")
	t.Logf("from nothing to ssh: %s", time.Since(began).Round(time.Second))

	join := strings.Fields(first.works(program, "init", "token"))
	line := join[len(join)-4:] // --join URL TOKEN
	want(t, strings.Join(line, " "), "--join https://192.0.2.1:8770 ")
	options = filepath.Join(second.dir, "init.yaml")
	must(t, os.WriteFile(options, []byte("virt_type: qemu\n"), 0o600))
	second.works(program, append([]string{"init", "--file", options}, line[1:]...)...)
	first.works(program, "host", "disable", "one", "--reason", "test", "--os-cloud", "berth-admin")
	other := addressOf(t, first.works(program, "launch", "web2", "--image", "debian"))
	want(t, first.works(program, "server", "show", "web2", "--os-cloud", "berth-admin"), "two")
	want(t, first.ssh(other, "hostname"), "web2")

	first.works(program, "server", "delete", "web", "web2", "--wait")
	second.works(program, "init", "--undo")
	first.works(program, "init", "--undo", "--force")
	if now := first.works("sh", names...); now != links {
		t.Errorf("links remain:\n%s\nbefore:\n%s", now, links)
	}
	for _, m := range []*libvirtMachine{first, second} {
		if tables := m.works("nft", "list", "tables"); tables != "" {
			t.Errorf("tables remain: %s", tables)
		}
		if files := m.works("find", "/etc/berth", "/var/lib/berth", "-mindepth", "1"); files != "" {
			t.Errorf("files remain: %s", files)
		}
	}
}
