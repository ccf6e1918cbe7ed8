//go:build lab || nested

package vfguest

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/agent/vflink"
	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// configuration is that of all services, without device_spec.
const configuration = `[DEFAULT]
host = lab
[api]
auth_strategy = noauth2
[pci]
report_in_placement = true
[neutron]
endpoint_override = http://127.0.0.1:9696
[berth]
report_network_devices = true
rescan_interval = 3600
port_interval = 1
`

// patience is the limit of each wait: an emulated CPU of a loaded machine is slow.
const patience = 3 * time.Minute

// machine is the lab with Berth's services as processes.
type machine struct {
	t       *testing.T
	dir     string
	agent   *exec.Cmd
	compute *compute.Client
	hosts   host.Client
	network *network.Client
	links   vflink.Links

	placement *placement.Client
	since     time.Time // of the last phase
}

// start starts the services and the agent, which offers these VFs for ports on physnet0. Each PF has 700 Mbit/s for
// guarantees.
func start(t *testing.T, vfs ...string) *machine {
	t.Helper()
	return startWith(t, "[DEFAULT]\ncompute_driver = fake.FakeDriver\n", map[string]string{"placement": "8778",
		"compute": "8774", "network": "9696"}, vfs)
}

// startWith starts services, with the port of each, and the agent, with these options beside those of start.
func startWith(t *testing.T, options string, services map[string]string, vfs []string) *machine {
	t.Helper()
	if name, err := os.Hostname(); err != nil || name != "lab" {
		t.Fatalf("this test changes the VFs of its machine and runs only in the lab (make lab, make nested), not on %q", name)
	}
	m := &machine{t: t, dir: t.TempDir(), placement: placement.NewClient("http://127.0.0.1:8778", nil, "admin"),
		compute: compute.NewClient("http://127.0.0.1:8774", nil, "admin"),
		network: network.NewClient("http://127.0.0.1:9696", nil, "admin"),
		hosts:   host.Client{REST: client("8774")}}
	text := configuration + "neutron_config_files = " + m.neutronOptions(vfs) + "\n[pci]\n"
	for _, vf := range vfs {
		text += `device_spec = {"address": "` + vf + `", "physical_network": "physnet0", "trusted": "true"}` + "\n"
	}
	must(t, os.WriteFile(filepath.Join(m.dir, "berth.conf"), []byte(text+options), 0o600))
	for name, port := range services {
		m.run(name)
		m.till(name+" answers", func() bool {
			resp, err := http.Get("http://127.0.0.1:" + port + "/")
			if err == nil {
				resp.Body.Close()
			}
			return err == nil
		})
	}
	for _, vf := range []string{"0000:12:10.0", "0000:23:10.0"} {
		pf := m.find(vf).Interface
		link, err := netlink.LinkByName(pf)
		must(t, err)
		must(t, netlink.LinkSetUp(link))
		m.till(pf+" has a link", func() bool { return m.find(vf).Speed > 0 })
	}
	m.startAgent()
	return m
}

// client returns a client of a service by its port.
func client(port string) *rest.Client {
	return &rest.Client{Base: "http://127.0.0.1:" + port, Headers: map[string]string{"X-Auth-Token": "admin"}}
}

// neutronOptions writes the options of Neutron's SR-IOV agent for the PFs of VFs, and returns the file.
func (m *machine) neutronOptions(vfs []string) (file string) {
	m.t.Helper()
	var mappings, rates []string
	for _, vf := range vfs {
		nic := m.find(vf).Interface
		if one := "physnet0:" + nic; !slices.Contains(mappings, one) {
			mappings, rates = append(mappings, one), append(rates, nic+":700000:700000")
		}
	}
	file = filepath.Join(m.dir, "sriov_agent.ini")
	must(m.t, os.WriteFile(file, []byte("[SRIOV_NIC]\nphysical_device_mappings = "+strings.Join(mappings, ",")+
		"\nresource_provider_bandwidths = "+strings.Join(rates, ",")+"\n"), 0o600))
	return file
}

// run starts a service; its log is a file of the test's directory.
func (m *machine) run(service string) *exec.Cmd {
	m.t.Helper()
	log, err := os.OpenFile(filepath.Join(m.dir, service+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(m.t, err)
	cmd := exec.Command("./berth", service, "--config-file", filepath.Join(m.dir, "berth.conf"), "--data-dir",
		filepath.Join(m.dir, service))
	cmd.Stdout, cmd.Stderr = log, log
	must(m.t, cmd.Start())
	m.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		if m.t.Failed() {
			text, err := os.ReadFile(log.Name())
			m.t.Logf("%s: %v\n%s", log.Name(), err, last(text, 40))
		}
	})
	return cmd
}

// last returns the last lines of a log that are no requests.
func last(text []byte, lines int) string {
	all := slices.DeleteFunc(bytes.Split(text, []byte("\n")), func(line []byte) bool {
		return bytes.Contains(line, []byte("msg=request "))
	})
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

func (m *machine) startAgent() {
	m.t.Helper()
	before := m.seen()
	m.agent = m.run("agent")
	m.till("the agent reports", func() bool { return m.seen().After(before) })
}

// seen returns the time of the last report of the host.
func (m *machine) seen() (last time.Time) {
	all, err := m.hosts.Hosts(m.t.Context())
	if err != nil || len(all) == 0 {
		return last
	}
	return all[0].Seen
}

func (m *machine) killAgent() {
	m.t.Helper()
	must(m.t, m.agent.Process.Kill())
	_ = m.agent.Wait() // the error is that it was killed
}

// till waits until a condition is true.
func (m *machine) till(what string, condition func() bool) {
	m.t.Helper()
	m.within(patience, what, condition)
}

// within waits for a time until a condition is true.
func (m *machine) within(limit time.Duration, what string, condition func() bool) {
	m.t.Helper()
	for end := time.Now().Add(limit); !condition(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("not reached: %s", what)
		}
	}
}

func (m *machine) find(address string) vfconfig.VF {
	m.t.Helper()
	a, err := pci.ParseAddress(address)
	must(m.t, err)
	vf, err := m.links.Find(a)
	must(m.t, err)
	return vf
}

// vf reads the configuration of a VF from the kernel.
func (m *machine) vf(address string) vfconfig.Settings {
	m.t.Helper()
	s, err := m.links.Read(m.find(address))
	must(m.t, err)
	return s
}

// tillVF waits until a VF has a configuration.
func (m *machine) tillVF(address string, want vfconfig.Settings) {
	m.t.Helper()
	for end := time.Now().Add(patience); m.vf(address) != want; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("%s has %+v, want %+v; conditions %q", address, m.vf(address), want, m.conditions())
		}
	}
}

// conditions returns the conditions of the host, one a line.
func (m *machine) conditions() string {
	all, err := m.hosts.Hosts(m.t.Context())
	if err != nil || len(all) != 1 {
		return ""
	}
	return strings.Join(condition.Texts(all[0].Conditions), "\n")
}

// tillDone waits until a server is ACTIVE or ERROR, and returns the message of its fault.
func (m *machine) tillDone(id string) (failure string) {
	m.t.Helper()
	m.till("server "+id+" is done", func() bool {
		s, err := m.compute.ServerByID(m.t.Context(), id)
		if err == nil && s.Fault != nil {
			failure = s.Fault.Message
		}
		return err == nil && (s.Status == "ACTIVE" || s.Status == "ERROR")
	})
	return failure
}

// create creates a server with a port.
func (m *machine) create(name string, port network.Port) (id string) {
	m.t.Helper()
	return m.createWith(name, port, nil)
}

// createWith creates a server with a port and more attributes of the API.
func (m *machine) createWith(name string, port network.Port, more map[string]any) (id string) {
	m.t.Helper()
	attributes := map[string]any{"name": name, "flavorRef": "small", "networks": []map[string]string{{"port": port.ID}}}
	maps.Copy(attributes, more)
	answer, err := m.compute.REST.Do(m.t.Context(), http.MethodPost, "/v2.1/servers", map[string]any{"server": attributes},
		nil)
	must(m.t, err)
	var made struct{ Server struct{ ID string } }
	must(m.t, json.Unmarshal(answer.Body, &made))
	return made.Server.ID
}

// vfOf returns the VF that a port is bound with.
func (m *machine) vfOf(port string) string {
	m.t.Helper()
	p, err := m.network.Port(m.t.Context(), port)
	must(m.t, err)
	slot, _ := p.Profile["pci_slot"].(string)
	if p.VIF != "hw_veb" || slot == "" {
		m.t.Fatalf("not bound to a VF: %+v", p)
	}
	return slot
}

// tillStatus waits until a server has a status.
func (m *machine) tillStatus(id, status string) {
	m.t.Helper()
	m.till("server is "+status, func() bool {
		s, err := m.compute.ServerByID(m.t.Context(), id)
		return err == nil && s.Status == status
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func checkKind(t *testing.T, err error, kind fault.Kind, what string) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("%s: %v, want a fault of kind %s", what, err, kind)
	}
}
