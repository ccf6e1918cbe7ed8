package loop

import (
	"context"
	"sync/atomic"
	"testing/fstest"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const (
	gpuAddress = "0000:17:00.0"
	gpuClass   = "CUSTOM_GPU"
	gpuName    = "cmp1_0000:17:00.0"
	gpuRule    = `{"vendor_id":"8086","product_id":"20b0","resource_class":"gpu","one_time_use":true}`
)

// cleaner replaces the operator's program that cleans devices.
type cleaner struct {
	runs atomic.Int32
	fail atomic.Bool
}

func (c *cleaner) Run(_ context.Context, at device.ID) error {
	c.runs.Add(1)
	if c.fail.Load() {
		return fault.New(fault.Internal, "cannot wipe %s", at)
	}
	return nil
}

// addOneTimeDevice adds a plain device for one-time use to the host.
func (w *testHost) addOneTimeDevice() *cleaner {
	w.sysfs.add(gpuAddress, "20b0", "")
	w.sysfs.change(func(t fstest.MapFS) { delete(t, "bus/pci/devices/"+gpuAddress+"/sriov_totalvfs") })
	setRules(w, gpuRule)
	c := &cleaner{}
	w.options.Clean = c
	return c
}

// gpuServer returns the assignment of a server with that device, and writes its allocation.
func (w *testHost) gpuServer(id string) host.Server {
	s := w.server(id)
	p := w.provider(gpuName)
	s.Requests = []host.Request{{ID: "r-" + id, Alias: "gpu", Count: 1, Class: gpuClass,
		Providers: []string{string(p.ID)}}}
	w.placement.set(resource.ConsumerID(id), p.ID, resource.Amounts{gpuClass: 1})
	return s
}

// deleteAllocations deletes a server's allocation, as compute does when the server is reported gone.
func (w *testHost) deleteAllocations(id string) {
	w.placement.remove(resource.ConsumerID(id))
}

func (w *testHost) reserved() int { return w.provider(gpuName).Inventories[gpuClass].Reserved }

// reserve sets the reserved amount, as an operator does.
func (w *testHost) reserve(n int) {
	w.changeInventory(func(inv *resource.Inventory) { inv.Reserved = n })
}

// changeInventory changes the inventory, as an operator does.
func (w *testHost) changeInventory(change func(*resource.Inventory)) {
	w.placement.change(gpuName, func(p *provider.Provider) {
		inv := p.Inventories[gpuClass]
		change(&inv)
		p.Inventories = map[resource.Class]resource.Inventory{gpuClass: inv}
	})
}

func (w *testHost) spent() bool {
	w.compute.mu.Lock()
	defer w.compute.mu.Unlock()
	for _, d := range w.compute.report.Devices {
		if d.Address == gpuAddress {
			return d.Spent
		}
	}
	return false
}
