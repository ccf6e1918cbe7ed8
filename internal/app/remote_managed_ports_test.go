package app

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/pci"
)

// The VFs of one PF are managed by the system of their card, those of the other one by the host. Two of the first ones
// have a serial number.
const (
	cardsOfSample = nicsOfSample +
		"-- devices/pci0000:20/0000:20:00.0/0000:21:00.1/vpd.SN --\nAB0123XX0042\n" +
		"-- devices/pci0000:20/0000:20:00.0/0000:21:00.2/vpd.SN --\nAB0123XX0042\n"
	cardsConf = `
[SRIOV_NIC]
physical_device_mappings = physnet1:ens1
[berth]
report_network_devices = true
[pci]
report_in_placement = true
device_spec = {"address":{"domain":".*","bus":"11","slot":".*","function":"[1-4]"},"physical_network":"physnet1"}
device_spec = {"address":{"domain":".*","bus":"21","slot":".*","function":"[1-4]"},"physical_network":NETWORK,` +
		`"remote_managed":"true"}
`
)

// cards is a network service that binds remote-managed ports as OVN does: if the system of a card has the serial number
// in the profile of the port.
type cards struct {
	next   http.Handler
	serial string
}

// ServeHTTP implements http.Handler.
func (c *cards) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	c.next.ServeHTTP(answer, r)
	body := answer.Body.Bytes()
	var decoded map[string]any
	if strings.HasPrefix(r.URL.Path, "/v2.0/ports") && json.Unmarshal(body, &decoded) == nil {
		ports, _ := decoded["ports"].([]any)
		for _, p := range append(ports, decoded["port"]) {
			port, _ := p.(map[string]any)
			profile, _ := port["binding:profile"].(map[string]any)
			if port["binding:vif_type"] == "binding_failed" && profile["card_serial_number"] == c.serial {
				port["binding:vif_type"] = "ovs"
			}
		}
		body, _ = json.Marshal(decoded) // it was decoded
	}
	maps.Copy(w.Header(), answer.Header())
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(answer.Code)
	_, _ = bytes.NewReader(body).WriteTo(w) // the client of a closed connection gets no answer
}

// newCardsLab is a nicsLab with remote-managed VFs for a physical network, or for tunnelled ones ("null").
func newCardsLab(t *testing.T, physicalNetwork, serial string) *nicsLab {
	t.Helper()
	faulty := &faultyNetwork{}
	service := httptest.NewServer(&cards{next: faulty, serial: serial})
	t.Cleanup(service.Close)
	conf := strings.Replace(cardsConf, "NETWORK", physicalNetwork, 1) + "[neutron]\nendpoint_override = " + service.URL +
		"\n"
	l := &nicsLab{portsLab: newPortsLabOn(t, cardsOfSample, conf, faulty)}
	l.until("the VFs are in Placement", func() bool {
		return l.provider("cmp1_0000:11:00.0").Inventories[pci.PortVF].Total == 4 &&
			l.provider("cmp1_0000:21:00.0").Inventories[pci.PortVF].Total == 2
	})
	l.addNetwork()
	return l
}

// remotePort creates a port of vnic type remote-managed.
func (l *nicsLab) remotePort() network.Port {
	l.t.Helper()
	p, err := l.cloud.NetworkClient().CreatePort(l.t.Context(), map[string]any{"network_id": l.direct,
		"project_id": "admin", "binding:vnic_type": "remote-managed"})
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

// cardOf waits until a remote-managed port, its guest, the agent and Placement agree about the VF, and returns its
// address.
func (l *nicsLab) cardOf(server, port string) (address string) {
	l.t.Helper()
	l.until("port, guest, agent and Placement agree", func() bool {
		p, err := l.cloud.NetworkClient().Port(l.t.Context(), port)
		held := l.held(server)
		if err != nil || p.Host != "cmp1" || p.Device != server || len(held) != 1 {
			return false
		}
		address = held[0].Address
		number := map[string]float64{"0000:21:00.1": 0, "0000:21:00.2": 1}
		want := map[string]any{"pci_slot": address, "pci_vendor_info": held[0].VendorID + ":" + held[0].ProductID,
			"physical_network": "physnet1", "card_serial_number": "AB0123XX0042", "pf_mac_address": "00:00:00:00:00:02",
			"vf_num": number[address]}
		guest := l.guestPorts(server)
		return reflect.DeepEqual(p.Profile, want) && len(guest) == 1 &&
			guest[0] == guestPort{Port: port, Device: address, VIF: "ovs"} &&
			l.allocation(server)[l.provider("cmp1_0000:21:00.0").ID][pci.PortVF] == 1
	})
	return address
}

// TestRemoteManagedPorts creates a server with a remote-managed port beside one with a direct port: each gets a VF of
// its own kind. The first one is resized, reverted, shelved and unshelved, and its port is detached and attached
// again. The binding profile always has what the card needs, and nothing afterwards. A third port finds no VF.
func TestRemoteManagedPorts(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newCardsLab(t, `"physnet1"`, "AB0123XX0042")
	defer l.down()
	port, direct := l.remotePort(), l.directPort(0)
	s := l.create("ACTIVE", []map[string]string{{"port": port.ID}})
	first := l.cardOf(s.ID, port.ID)
	other := l.create("ACTIVE", []map[string]string{{"port": direct.ID}})
	if held := l.held(other.ID); len(held) != 1 || !strings.HasPrefix(held[0].Address, "0000:11:") {
		t.Errorf("the direct port has %+v", held)
	}
	l.delete(other.ID)

	big, err := l.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "big", VCPUs: 2, RAM: 64, Disk: 1})
	if err != nil {
		t.Fatal(err)
	}
	l.act(s.ID, "resize", "VERIFY_RESIZE", map[string]any{"flavorRef": big.ID})
	if second := l.cardOf(s.ID, port.ID); second == first {
		t.Errorf("both residences have %s", first)
	}
	l.act(s.ID, "revertResize", "ACTIVE", nil)
	if again := l.cardOf(s.ID, port.ID); again != first {
		t.Errorf("the VF was %s and is %s", first, again)
	}
	l.act(s.ID, "shelve", "SHELVED_OFFLOADED", nil)
	l.until("nothing of the port is bound", func() bool {
		p, err := l.cloud.NetworkClient().Port(t.Context(), port.ID)
		return err == nil && p.Host == "" && len(p.Profile) == 0 && len(l.held("")) == 0
	})
	l.act(s.ID, "unshelve", "ACTIVE", nil)
	l.cardOf(s.ID, port.ID)
	l.detachDirect(s.ID, port.ID)
	if got, err := l.attach(s.ID, map[string]any{"port_id": port.ID}); err != nil || got != port.ID {
		t.Fatalf("attached %q: %v", got, err)
	}
	l.cardOf(s.ID, port.ID)

	second := l.create("ACTIVE", []map[string]string{{"port": l.remotePort().ID}})
	third := l.create("ERROR", []map[string]string{{"port": l.remotePort().ID}})
	if third.Fault == nil || !strings.Contains(third.Fault.Message, "SRIOV_NET_VF") {
		t.Errorf("fault %+v", third.Fault)
	}
	for _, id := range []string{s.ID, second.ID, third.ID} {
		l.delete(id)
	}
	l.until("the port is free", func() bool {
		p, err := l.cloud.NetworkClient().Port(t.Context(), port.ID)
		return err == nil && p.Device == "" && len(p.Profile) == 0 && len(l.held("")) == 0
	})
}

// TestRemoteManagedPortWithoutItsCard creates a server whose network service does not know the card: it fails with what
// is missing, and nothing is left. The VFs are for tunnelled networks, whose ports have the physical network null.
func TestRemoteManagedPortWithoutItsCard(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newCardsLab(t, "null", "another card")
	defer l.down()
	n, err := l.cloud.NetworkClient().CreateNetwork(t.Context(), map[string]any{"name": "tunnel", "project_id": "admin",
		"provider:network_type": "geneve", "provider:segmentation_id": 9})
	if err == nil {
		_, err = l.cloud.NetworkClient().CreateSubnet(t.Context(), map[string]any{"network_id": n.ID, "ip_version": 4,
			"cidr": "10.2.0.0/24", "project_id": "admin"})
	}
	if err != nil {
		t.Fatal(err)
	}
	l.direct = n.ID
	port := l.remotePort()
	s := l.create("ERROR", []map[string]string{{"port": port.ID}})
	if s.Fault == nil || !strings.Contains(s.Fault.Message, "no chassis with the serial number of its card") {
		t.Errorf("fault %+v", s.Fault)
	}
	l.until("nothing is left", func() bool {
		p, err := l.cloud.NetworkClient().Port(t.Context(), port.ID)
		return err == nil && p.Host == "" && len(p.Profile) == 0 && len(l.held(""))+len(l.allocation(s.ID)) == 0
	})
}
