package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// stepTimeout is the time limit for one step; it is long because an emulated machine is slow.
const stepTimeout = 2 * time.Minute

const flavorName = "with-a-device"

func (t *tour) facts(devices, offered []pci.Device) error {
	t.title("The agent reads the host's PCI devices.")
	for _, d := range devices {
		note := "offered by device_spec"
		switch {
		case d.IsBridge():
			note = "a bridge, not offered"
		case d.Type == pci.Physical && d.NumVFs > 0:
			note = fmt.Sprintf("not offered itself: its %d VFs are", d.NumVFs)
		}
		node := "no NUMA node"
		if d.NUMANode != pci.NoNUMA {
			node = fmt.Sprintf("NUMA node %d", d.NUMANode)
		}
		t.say("%s  %s:%s  %-8s  %-12s  %s", d.Address, d.Vendor, d.Product, d.Type, node, note)
	}
	if len(offered) < 2 {
		return fail("the tour needs two devices that are not bridges; this machine has %d", len(offered))
	}
	return nil
}

// tree prints the provider tree and compares it with the devices.
func (t *tour) tree(offered []pci.Device) error {
	t.title("It reports them to Placement: one provider per device, the VFs counted on their PF (used/capacity, traits).")
	if err := t.until("the bandwidth of the bridge to be in Placement", t.bandwidthReported); err != nil {
		return err
	}
	want := map[string]int{}
	for _, d := range offered {
		want[d.Holder().ProviderName(t.Host)]++
	}
	tree, used, err := t.wholeTree()
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := tree.Print(&b, used); err != nil {
		return err
	}
	t.say("%s", b.String())
	for name, n := range want {
		p, ok := tree.ByName(name)
		if !ok || p.Inventories[Class].Total != n {
			return fail("provider %s should have %d of %s, but has %d", name, n, Class, p.Inventories[Class].Total)
		}
	}
	got := 0
	for _, p := range tree.Providers {
		if p.Inventories[Class].Total > 0 {
			got++
		}
	}
	if got != len(want) {
		return fail("the tree has %d device providers, but the host has %d", got, len(want))
	}
	return nil
}

func (t *tour) wholeTree() (provider.Tree, provider.Used, error) {
	root, err := t.Placement.ProviderByName(t.ctx, t.Host)
	if err != nil {
		return provider.Tree{}, nil, err
	}
	tree, err := t.Placement.Tree(t.ctx, root.ID)
	if err != nil {
		return provider.Tree{}, nil, err
	}
	used := provider.Used{}
	for _, p := range tree.Providers {
		if used[p.ID], err = t.Placement.Usages(t.ctx, p.ID); err != nil {
			return provider.Tree{}, nil, err
		}
	}
	return tree, used, nil
}

// first creates the flavor and one server, and prints the decisions about it.
func (t *tour) first() error {
	t.title("A flavor requests a device by alias; a server is created from it.")
	f, err := t.Compute.CreateFlavor(t.ctx, compute.CreateFlavor{Name: flavorName, VCPUs: 1, RAM: 64})
	if err != nil {
		return err
	}
	specs := map[string]string{"pci_passthrough:alias": Alias + ":1"}
	if err := t.Compute.SetExtraSpecs(t.ctx, f.ID, specs); err != nil {
		return err
	}
	t.say("flavor %s: 1 VCPU, 64 MiB, pci_passthrough:alias=%s:1", flavorName, Alias)
	made, err := t.Compute.CreateServer(t.ctx, compute.CreateServer{Name: "first", Flavor: f.ID})
	if err != nil {
		return err
	}
	done, err := t.settled(made.ID)
	if err != nil {
		return err
	}
	why, err := t.Compute.Why(t.ctx, made.ID)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := cli.PrintWhy(&b, why, cli.ProviderNames(t.ctx, t.Placement, nil), false); err != nil {
		return err
	}
	t.say("%s", b.String())
	if done.Status != "ACTIVE" {
		return fail("the first server should be ACTIVE, but is %s: %s", done.Status, faultText(done))
	}
	if len(why.Devices) != 1 {
		return fail("the first server should hold one device, but holds %d", len(why.Devices))
	}
	return nil
}

// settled waits until a server is no longer in BUILD.
func (t *tour) settled(id string) (s compute.Server, err error) {
	err = t.until("server "+id+" to be ACTIVE or ERROR", func() (bool, error) {
		s, err = t.Compute.Server(t.ctx, id)
		return err == nil && s.Status != "BUILD", err
	})
	return s, err
}

// until polls until the condition holds, an error occurs or stepTimeout has passed.
func (t *tour) until(what string, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(t.ctx, stepTimeout)
	defer cancel()
	for {
		ok, err := holds()
		if ok || err != nil {
			return err
		}
		if backoff.Sleep(ctx, 20*time.Millisecond) != nil {
			return fail("timeout after %s: waited for %s", stepTimeout, what)
		}
	}
}

func faultText(s compute.Server) string {
	if s.Fault == nil {
		return "no fault reported"
	}
	return s.Fault.Message
}

// race creates left+3 servers at once while left devices are free.
func (t *tour) race(left int) error {
	const over = 3
	t.title("A race: %d devices are free, %d servers are created at once.", left, left+over)
	f, err := t.Compute.Flavor(t.ctx, flavorName)
	if err != nil {
		return err
	}
	ids, err := t.createAtOnce(f.ID, left+over)
	if err != nil {
		return err
	}
	var active, failed []compute.Server
	for _, id := range ids {
		s, err := t.settled(id)
		if err != nil {
			return err
		}
		if s.Status == "ACTIVE" {
			active = append(active, s)
		} else {
			failed = append(failed, s)
		}
	}
	for _, s := range failed {
		t.say("%s %s: %s", s.Name, s.Status, faultText(s))
		if s.Fault == nil || len(strings.Fields(s.Fault.Message)) < 6 {
			return fail("%s failed without an explanation", s.Name)
		}
	}
	held, err := t.holders()
	if err != nil {
		return err
	}
	t.say("%d are ACTIVE, each with its own device; %d failed with an explanation.", len(active), len(failed))
	if len(active) != left || len(failed) != over {
		return fail("%d servers should be ACTIVE and %d in ERROR, but there are %d and %d", left, over, len(active),
			len(failed))
	}
	for _, s := range active {
		if len(held[s.ID]) != 1 {
			return fail("%s should hold one device, but holds %v", s.Name, held[s.ID])
		}
	}
	return nil
}

// createAtOnce creates n servers at the same moment, each with its own client.
func (t *tour) createAtOnce(flavorID string, n int) ([]string, error) {
	ids, errs := make([]string, n), make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			made, err := t.Compute.CreateServer(t.ctx, compute.CreateServer{Name: fmt.Sprintf("racer-%d", i+1),
				Flavor: flavorID})
			ids[i], errs[i] = made.ID, err
		})
	}
	close(start)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// holders returns the devices of each server as the host reports them. It waits until no device is claimed, because a
// guest runs a moment before the report shows it.
func (t *tour) holders() (map[string][]string, error) {
	var devices []host.Device
	err := t.until("the host to report no claimed device", func() (done bool, err error) {
		devices, err = t.Hosts.Devices(t.ctx)
		return err == nil && !slices.ContainsFunc(devices, func(d host.Device) bool { return d.State == "claimed" }), err
	})
	if err != nil {
		return nil, err
	}
	held := map[string][]string{}
	for _, d := range devices {
		if d.Holder != "" {
			held[d.Holder] = append(held[d.Holder], d.Address)
		}
	}
	return held, nil
}

// restart stops the agent and starts it again, and compares all holders before and after.
func (t *tour) restart() error {
	t.title("The agent is stopped and started again.")
	before, err := t.snapshot()
	if err != nil {
		return err
	}
	if err := t.StopAgent(); err != nil {
		return err
	}
	if err := t.StartAgent(); err != nil {
		return err
	}
	text, empty, err := t.Plan(t.ctx)
	if err != nil {
		return err
	}
	t.say("its plan: %s", strings.TrimSpace(text))
	if !empty {
		return fail("the plan of an unchanged host should be empty")
	}
	after, err := t.snapshot()
	if err != nil {
		return err
	}
	if before != after {
		return fail("the restart changed the holders: before\n%s\nafter\n%s", before, after)
	}
	t.say("Nothing was claimed twice or released: the devices have the same holders, and Placement the same usages.")
	return nil
}

// snapshot returns the holders of all devices and resources, according to the host and to Placement, as text.
func (t *tour) snapshot() (string, error) {
	devices, err := t.Hosts.Devices(t.ctx)
	if err != nil {
		return "", err
	}
	tree, used, err := t.wholeTree()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, d := range devices {
		fmt.Fprintf(&b, "%s %s %s\n", d.Address, d.State, d.Holder)
	}
	for _, p := range tree.Providers {
		held, err := t.Placement.ProviderAllocations(t.ctx, p.ID)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s used %s\n", p.Name, used[p.ID])
		for _, consumer := range sortedConsumers(held) {
			fmt.Fprintf(&b, "  %s\n", consumer)
		}
	}
	return b.String(), nil
}

// totals returns the used units of the tour's class and of all classes, over the whole tree.
func totals(used provider.Used) (devices, all int) {
	for _, amounts := range used {
		devices += amounts[Class]
		for _, n := range amounts {
			all += n
		}
	}
	return devices, all
}

func sortedConsumers[K ~string, V fmt.Stringer](held map[K]V) []string {
	lines := []string{}
	for consumer, amounts := range held {
		lines = append(lines, string(consumer)+" "+amounts.String())
	}
	slices.Sort(lines)
	return lines
}

// deleteServers deletes servers and waits until they are gone.
func (t *tour) deleteServers(list []compute.Server) error {
	for _, s := range list {
		if err := t.Compute.DeleteServer(t.ctx, s.ID); err != nil {
			return err
		}
	}
	for _, s := range list {
		err := t.until("server "+s.Name+" to be gone", func() (bool, error) {
			_, err := t.Compute.Server(t.ctx, s.ID)
			if fault.Is(err, fault.NotFound) {
				return true, nil
			}
			return false, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// end deletes all servers and checks that host and Placement report nothing as used.
func (t *tour) end() error {
	t.title("The servers are deleted.")
	list, err := t.Compute.Servers(t.ctx, compute.ListServers{AllProjects: true})
	if err != nil {
		return err
	}
	if err := t.deleteServers(list); err != nil {
		return err
	}
	var busy []host.Device
	err = t.until("every device to be free", func() (bool, error) {
		devices, err := t.Hosts.Devices(t.ctx)
		busy = slices.DeleteFunc(devices, func(d host.Device) bool { return d.Holder == "" && d.State == "available" })
		return len(busy) == 0, err
	})
	if err != nil {
		return fmt.Errorf("%w: %v", err, busy)
	}
	_, used, err := t.wholeTree()
	if err != nil {
		return err
	}
	devices, all := totals(used)
	t.say("%d servers are deleted, every device is free again, and the usages in Placement are %d.", len(list), all)
	if all != 0 {
		return fail("usages should be zero, but %d devices and %d units in total are in use", devices, all)
	}
	return nil
}
