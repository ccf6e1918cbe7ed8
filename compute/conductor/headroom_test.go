package conductor

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// As many servers are created as the headroom counts, and one more fails; a disabled host counts nothing.
func TestHeadroom(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 3, "b": 2, "c": 4})
	c.start(t.Context(), c.store, c.client(nil))
	if err := c.store.DisableHost(t.Context(), "c", "new fans", time.Now()); err != nil {
		t.Fatal(err)
	}
	c.create("one")
	c.waitSettled()
	f := flavor.Flavor{Name: "f", VCPUs: 1, ExtraSpecs: map[string]string{"pci_passthrough:alias": "nic:1"}}
	count := func() (fits int, all []scheduler.HostHeadroom) {
		hosts, reason, err := c.conductor().Scheduler.Headroom(t.Context(), f, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hosts {
			fits += h.Fits
		}
		if (len(hosts) == 0) == (reason == "") {
			t.Errorf("%v, %q", hosts, reason)
		}
		return fits, hosts
	}
	before := c.allocations()
	fits, hosts := count()
	if fits != 4 || len(hosts) != 3 || c.allocations() != before {
		t.Errorf("%d, %+v", fits, hosts)
	}
	i := slices.IndexFunc(hosts, func(h scheduler.HostHeadroom) bool { return h.Name == "c" })
	if i < 0 || hosts[i].Fits != 0 || hosts[i].Excluded != "an operator has disabled it: new fans" {
		t.Errorf("%+v", hosts)
	}
	if !slices.ContainsFunc(hosts[0].Lacks, func(class resource.Class) bool { return class != "VCPU" }) ||
		!hosts[0].Exact {
		t.Errorf("%+v", hosts[0])
	}
	c.create("two", "three", "four", "five")
	c.waitSettled()
	for _, s := range c.servers() {
		if s.Host == "" {
			t.Errorf("%s has no host\n%s", s.Name, c.histories())
		}
	}
	if fits, hosts := count(); fits != 0 {
		t.Errorf("%d, %+v", fits, hosts)
	}
	port, err := portrequest.ParsePort("vnic_type=direct,physical_network=unknown,egress=1", 0)
	if err != nil {
		t.Fatal(err)
	}
	hosts, reason, err := c.conductor().Scheduler.Headroom(t.Context(), f, []portrequest.Port{port})
	if err != nil || len(hosts) != 0 || reason == "" {
		t.Errorf("%v %q %v", hosts, reason, err)
	}
	port.VNICType = "baremetal"
	_, _, err = c.conductor().Scheduler.Headroom(t.Context(), f, []portrequest.Port{port})
	if !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
}

// endingContext ends when the goroutine of its test has called Err often enough. Others call it at any time, such as
// those of database/sql after a query.
type endingContext struct {
	context.Context
	calls atomic.Int64
	last  int64 // the first call that returns an error
}

// Err implements context.Context.
func (c *endingContext) Err() error {
	stack := make([]byte, 1<<16)
	if !bytes.Contains(stack[:runtime.Stack(stack, false)], []byte(".TestHeadroomEnds(")) {
		return c.Context.Err()
	}
	if c.calls.Add(1) >= c.last {
		return context.Canceled
	}
	return c.Context.Err()
}

// A count whose caller does not wait any more returns an error, at whatever point that is.
func TestHeadroomEnds(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 3, "b": 2, "c": 4})
	c.start(t.Context(), c.store, c.client(nil))
	f := flavor.Flavor{Name: "f", VCPUs: 1, ExtraSpecs: map[string]string{"pci_passthrough:alias": "nic:1"}}
	whole := &endingContext{Context: t.Context(), last: 1 << 40}
	if hosts, _, err := c.conductor().Scheduler.Headroom(whole, f, nil); err != nil || len(hosts) != 3 {
		t.Fatalf("%+v %v", hosts, err)
	}
	all := whole.calls.Load()
	if all < 2 {
		t.Fatalf("the count looks %d times whether its caller waits", all)
	}
	for last := int64(1); last <= all; last++ {
		ctx := &endingContext{Context: t.Context(), last: last}
		hosts, _, err := c.conductor().Scheduler.Headroom(ctx, f, nil)
		if ended := ctx.calls.Load() >= last; ended != (err != nil) || ended && hosts != nil {
			t.Errorf("call %d of %d: %d hosts, %v", last, all, len(hosts), err)
		}
	}
}
