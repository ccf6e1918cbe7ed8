package headroom

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/placement/headroom"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const gpu = resource.Class("CUSTOM_GPU")

// fleetOf is a snapshot in the making.
type fleetOf struct{ fleet.Snapshot }

// add adds a provider of which these amounts are used.
func (f *fleetOf) add(name, parent string, has, used resource.Amounts, traits ...resource.Trait) *fleet.Provider {
	p := fleet.Provider{Provider: provider.Provider{ID: provider.ID(name), Name: name, Parent: provider.ID(parent),
		Root: provider.ID(parent), Inventories: map[resource.Class]resource.Inventory{}, Traits: traits}}
	if parent == "" {
		p.Root = p.ID
	}
	for class, n := range has {
		p.Inventories[class] = resource.Whole(n)
	}
	if len(used) > 0 {
		p.Held = map[resource.ConsumerID]resource.Amounts{"someone": used}
	}
	f.Providers = append(f.Providers, p)
	return &f.Providers[len(f.Providers)-1]
}

// host adds the root provider of a host whose service is up.
func (f *fleetOf) host(name string, has, used resource.Amounts) {
	f.add(name, "", has, used)
	f.Hypervisors = append(f.Hypervisors, fleet.Hypervisor{ID: provider.ID(name), Name: name, Host: name})
	f.Services = append(f.Services, fleet.Service{Host: name, State: "up", Status: "enabled"})
}

func (f *fleetOf) count(ask resource.Ask) Result {
	return Count(fleet.NewView(&f.Snapshot), ask, never)
}

// never does not end a count.
func never() bool { return false }

// server is the request of a server with CPUs and devices of a class.
func server(cpus, devices int, class resource.Class, policy resource.Policy) resource.Ask {
	ask := resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": cpus}}}, GroupPolicy: policy}
	for i := range devices {
		ask.Groups = append(ask.Groups, resource.Group{Suffix: fmt.Sprint(i), Resources: resource.Amounts{class: 1}})
	}
	return ask
}

// lacking returns a host on which GPUs run out first.
func lacking(name string, fits int) Host {
	return Host{Root: provider.ID(name), Name: name, Fits: fits, Lacks: []resource.Class{gpu}}
}

// Room, what runs out first, hosts that are full, and hosts without the class.
func TestCount(t *testing.T) {
	f := &fleetOf{}
	f.host("a", resource.Amounts{"VCPU": 8}, resource.Amounts{"VCPU": 2})
	f.host("b", resource.Amounts{"VCPU": 4}, resource.Amounts{"VCPU": 1})
	f.host("full", resource.Amounts{"VCPU": 64}, nil)
	f.host("plain", resource.Amounts{"VCPU": 64}, nil)
	f.host("apart", resource.Amounts{"VCPU": 64}, nil)
	for i := range 5 {
		f.add(fmt.Sprint("a_", i), "a", resource.Amounts{gpu: 1}, nil)
		f.add(fmt.Sprint("b_", i), "b", resource.Amounts{gpu: 1}, resource.Amounts{gpu: min(i, 1)})
		f.add(fmt.Sprint("full_", i), "full", resource.Amounts{gpu: 1}, resource.Amounts{gpu: 1})
	}
	got := f.count(server(1, 1, gpu, resource.PolicyNone))
	want := Result{Result: headroom.Result{Fits: 6, Exact: true, Hosts: []Host{lacking("a", 5),
		lacking("b", 1), lacking("full", 0)}, RunsOut: []RunsOut{{Class: gpu, Hosts: 3}}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	got = f.count(server(3, 1, gpu, resource.PolicyNone))
	if got.Fits != 3 || !reflect.DeepEqual(got.RunsOut, []RunsOut{{Class: gpu, Hosts: 2}, {Class: "VCPU", Hosts: 2}}) {
		t.Errorf("%+v", got)
	}
	got = f.count(server(1, 6, gpu, resource.PolicyNone))
	if got.Fits != 0 || len(got.Hosts) != 0 || !strings.Contains(got.Reason, string(gpu)) {
		t.Errorf("%+v", got)
	}
	if got = f.count(server(1, 1, "CUSTOM_FPGA", "")); got.Fits != 0 || !strings.Contains(got.Reason, "CUSTOM_FPGA") {
		t.Errorf("%+v", got)
	}
}

// A request that takes too long to decide on some hosts ends with a lower bound.
func TestSearchIsLimited(t *testing.T) {
	f := &fleetOf{}
	f.host("easy", resource.Amounts{"VCPU": 1000}, nil)
	ask, rng, all := server(1, 0, "", resource.PolicyNone), rand.New(rand.NewPCG(5, 5)), 0
	for i := range 40 {
		n := 1000 + rng.IntN(9000)
		all += n
		ask.Groups = append(ask.Groups, resource.Group{Suffix: fmt.Sprint(i), Resources: resource.Amounts{gpu: n}})
	}
	f.add("easy_gpu", "easy", resource.Amounts{gpu: all}, nil)
	for h := range 4 {
		name := fmt.Sprint("h", h)
		f.host(name, resource.Amounts{"VCPU": 1000 + h}, nil)
		for n := range 10 { // together they have the sum, and one more
			f.add(fmt.Sprint(name, "_", n), name, resource.Amounts{gpu: all/10 + n/9*(all%10+1)}, nil)
		}
	}
	got := f.count(ask)
	if got.Exact || got.Fits != 1 || got.Hosts[0].Name != "easy" {
		t.Errorf("%d fit, exact %v", got.Fits, got.Exact)
	}
}

// Why names what hosts in service lack.
func TestWhy(t *testing.T) {
	f := &fleetOf{}
	f.host("a", resource.Amounts{"VCPU": 8}, resource.Amounts{"VCPU": 2})
	f.host("b", resource.Amounts{"VCPU": 64}, nil)
	f.Services[1].State = "down"
	v := fleet.NewView(&f.Snapshot)
	if got := Why(v, server(6, 0, "", "")); got.Reason != "" {
		t.Errorf("%+v", got)
	}
	got := Why(v, server(7, 0, "", ""))
	if got.Reason == "" || !slices.Equal(got.Nearest, []string{"a: VCPU: asks 7, 6 of 8 free"}) || len(got.Minimal) != 1 {
		t.Errorf("%+v", got)
	}
	f.Services[0].Status = "disabled"
	if got := Why(v, server(1, 0, "", "")); got.Reason != "no host is in service" {
		t.Errorf("%+v", got)
	}
}

// Hosts that compute would choose for no server are not counted.
func TestExcludedHosts(t *testing.T) {
	f := &fleetOf{}
	for _, name := range []string{"up", "disabled", "forced", "down", "trait", "gone", "lost"} {
		f.host(name, resource.Amounts{"VCPU": 2}, nil)
	}
	f.Services[1].Status, f.Services[1].Reason = "disabled", "repair"
	f.Services[2].State, f.Services[2].ForcedDown = "down", true
	f.Services[3].State = "down"
	f.Providers[4].Traits = []resource.Trait{"COMPUTE_STATUS_DISABLED"}
	f.Services[5].Host = "other"
	f.Hypervisors[6] = fleet.Hypervisor{ID: "new", Name: "new", Host: "lost"} // a hypervisor without a provider
	want := map[string]string{"disabled": "disabled: repair", "down": "down", "forced": "down, forced",
		"gone": "no service", "lost": "no service", "trait": "it has the trait COMPUTE_STATUS_DISABLED"}
	got := f.count(server(1, 0, "", ""))
	if got.Fits != 2 || len(got.Excluded) != len(want) || !slices.IsSortedFunc(got.Excluded,
		func(a, b fleet.OutOfService) int { return strings.Compare(a.Host, b.Host) }) {
		t.Errorf("%+v", got)
	}
	for _, e := range got.Excluded {
		if e.Why != want[e.Host] {
			t.Errorf("%s: %q, want %q", e.Host, e.Why, want[e.Host])
		}
	}
	f.Gaps = []fleet.Gap{{Part: fleet.Services, Why: "forbidden"}}
	if got := f.count(server(1, 0, "", "")); got.Fits != 12 || len(got.Excluded) != 1 {
		t.Errorf("without services: %+v", got)
	}
	f.Gaps = nil
	f.Services[0].State = "down"
	if got := f.count(server(1, 0, "", "")); got.Fits != 0 || got.Reason != "no host is in service" {
		t.Errorf("%+v", got)
	}
}

// Hosts compete for storage that they share, and the storage itself is not a host.
func TestSharedStorage(t *testing.T) {
	f := &fleetOf{}
	for _, name := range []string{"a", "b"} {
		f.host(name, resource.Amounts{"VCPU": 8}, nil)
	}
	f.add("nfs", "", resource.Amounts{"DISK_GB": 55}, nil, index.Sharing)
	for i := range f.Providers {
		f.Providers[i].Aggregates = []resource.AggregateID{"pool"}
	}
	got := f.count(resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 1, "DISK_GB": 10}}}})
	if got.Fits != 5 || !got.Shared || !got.Exact || len(got.Hosts) != 2 ||
		got.RunsOut[0] != (RunsOut{Class: "DISK_GB", Hosts: 2}) {
		t.Errorf("%+v", got)
	}
	if got = f.count(resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"DISK_GB": 10}}}}); got.Fits != 5 {
		t.Errorf("%+v", got)
	}
	got = f.count(server(3, 0, "", ""))
	if got.Fits != 4 || got.Shared {
		t.Errorf("%+v", got)
	}
}

// large returns a fleet in which each host has its own use, with eight devices a host.
func large(hosts int) *fleetOf {
	f := &fleetOf{}
	for i := range hosts {
		name := fmt.Sprintf("cmp%05d", i)
		f.host(name, resource.Amounts{"VCPU": 128, "MEMORY_MB": 1 << 20, "DISK_GB": 4000},
			resource.Amounts{"VCPU": 1 + i%120, "MEMORY_MB": 1024 * (1 + i%1000), "DISK_GB": i % 3999})
		for d := range 8 {
			used := resource.Amounts(nil)
			if (i+d)%3 == 0 {
				used = resource.Amounts{gpu: 1}
			}
			f.add(fmt.Sprintf("%s_0000:8%d:00.0", name, d), name, resource.Amounts{gpu: 1}, used)
		}
	}
	return f
}

// BenchmarkCount counts on 10,000 hosts: for a server without and with devices of 80,000, and with a port on a VF and
// bandwidth of one of two NICs.
func BenchmarkCount(b *testing.B) {
	const vf, bandwidth = "SRIOV_NET_VF", "NET_BW_EGR_KILOBIT_PER_SEC"
	devices, nics := large(10_000), &fleetOf{}
	for i := range 10_000 {
		name := fmt.Sprintf("cmp%05d", i)
		nics.host(name, resource.Amounts{"VCPU": 128, "MEMORY_MB": 1 << 20, "DISK_GB": 4000},
			resource.Amounts{"VCPU": 1 + i%60, "MEMORY_MB": 1024 * (1 + i%900), "DISK_GB": i % 3000})
		for n := range 2 {
			nics.add(fmt.Sprintf("%s:NIC Switch agent:p%d", name, n), name,
				resource.Amounts{vf: 8, bandwidth: 10_000_000}, resource.Amounts{vf: 1 + i%7, bandwidth: 1000 * (1 + i%900)})
		}
	}
	port := server(4, 0, "", "")
	port.Groups = append(port.Groups, resource.Group{Suffix: "p",
		Resources: resource.Amounts{vf: 1, bandwidth: 1_000_000}})
	for _, c := range []struct {
		name string
		of   *fleetOf
		ask  resource.Ask
	}{{"plain", devices, server(4, 0, "", "")}, {"2-devices", devices, server(4, 2, gpu, resource.PolicyNone)},
		{"4-devices", devices, server(4, 4, gpu, resource.PolicyNone)}, {"port", nics, port}} {
		v := fleet.NewView(&c.of.Snapshot)
		c.ask.Groups[0].Resources = resource.Amounts{"VCPU": 4, "MEMORY_MB": 8192, "DISK_GB": 40}
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if r := Count(v, c.ask, never); r.Fits == 0 || !r.Exact {
					b.Fatalf("%d of %d hosts, exact %v", r.Fits, len(r.Hosts), r.Exact)
				}
			}
		})
	}
}

// TestCountEnds checks that a count ends soon after it is stopped, at whatever point that is.
func TestCountEnds(t *testing.T) {
	for name, ask := range map[string]resource.Ask{"room": server(4, 4, gpu, resource.PolicyNone),
		"full": server(4, 8, gpu, resource.PolicyNone)} {
		v := fleet.NewView(&large(200).Snapshot)
		calls := 0
		if r := Count(v, ask, func() bool { calls++; return false }); calls < 50 || len(r.Hosts) == 0 {
			t.Fatalf("%s: %d calls, %d hosts", name, calls, len(r.Hosts))
		}
		all := calls
		for _, last := range []int{1, 2, all / 3, all / 2, all - 1} {
			calls = 0
			Count(v, ask, func() bool { calls++; return calls >= last })
			if calls > last+5 {
				t.Errorf("%s: %d calls after the one that stops the count", name, calls-last)
			}
		}
	}
}
