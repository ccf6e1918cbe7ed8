package operations

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/network/store"
)

// BenchmarkHostNetworks reads the networks of a host with 1000 ports of one security group, which names itself.
func BenchmarkHostNetworks(b *testing.B) {
	s := open(b, databases.SQLite(b), nil)
	ctx, agents := b.Context(), Agents{s}
	s.Quotas["port"] = -1
	must(b, agents.ReportAgent(ctx, host, "Linux bridge agent", network.AgentReport{
		Devices: []network.AgentDevice{{Name: "br-ex", PhysicalNetworks: []string{"physnet0"}}}}))
	n, err := s.CreateNetwork(ctx, store.Network{Base: store.Base{Project: "demo"}, AdminUp: true,
		Segments: []store.Segment{{Type: "flat", PhysicalNetwork: "physnet0"}}})
	must(b, err)
	_, err = s.CreateSubnet(ctx, store.Subnet{Base: store.Base{Project: "demo"}, Network: n.ID, IPVersion: 4,
		CIDR: "10.0.0.0/16"}, false)
	must(b, err)
	must(b, s.Store.Together(ctx, func(ctx context.Context) error {
		for i := range 1000 {
			_, err := s.CreatePort(ctx, store.Port{Base: store.Base{Project: "demo"}, Network: n.ID, AdminUp: true,
				PortSecurity: true, Owner: "compute:nova", Device: "s", Binding: store.Binding{Host: host, VNIC: "normal"}},
				[]store.FixedIP{{Address: fmt.Sprintf("10.0.%d.%d", i/250+1, i%250+1)}})
			if err != nil {
				return err
			}
		}
		return nil
	}))
	for b.Loop() {
		all, err := agents.HostNetworks(ctx, host)
		must(b, err)
		if len(all.Ports) != 1000 || len(all.Groups) != 1 || len(all.Groups[0].Members) != 1000 {
			b.Fatalf("%d ports, %d groups", len(all.Ports), len(all.Groups))
		}
		text, err := json.Marshal(all)
		must(b, err)
		b.ReportMetric(float64(len(text)), "bytes")
	}
}
