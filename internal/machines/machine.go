package machines

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Machine is a machine of a network. It has its own name, addresses, processes, /etc/machine-id, /run and copies of
// /etc, /var, /root and /usr/local/bin. It shares all other directories with the machine that runs the test.
type Machine struct {
	Name, Address string

	t       testing.TB
	network *Network
	dir     string // contains the copies
	pid     string // of the first process, in the process namespace of the test
}

// ownDirs are the directories of which each machine has its own.
var ownDirs = []string{"etc", "var", "root", "usr/local/bin"}

// otherServices are directories of /etc that would change what Berth does.
var otherServices = []string{"berth", "openstack", "placement", "nova", "keystone", "glance", "neutron"}

// setUp runs in the new namespaces as their first process: it prints its process ID outside of them and ends with its
// input. The arguments are the directory, the name and the program that becomes /usr/local/bin/berth.
const setUp = `set -eu
read -r pid _ </proc/self/stat
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
for d in etc var root usr/local/bin; do mount --bind "$1/$d" "/$d"; done
: >/usr/local/bin/berth
mount --bind "$3" /usr/local/bin/berth
hostname "$2"
ip link set lo up
echo "$pid"
exec cat >/dev/null`

// Machine adds a machine and connects it. program becomes its /usr/local/bin/berth.
func (n *Network) Machine(name, address, program string) *Machine {
	t := n.t
	t.Helper()
	m := &Machine{Name: name, Address: address, t: t, network: n, dir: filepath.Join(n.dir, name)}
	for _, d := range ownDirs {
		must(t, os.MkdirAll(m.Path(d), 0o755))
	}
	for _, d := range []string{"lib", "log", "tmp"} {
		must(t, os.Mkdir(m.Path("var/"+d), 0o755))
	}
	run(t, exec.Command("cp", "-a", "/etc/.", m.Path("etc")))
	for _, service := range otherServices {
		must(t, os.RemoveAll(m.Path("etc/"+service)))
	}
	// Compute and Placement start although their user may not read the directories of the other services.
	for _, service := range []string{"glance", "neutron"} {
		must(t, os.Mkdir(m.Path("etc/"+service), 0o700))
	}
	id := strings.Repeat("0", 30) + strconv.Itoa(10+len(n.machines))
	for file, text := range map[string]string{"machine-id": id, "hosts": "127.0.0.1 localhost\n", "hostname": name} {
		must(t, os.RemoveAll(m.Path("etc/"+file))) // it may be a link
		must(t, os.WriteFile(m.Path("etc/"+file), []byte(text), 0o644))
	}
	m.pid = namespaces(t, "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "sh", "-c", setUp, "sh", m.dir,
		name, program)
	n.machines = append(n.machines, m)
	n.connect(m)
	return m
}

// namespaces starts unshare with these arguments and a new network namespace, and returns the process ID that its
// command prints. The command ends with its input, which ends with the test, also when the test is killed. Then the
// namespaces end too, and with them all processes and links inside.
func namespaces(t testing.TB, args ...string) (pid string) {
	t.Helper()
	cmd := exec.Command("unshare", append([]string{"--net", "--propagation", "private"}, args...)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("cannot create namespaces: %v\n%s", err, errs.String())
	}
	return strings.TrimSpace(line)
}

// Path returns the path outside of the machine for a file under one of its own directories.
func (m *Machine) Path(file string) string { return filepath.Join(m.dir, file) }

// Command returns a command that runs a shell script on the machine, in /root, with only these variables and PATH,
// HOME and LANG.
func (m *Machine) Command(script string, variables ...string) *exec.Cmd {
	cmd := exec.CommandContext(m.t.Context(), "nsenter", "--target", m.pid, "--net", "--mount", "--uts", "--ipc", "--pid",
		"sh", "-c", "cd /root\n"+script)
	cmd.Env = slices.Concat([]string{"HOME=/root", "LANG=C.UTF-8",
		"PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"}, variables)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// Unplug cuts the cable between the machine and the switch.
func (m *Machine) Unplug() { m.network.ip("link", "set", m.Name, "down") }

// Plug restores the cable.
func (m *Machine) Plug() { m.network.ip("link", "set", m.Name, "up") }

// run runs a command that must succeed.
func run(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
