package libvirt

import (
	"encoding/xml"
	"reflect"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
)

// TestDiagnose converts the statistics of a domain with two CPUs, of which one is offline.
func TestDiagnose(t *testing.T) {
	var live liveDomain
	if err := xml.Unmarshal([]byte(`<domain type="kvm"><devices><interface><mac address="fa:16:3e:00:00:01"/>
		<target dev="tap1"/></interface></devices></domain>`), &live); err != nil {
		t.Fatal(err)
	}
	got := diagnose(map[string]any{"state.state": int32(1), "balloon.maximum": uint64(65536), "balloon.rss": uint64(9),
		"vcpu.maximum": uint32(2), "vcpu.0.time": uint64(17), "block.count": uint32(2), "block.0.name": "vda",
		"block.0.rd.bytes": uint64(1), "block.0.wr.reqs": uint64(2), "block.1.name": "sda",
		"block.1.path": "/g/config.iso", "net.count": uint32(1), "net.0.name": "tap1", "net.0.rx.bytes": uint64(5),
		"net.0.tx.drop": uint64(6)}, live, "/g/config.iso")
	want := hypervisor.Diagnostics{Driver: "libvirt", Hypervisor: "kvm", State: "running", ConfigDrive: true,
		MemoryKB: 65536, UsedKB: 9, CPUs: []hypervisor.CPUStats{{ID: 0, Time: 17}},
		Disks: []hypervisor.DiskStats{{Name: "vda", ReadBytes: 1, WriteRequests: 2, Errors: -1}, {Name: "sda", Errors: -1}},
		NICs:  []hypervisor.NICStats{{Name: "tap1", MAC: "fa:16:3e:00:00:01", RXOctets: 5, TXDropped: 6}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}
