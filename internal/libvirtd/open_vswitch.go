package libvirtd

import (
	"testing"

	"github.com/openberth/berth/internal/ownlibvirt"
	"github.com/openberth/berth/internal/testenv"
)

// OpenVSwitchBridge is the bridge of Open vSwitch in the network of the daemon of StartOpenVSwitch.
const OpenVSwitchBridge = "br-ex"

// OpenVSwitchControl is the socket of ovs-vswitchd, for ovs-appctl -t.
const OpenVSwitchControl = "/run/openvswitch/control"

// prepareOpenVSwitch starts Open vSwitch with a database of its own, where ovs-vsctl expects that of the machine. The
// bridge has the datapath in user space, which needs no module of the kernel.
const prepareOpenVSwitch = `mkdir -p /run/openvswitch "$1/ovs"
mount --bind "$1/ovs" /run/openvswitch
ovsdb-tool create "$1/ovs/conf.db" /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server "$1/ovs/conf.db" -vconsole:warn --remote=punix:/run/openvswitch/db.sock &
while [ ! -S /run/openvswitch/db.sock ]; do sleep 0.05; done
ovs-vsctl --no-wait init
ovs-vswitchd -vconsole:warn --unixctl=` + OpenVSwitchControl + ` unix:/run/openvswitch/db.sock &
ovs-vsctl --timeout=120 add-br ` + OpenVSwitchBridge + ` -- set Bridge ` + OpenVSwitchBridge + ` datapath_type=netdev
ip link set ` + OpenVSwitchBridge + ` up
`

// StartOpenVSwitch starts a daemon whose guests can be connected to a bridge of Open vSwitch.
func StartOpenVSwitch(t testing.TB) *Daemon {
	t.Helper()
	testenv.Need(t, "Open vSwitch")
	return start(t, ownlibvirt.Options{Prepare: prepareOpenVSwitch}, nil)
}
