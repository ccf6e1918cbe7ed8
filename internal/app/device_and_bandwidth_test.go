package app

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// nicHost is a host with two PFs, ens0 and ens1, in a real Placement, with the tree that the agent reports.
type nicHost struct {
	t      *testing.T
	client *placement.Client
	actual provider.Tree
	ports  int
}

// nic is one PF of a nicHost.
type nic struct {
	vfs     int // 0: the PF is for ports as a whole
	kbit    int // guaranteed bandwidth; 0: none is configured
	network string
}

func newNICHost(t *testing.T, nics ...nic) *nicHost {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	url := "sqlite:///" + filepath.Join(t.TempDir(), "placement.db")
	file := filepath.Join(t.TempDir(), "berth.conf")
	if err := os.WriteFile(file, []byte("[api]\nauth_strategy = noauth2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := settings.Read(log, file)
	config.Times = settings.TestTimes()
	config.RequestTime = testenv.Patience
	if err != nil {
		t.Fatal(err)
	}
	service, err := OpenPlacement(t.Context(), url, config, settings.NoAuth2, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Close() })
	h := &nicHost{t: t, client: placement.NewClient("http://placement", rest.InMemory(service.Handler), "admin")}
	f := survey.Facts{Host: "cmp1", Root: "6ba7b810-9dad-11d1-80b4-00c04fd430c8", Report: true, ReportNetwork: true,
		VCPU: survey.RootInventory{Total: 64, Ratio: 1}}
	agent := bandwidth.Agent{Type: bandwidth.NICSwitch, DefaultHypervisor: "cmp1",
		VNICTypes: []string{"direct", "macvtap", "direct-physical"}, Bandwidths: map[string]bandwidth.Rates{}}
	for i, n := range nics {
		pf, name := pci.Address{Bus: uint8(i + 1)}, fmt.Sprintf("ens%d", i)
		f.Devices = append(f.Devices, pci.Device{Address: pf, Type: pci.Physical, Vendor: "8086", Product: "1528"})
		f.NICs = append(f.NICs, facts.NIC{Name: name, Address: &pf})
		for v := range n.vfs {
			f.Devices = append(f.Devices, pci.Device{Address: pci.Address{Bus: pf.Bus, Slot: 1, Func: uint8(v)},
				Type: pci.Virtual, Parent: &pf, Vendor: "8086", Product: "1515"})
		}
		rules, err := pci.ParseSpecs(fmt.Sprintf(`{"address":%q,"physical_network":%q}`, pf.String(), n.network))
		if err != nil {
			t.Fatal(err)
		}
		f.Rules = append(f.Rules, rules...)
		agent.Mappings = append(agent.Mappings, bandwidth.Mapping{Physnet: n.network, Device: name})
		if rate := (bandwidth.Rate{Amount: n.kbit, Set: true}); n.kbit > 0 {
			agent.Bandwidths[name] = bandwidth.Rates{Egress: rate, Ingress: rate}
		}
	}
	h.write(provider.Provider{ID: f.Root, Name: f.Host})
	for _, d := range survey.Bandwidth(survey.BandwidthFacts{Agents: []bandwidth.Agent{agent},
		Roots: map[string]provider.ID{f.Host: f.Root}}) {
		h.write(d.Provider)
	}
	f.Actual = h.actual
	tree, _, err := survey.Desired(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range tree.Providers {
		h.write(p)
	}
	return h
}

// write creates or changes a provider as a plan of the agent does.
func (h *nicHost) write(p provider.Provider) {
	h.t.Helper()
	ctx, generation := h.t.Context(), 0
	check := func(err error) {
		if err != nil {
			h.t.Fatal(err)
		}
	}
	if _, exists := h.actual.ByID(p.ID); !exists {
		_, err := h.client.CreateProvider(ctx, p.ID, p.Name, p.Parent)
		check(err)
		h.actual.Providers = append(h.actual.Providers, p)
	}
	for class := range p.Inventories {
		if resource.IsCustom(string(class)) {
			check(h.client.EnsureClass(ctx, class))
		}
	}
	for _, trait := range p.Traits {
		if resource.IsCustom(string(trait)) {
			check(h.client.EnsureTrait(ctx, trait))
		}
	}
	if len(p.Inventories) > 0 {
		next, err := h.client.PutInventories(ctx, p.ID, generation, p.Inventories)
		check(err)
		generation = next
	}
	if len(p.Traits) > 0 {
		_, err := h.client.PutTraits(ctx, p.ID, generation, p.Traits)
		check(err)
	}
}

// port returns a port of the physical networks with a guarantee in kbit/s; 0: none.
func (h *nicHost) port(vnic string, kbit int, networks ...string) portrequest.Port {
	h.ports++
	p := portrequest.Port{ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", h.ports), VNICType: vnic,
		PhysicalNetworks: networks}
	if kbit > 0 {
		var oneOf []resource.Trait
		for _, n := range networks {
			oneOf = append(oneOf, bandwidth.PhysnetTrait(n))
		}
		p.Groups = []portrequest.Group{{ID: "g-" + p.ID, Required: [][]resource.Trait{oneOf,
			{bandwidth.VNICTrait(vnic)}}, Resources: resource.Amounts{bandwidth.EgressBandwidth: kbit}}}
	}
	return p
}

// candidates returns the candidates of a server with ports.
func (h *nicHost) candidates(ports ...portrequest.Port) ([]placement.Candidate, portrequest.Request) {
	h.t.Helper()
	request, err := portrequest.Make(ports, portrequest.Options{DevicesInPlacement: true})
	if err != nil {
		h.t.Fatal(err)
	}
	ask, err := portrequest.Add(resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 1}}},
		Limit: 1000}, request)
	if err != nil {
		h.t.Fatal(err)
	}
	found, err := h.client.Candidates(h.t.Context(), ask)
	if err != nil {
		h.t.Fatal(err)
	}
	h.checkOneNIC(found.List, request)
	return found.List, request
}

// checkOneNIC checks that the groups of each port are on one NIC in all candidates.
func (h *nicHost) checkOneNIC(list []placement.Candidate, request portrequest.Request) {
	h.t.Helper()
	for _, c := range list {
		for _, together := range request.SameSubtrees {
			var nics []provider.ID
			for _, suffix := range together {
				p, _ := h.actual.ByID(c.Mappings[suffix][0])
				if n, is := bandwidth.Recognise(p); !is || n.Device == "" {
					p, _ = h.actual.ByID(p.Parent)
				}
				nics = append(nics, p.ID)
			}
			if slices.Sort(nics); len(slices.Compact(nics)) != 1 {
				h.t.Errorf("%v of %v are not on one NIC", together, c.Mappings)
			}
		}
	}
}

// place claims the first candidate of a server with ports. It returns false if there is none.
func (h *nicHost) place(ports ...portrequest.Port) bool {
	h.t.Helper()
	list, _ := h.candidates(ports...)
	if len(list) == 0 {
		return false
	}
	h.ports++
	consumer := resource.ConsumerID(fmt.Sprintf("11111111-0000-4000-8000-%012d", h.ports))
	err := h.client.PutAllocation(h.t.Context(), consumer, placement.ConsumerAllocation{Allocation: list[0].Allocation,
		Mappings: list[0].Mappings, Project: "p", User: "u", ConsumerType: "INSTANCE"})
	if err != nil {
		h.t.Fatal(err)
	}
	return true
}

// fits claims servers of one port until there is no candidate, and returns their number.
func (h *nicHost) fits(vnic string, kbit int, network string) (n int) {
	for n < 100 && h.place(h.port(vnic, kbit, network)) {
		n++
	}
	return n
}

// Placement returns only candidates where the device and the bandwidth of a port are of one NIC.
func TestDeviceAndBandwidthFromOneNIC(t *testing.T) {
	t.Parallel()
	count := func(h *nicHost, ports ...portrequest.Port) int {
		list, _ := h.candidates(ports...)
		return len(list)
	}
	for name, check := range map[string]func(t *testing.T) (got, want []int){
		"one port on either NIC, two on the same or on different ones": func(t *testing.T) ([]int, []int) {
			h := newNICHost(t, nic{4, 1000, "a"}, nic{4, 1000, "a"})
			two := []portrequest.Port{h.port("direct", 400, "a"), h.port("direct", 400, "a")}
			large := []portrequest.Port{h.port("direct", 600, "a"), h.port("direct", 600, "a")}
			return []int{count(h, two[0]), count(h, two...), count(h, large...)}, []int{2, 4, 2}
		},
		"VFs run out before bandwidth": func(t *testing.T) ([]int, []int) {
			h := newNICHost(t, nic{2, 1000, "a"})
			n := h.fits("direct", 100, "a")
			return []int{n, h.fits("direct", 0, "a")}, []int{2, 0}
		},
		"bandwidth runs out before VFs": func(t *testing.T) ([]int, []int) {
			h := newNICHost(t, nic{4, 1000, "a"})
			n := h.fits("direct", 400, "a")
			return []int{n, h.fits("direct", 0, "a")}, []int{2, 2}
		},
		"VFs on one NIC, bandwidth on the other": func(t *testing.T) ([]int, []int) {
			h := newNICHost(t, nic{1, 100, "a"}, nic{1, 1000, "a"})
			if !h.place(h.port("direct", 1000, "a")) || !h.place(h.port("direct", 0, "a")) {
				t.Error("they fit")
			}
			return []int{count(h, h.port("direct", 50, "a")), count(h, h.port("macvtap", 0, "a"))}, []int{0, 0}
		},
		"a NIC without configured bandwidth serves ports without a guarantee": func(t *testing.T) ([]int, []int) {
			h := newNICHost(t, nic{4, 0, "a"})
			return []int{count(h, h.port("direct", 0, "a")), count(h, h.port("direct", 1, "a"))}, []int{1, 0}
		},
		"networks": func(t *testing.T) ([]int, []int) {
			h := newNICHost(t, nic{4, 1000, "a"}, nic{4, 1000, "b"})
			if err := h.client.EnsureTrait(t.Context(), bandwidth.PhysnetTrait("c")); err != nil { // as another host does
				t.Fatal(err)
			}
			return []int{count(h, h.port("direct", 1, "a")), count(h, h.port("direct", 1, "a", "b")),
					count(h, h.port("direct", 0, "c", "b")), count(h, h.port("direct", 1, "a"), h.port("direct", 1, "b"))},
				[]int{1, 2, 1, 1}
		},
		"direct-physical": func(t *testing.T) ([]int, []int) {
			h := newNICHost(t, nic{0, 1000, "a"}, nic{2, 1000, "b"})
			n := []int{count(h, h.port("direct-physical", 100, "b")), h.fits("direct-physical", 100, "a")}
			return append(n, count(h, h.port("direct", 100, "a")), count(h, h.port("direct", 100, "b"))), []int{0, 1, 0, 1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got, want := check(t); !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}
