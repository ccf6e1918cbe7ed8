package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/network"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/settings"
)

const (
	bridgePhysnet = "CUSTOM_PHYSNET_LAN"
	vnicNormal    = "CUSTOM_VNIC_TYPE_NORMAL"
	ovsAgent      = "Open vSwitch agent"
	guaranteed    = 100_000 // kilobits per second of each port, each way
)

// portFleet is a computeFleet with a network service. Its hosts have one bridge of 100 Gbit/s.
type portFleet struct {
	*computeFleet
	network *Process
	agents  []network.AgentReport // by host
	lan     string                // id of the network
	policy  string                // id of the policy that guarantees bandwidth
	usual   usualTime             // from the server's POST until the port is bound
}

// startPortFleet loads hosts with a bridge, starts the services, and reports the hosts to compute and to the network
// service.
func startPortFleet(b *testing.B) *portFleet {
	b.Helper()
	dir := place(b)
	must(b, standardNames(b, SQLite(dir)))
	p := &portFleet{computeFleet: &computeFleet{}}
	var err error
	p.reports, err = loadReported(b, SQLite(dir), *scheduleHosts, nil, p.bridged)
	must(b, err)
	p.placement = serve(b, dir, SQLite(dir))
	p.network = serveNetwork(b, p.placement.Addr)
	p.compute = serveComputeIn(b, place(b), p.placement.Addr,
		computeOptions+"[neutron]\nendpoint_override = http://"+p.network.Addr+"\n")
	p.report(b)
	p.createFlavor(b, flavorPlain, 1, `{}`)
	must(b, p.makeNetwork())
	p.reportBridges(b)
	return p
}

// serveNetwork starts the network service until the benchmark ends.
func serveNetwork(b *testing.B, placement string) *Process {
	b.Helper()
	dir := place(b)
	if !*inProcess {
		berth, err := built()
		must(b, err)
		p, err := StartNetwork(berth, dir, placement)
		must(b, err)
		b.Cleanup(func() { must(b, p.Stop()) })
		return p
	}
	return serveWithin(b, dir, "", func(ctx context.Context, conf settings.Settings, client *api.Client,
		log *slog.Logger) (*app.Service, error) {
		return app.OpenNetwork(ctx, "sqlite:///"+filepath.Join(dir, "network.db"), client, conf, log)
	}, placement)
}

// bridged writes a host with a bridge, and keeps the report of its network agent.
func (p *portFleet) bridged(f *fleet, n int) (host.Report, error) {
	r := host.Report{Host: fmt.Sprintf("cmp-%05d", n), Instance: uuid.NewString(), Start: uuid.NewString(),
		InPlace: true, Conditions: []condition.Condition{}}
	if n == 0 {
		p.agents = nil // the transaction runs again
		for i, trait := range []string{bridgePhysnet, vnicNormal} {
			if _, err := f.tx.Exec(f.ctx, "INSERT INTO traits (created_at, id, name) VALUES (?, ?, ?)", moment, 20000+i,
				trait); err != nil {
				return r, err
			}
		}
	}
	root := f.next
	var err error
	if r.Provider, err = f.provider(r.Host, root, nil, "", map[string]int{"VCPU": 256, "MEMORY_MB": 1 << 20,
		"DISK_GB": 8000}, 0, f.common...); err != nil {
		return r, err
	}
	agent := f.next
	if _, err = f.provider(r.Host+":"+ovsAgent, root, root, "", nil, 0); err != nil {
		return r, err
	}
	bridge, err := f.provider(r.Host+":"+ovsAgent+":br-lan", root, agent, "",
		map[string]int{egress: 100_000_000, ingress: 100_000_000}, 0, 20000, 20001)
	p.agents = append(p.agents, network.AgentReport{Binary: "benchmark", Start: r.Start, Root: r.Provider,
		Devices: []network.AgentDevice{{Name: "br-lan", Provider: bridge, PhysicalNetworks: []string{"lan"}}}})
	return r, err
}

// makeNetwork creates a VLAN network with a large subnet, and a policy that guarantees bandwidth both ways.
func (p *portFleet) makeNetwork() error {
	c := Dial(p.network.Addr)
	defer c.Close()
	post := func(path, kind, body string) (id string, err error) {
		text, err := c.Want(201, "POST", path, fmt.Appendf(nil, "{%q: %s}", kind, body))
		var made map[string]struct{ ID string }
		if err == nil {
			err = json.Unmarshal(text, &made)
		}
		return made[kind].ID, err
	}
	if _, err := c.Want(200, "PUT", "/v2.0/quotas/admin", []byte(`{"quota": {"port": -1}}`)); err != nil {
		return err
	}
	var err error
	if p.lan, err = post("/v2.0/networks", "network", `{"name": "lan", "provider:network_type": "vlan",
		"provider:physical_network": "lan", "provider:segmentation_id": 7}`); err != nil {
		return err
	}
	if _, err = post("/v2.0/subnets", "subnet", `{"network_id": "`+p.lan+`", "ip_version": 4, "cidr": "10.0.0.0/12",
		"enable_dhcp": false}`); err != nil {
		return err
	}
	if p.policy, err = post("/v2.0/qos/policies", "policy", `{"name": "guaranteed"}`); err != nil {
		return err
	}
	for _, direction := range []string{"egress", "ingress"} {
		if _, err = post("/v2.0/qos/policies/"+p.policy+"/minimum_bandwidth_rules", "minimum_bandwidth_rule",
			fmt.Sprintf(`{"min_kbps": %d, "direction": %q}`, guaranteed, direction)); err != nil {
			return err
		}
	}
	return nil
}

// reportBridges sends the reports of the network agents, now and every 30 seconds until the end of the benchmark.
func (p *portFleet) reportBridges(b *testing.B) {
	b.Helper()
	repeat(b, 30*time.Second, func() error {
		_, err := Run(p.network.Addr, 4, Times(len(p.agents)), func(c *Conn, n int) error {
			body, err := json.Marshal(p.agents[n])
			if err == nil {
				_, err = c.Want(204, "PUT", "/berth/v1/network-agents/"+p.reports[n].Host+"/Open%20vSwitch%20agent", body)
			}
			return err
		})
		return err
	})
}

// bind creates a port with a guarantee and a server with it, and waits until the port is bound to the server's host.
func (p *portFleet) bind(c *Conn, n int) error {
	ports := Dial(p.network.Addr)
	defer ports.Close()
	text, err := ports.Want(201, "POST", "/v2.0/ports", fmt.Appendf(nil,
		`{"port": {"network_id": %q, "qos_policy_id": %q}}`, p.lan, p.policy))
	if err != nil {
		return err
	}
	var made struct {
		Port struct {
			ID  string
			VIF string `json:"binding:vif_type"`
		}
	}
	if err := json.Unmarshal(text, &made); err != nil {
		return err
	}
	c.Compute = "2.72" // the first that creates servers with such ports
	if _, err := c.Want(202, "POST", "/v2.1/servers", fmt.Appendf(nil, `{"server": {"name": "s%d", "flavorRef": %q,
		"imageRef": "", "networks": [{"port": %q}]}}`, n, flavorPlain, made.Port.ID)); err != nil {
		return err
	}
	began := time.Now()
	p.usual.sleepHalf()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(*pollPause) {
		if text, err = ports.Want(200, "GET", "/v2.0/ports/"+made.Port.ID, nil); err != nil {
			return err
		}
		if err := json.Unmarshal(text, &made); err != nil {
			return err
		}
		switch made.Port.VIF {
		case "ovs":
			p.usual.add(time.Since(began))
			return nil
		case "binding_failed":
			return fmt.Errorf("port: %s", text)
		}
	}
	return errors.New("a port is not bound after a minute: " + string(text))
}

// BenchmarkBoundPorts creates ports with guaranteed bandwidth, each with a server, with 16 clients; an operation ends
// when the port is bound to the host of the server, whose allocation has the bandwidth then.
func BenchmarkBoundPorts(b *testing.B) {
	p := startPortFleet(b)
	b.Run(fmt.Sprintf("hosts=%d", *scheduleHosts), func(b *testing.B) {
		before, err := p.network.Worked()
		must(b, err)
		load(b, p.compute, 16, 1, "ports", p.bind)
		after, err := p.network.Worked()
		must(b, err)
		b.ReportMetric(float64((after-before).Microseconds())/float64(b.N), "network-cpu-µs/op")
	})
}
