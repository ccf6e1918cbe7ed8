// Package machines runs machines for tests as Linux namespaces, connected by a switch with cables that a test can cut.
// It needs root. Nothing is visible outside of the namespaces, and they end with the test, also when it is killed.
package machines

import (
	"os"
	"os/exec"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// Network is a switch, which is a bridge in a network namespace of its own, and the machines connected to it.
type Network struct {
	t        testing.TB
	dir      string
	pid      string // of a process in the namespace of the switch
	machines []*Machine
}

// Start starts a network without machines. It skips the test under -short.
func Start(t testing.TB) *Network {
	t.Helper()
	testenv.Need(t, "root", "network namespaces")
	if os.Geteuid() != 0 {
		t.Fatal("network namespaces need root: run `make check` as root")
	}
	for _, program := range []string{"ip", "unshare", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is not installed: run `make tools`", program)
		}
	}
	n := &Network{t: t, dir: t.TempDir()}
	n.pid = namespaces(t, "sh", "-c", "echo $$; exec cat >/dev/null")
	n.ip("link", "add", "bridge", "type", "bridge")
	n.ip("link", "set", "bridge", "up")
	return n
}

// ip runs the ip command in the namespace of the switch.
func (n *Network) ip(args ...string) {
	n.t.Helper()
	run(n.t, exec.Command("nsenter", append([]string{"--target", n.pid, "--net", "ip"}, args...)...))
}

// connect connects a machine to the switch. At the switch, the cable has the machine's name; at the machine, eth0.
func (n *Network) connect(m *Machine) {
	n.t.Helper()
	n.ip("link", "add", m.Name, "type", "veth", "peer", "name", "eth0", "netns", m.pid)
	n.ip("link", "set", m.Name, "master", "bridge", "up")
	run(n.t, m.Command("ip address add "+m.Address+"/24 dev eth0 && ip link set eth0 up"))
}
