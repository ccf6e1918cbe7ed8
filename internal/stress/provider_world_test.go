package stress

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const (
	hosts   = 12
	devices = 2 // of each host
	vf      = resource.Class("CUSTOM_VF")
)

// ofHost and ofDevice are the capacities of a host and of a device. A candidate uses two or three providers, so a
// partial claim would be detected.
var (
	ofHost   = resource.Amounts{"VCPU": 8, "MEMORY_MB": 8192}
	ofDevice = resource.Amounts{vf: 4}
)

// world is all providers with their inventories.
type world map[provider.ID]provider.Provider

// build creates the providers over HTTP.
func build(t *testing.T, api *placement.Client) world {
	t.Helper()
	ctx, w := t.Context(), world{}
	if err := api.EnsureClass(ctx, vf); err != nil {
		t.Fatal(err)
	}
	add := func(name string, parent provider.ID, offers resource.Amounts) provider.ID {
		p, err := api.CreateProvider(ctx, provider.ID(newID()), name, parent)
		if err != nil {
			t.Fatal(err)
		}
		p.Inventories = map[resource.Class]resource.Inventory{}
		for class, n := range offers {
			p.Inventories[class] = resource.Whole(n)
		}
		if _, err := api.PutInventories(ctx, p.ID, p.Generation, p.Inventories); err != nil {
			t.Fatal(err)
		}
		w[p.ID] = p
		return p.ID
	}
	for i := range hosts {
		host := add(fmt.Sprintf("host-%d", i), "", ofHost)
		for j := range devices {
			add(fmt.Sprintf("host-%d-device-%d", i, j), host, ofDevice)
		}
	}
	return w
}

// ask returns the query of a client: a guest with virtual functions from one device or from two.
func ask(size, pairs, limit int) resource.Ask {
	a := resource.Ask{Limit: limit, GroupPolicy: resource.PolicyIsolate, Groups: []resource.Group{
		{Resources: resource.Amounts{"VCPU": size, "MEMORY_MB": 512 * size}}}}
	for i := range pairs {
		a.Groups = append(a.Groups, resource.Group{Suffix: fmt.Sprint(i + 1), Resources: resource.Amounts{vf: 1}})
	}
	return a
}

// newID returns a random UUID of version 4.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// usage is the usage that the server returns.
type usage struct {
	used map[provider.ID]resource.Amounts            // from /usages
	held map[resource.ConsumerID]resource.Allocation // from the providers' /allocations
}

// read reads the usage of all providers.
func (w world) read(ctx context.Context, api *placement.Client) (p usage, err error) {
	p = usage{used: map[provider.ID]resource.Amounts{}, held: map[resource.ConsumerID]resource.Allocation{}}
	for id := range w {
		if p.used[id], err = api.Usages(ctx, id); err != nil {
			return p, err
		}
		shares, err := api.ProviderAllocations(ctx, id)
		if err != nil {
			return p, err
		}
		for consumer, amounts := range shares {
			if p.held[consumer] == nil {
				p.held[consumer] = resource.Allocation{}
			}
			p.held[consumer][id] = amounts
		}
	}
	return p, nil
}
