package bench

import (
	"fmt"
	"strings"
)

const (
	portNetwork = "CUSTOM_PHYSNET_BENCH"
	portDirect  = "CUSTOM_VNIC_TYPE_DIRECT"
	egress      = "NET_BW_EGR_KILOBIT_PER_SEC"
	ingress     = "NET_BW_IGR_KILOBIT_PER_SEC"
)

// PortHosts creates hosts for servers with direct ports: each has two NICs of 10 Gbit/s, and below each of them a PF
// with 8 VFs, as an agent with report_network_devices reports them.
func PortHosts(addr string, hosts int) error {
	pf := node{stock: map[string]inventory{"SRIOV_NET_VF": whole(8)}, traits: []string{portNetwork, portDirect}}
	nic := node{stock: map[string]inventory{egress: whole(10_000_000), ingress: whole(10_000_000)},
		traits: []string{portNetwork, portDirect}, below: []node{pf}}
	host := node{stock: map[string]inventory{"VCPU": whole(64), "MEMORY_MB": whole(1 << 18)},
		below: []node{{traits: []string{portDirect}, below: []node{nic, nic}}}}
	_, err := Run(addr, 4, Times(hosts), func(c *Conn, _ int) error {
		_, _, err := plant(c, host, "ports", "")
		return err
	})
	return err
}

// PortQuestion returns a query for a server with two direct ports with guarantees, with a limit of 1000 candidates.
func PortQuestion(n int) string {
	var q strings.Builder
	fmt.Fprintf(&q, "/allocation_candidates?resources=VCPU:%d,MEMORY_MB:%d&group_policy=none&limit=1000", 1+n%4,
		256*(1+n%8))
	for port := range 2 {
		fmt.Fprintf(&q, "&resources_BW%d=%s:%d,%s:%[3]d&required_BW%[1]d=%[5]s,%[6]s", port, egress, 1000*(1+n%50), ingress,
			portNetwork, portDirect)
		fmt.Fprintf(&q, "&resources_VF%d=SRIOV_NET_VF:1&required_VF%[1]d=%s,%s&same_subtree=_BW%[1]d,_VF%[1]d", port,
			portNetwork, portDirect)
	}
	return q.String()
}
