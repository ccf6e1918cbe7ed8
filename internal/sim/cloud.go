package sim

import (
	"math/rand/v2"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/provider"
)

// cloud is the models of a simulated cloud.
type cloud struct {
	*kernel
	*hostModel
	*exemptions
	placement  *placementModel
	network    *networkModel
	images     *imageModel
	compute    *computeModel
	hypervisor *hypervisorModel
	agents     *agentModel
}

// newCloud returns the models of a cloud without hosts.
func newCloud(o Options) *cloud {
	k := &kernel{options: o, broken: o.Broken, rng: rand.New(rand.NewPCG(o.Seed, 0)), ownerOf: map[string]string{},
		report: Report{Done: map[string]int{}, Happened: map[string]int{}}}
	hm := &hostModel{kernel: k, byName: map[string]*simHost{}, byRoot: map[provider.ID]*simHost{},
		byTag: map[string]*simHost{}}
	x := newExemptions()
	pm := newPlacement(k, hm, x)
	nm := &networkModel{kernel: k, hostModel: hm, exemptions: x, placement: pm, ports: map[string]network.Port{},
		inactive: map[string]map[string]network.PortBinding{}}
	im := &imageModel{hostModel: hm, all: map[string]simImage{}, lost: map[string]bool{}}
	cm := &computeModel{kernel: k, hostModel: hm, exemptions: x, placement: pm, network: nm, images: im,
		histories: histories{[]history{{}}, 1}, states: map[string]*hostState{}, served: map[string]*simHost{},
		process: &process{kernel: k, ended: true}, plans: planMemories{}}
	hv := &hypervisorModel{kernel: k, hostModel: hm, exemptions: x, placement: pm, images: im, compute: cm}
	am := &agentModel{kernel: k, hostModel: hm, exemptions: x, placement: pm, images: im, compute: cm, hypervisor: hv}
	return &cloud{k, hm, x, pm, nm, im, cm, hv, am}
}
