package app

import (
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// TestDirectPortWithoutReportedDevices creates servers with direct ports on a host that does not report devices for
// ports: each becomes ACTIVE, or has a fault that names the cause or the option to set.
func TestDirectPortWithoutReportedDevices(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	off := strings.Replace(nicsConf, "report_network_devices = true", "report_network_devices = false", 1)
	for _, c := range []struct {
		name, conf string
		kbps       int
		fault      string // "": the server becomes ACTIVE
	}{
		{"no guarantee", off, 0, ""},
		{"no guarantee, nothing in Placement", strings.Replace(off, "report_in_placement = true", "", 1), 0, ""},
		{"guarantee", off, 1000, "set [berth] report_network_devices = true on the hosts"},
		{"no device_spec", off[:strings.Index(off, "device_spec")], 0, "no free device of SRIOV_NET_VF on the host"},
		{"devices of another network", strings.Replace(off, `"physical_network":"physnet1"`,
			`"physical_network":"physnet2"`, 1), 0, "its physical_network is physnet2, not physnet1"},
		{"no agent", off[strings.Index(off, "[pci]"):], 0, "serve the physical network by [SRIOV_NIC] physical_dev"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &nicsLab{portsLab: newPortsLabOn(t, nicsOfSample, c.conf, &faultyNetwork{})}
			defer l.down()
			l.addNetwork()
			status := "ACTIVE"
			if c.fault != "" {
				status = "ERROR"
			}
			s := l.create(status, []map[string]string{{"port": l.directPort(c.kbps).ID}})
			if c.fault != "" && (s.Fault == nil || !strings.Contains(s.Fault.Message, c.fault)) {
				t.Errorf("fault %+v, want %q", s.Fault, c.fault)
			}
		})
	}
}
