package candidatetest

import (
	"fmt"
	"math/rand/v2"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Packed returns a fleet of one to four hosts with NICs, and an ask of up to 32 groups with different amounts whose sum
// is near what the NICs of a host have. Such asks are bin packing, and the hardest of a plain user: ports with
// guaranteed bandwidth, of one or two networks, in one or two directions.
func Packed(rng *rand.Rand) (*index.Snapshot, resource.Ask) { return PackedOn(rng, 1+rng.IntN(4)) }

// PackedOn is Packed with a number of hosts.
func PackedOn(rng *rand.Rand, hosts int) (*index.Snapshot, resource.Ask) {
	nics := 2 + rng.IntN(7)
	networks, directions := 1+rng.IntN(2), 1+rng.IntN(2)
	unit := []int{1, 1, 10, 100, 1000}[rng.IntN(5)]
	classes := []resource.Class{"NET_BW_EGR_KILOBIT_PER_SEC", "NET_BW_IGR_KILOBIT_PER_SEC"}[:directions]
	physnet := func(n int) resource.Trait { return resource.Trait(fmt.Sprint("CUSTOM_PHYSNET_", n)) }
	totals := map[resource.Trait]int{}
	equal := rng.IntN(2) == 0
	var rows []index.Row
	for h := range hosts {
		host := provider.ID(fmt.Sprint("host", h))
		rows = append(rows, index.Row{Provider: provider.Provider{ID: host, Name: string(host), Root: host,
			Inventories: map[resource.Class]resource.Inventory{"VCPU": resource.Whole(8)}}})
		for n := range nics {
			total := 10000
			if !equal {
				total = 2000 + rng.IntN(8000)
			}
			id, net := provider.ID(fmt.Sprintf("host%d_nic%d", h, n)), physnet(n%networks)
			r := index.Row{Provider: provider.Provider{ID: id, Name: string(id), Parent: host, Root: host,
				Traits: []resource.Trait{net}, Inventories: map[resource.Class]resource.Inventory{}}}
			for _, class := range classes {
				r.Inventories[class] = resource.Whole(total)
			}
			rows = append(rows, r)
			if h == 0 {
				totals[net] += total
			}
		}
	}
	ask := resource.Ask{GroupPolicy: resource.PolicyNone,
		Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 1}}}}
	groups := 6 + rng.IntN(26)
	for n := range networks {
		many := (groups + n) / networks
		sums := make([][]int, directions)
		for d := range directions {
			fill := float64(totals[physnet(n)]) * (0.9 + 0.105*rng.Float64())
			sums[d] = split(rng, int(fill), many, unit)
		}
		for i := range many {
			g := resource.Group{Suffix: fmt.Sprintf("_%d_%d", n, i), Resources: resource.Amounts{},
				Required: [][]resource.Trait{{physnet(n)}}}
			for d, class := range classes {
				g.Resources[class] = sums[d][i]
			}
			ask.Groups = append(ask.Groups, g)
		}
	}
	return index.Build(rows), ask
}

// split returns n multiples of unit, of different sizes, with this sum, or a little more or less.
func split(rng *rand.Rand, sum, n, unit int) []int {
	weights, all := make([]float64, n), 0.0
	for i := range weights {
		weights[i] = 0.3 + rng.Float64()
		all += weights[i]
	}
	out := make([]int, n)
	for i := range out {
		out[i] = max(int(float64(sum)*weights[i]/all)/unit*unit, unit)
	}
	return out
}

// Long returns a host and an ask without candidates. A search takes tens of thousands of steps to decide that.
func Long() (*index.Snapshot, resource.Ask) { return Packed(rand.New(rand.NewPCG(1872, 0))) }
