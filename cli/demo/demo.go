// Package demo is a guided tour of a small cloud: it uses the cloud over its APIs, from the first device to the last
// delete, prints what happens, and checks every printed sentence.
//
// It starts nothing itself: the caller passes the clients of a cloud and the functions that stop and start the agent.
// A step that fails ends the tour with a fault.
package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Class is the resource class of every device in the tour. Alias is the alias through which its flavor requests one.
const (
	Class resource.Class = "CUSTOM_PASSTHROUGH"
	Alias                = "any-device"
)

// Cloud is the cloud that the tour uses.
type Cloud struct {
	Placement  *placement.Client
	Compute    *compute.Client
	Hosts      host.Client
	Host       string // the name of the one host
	StopAgent  func() error
	StartAgent func() error
	// Plan returns what the agent would change in Placement now, as text, and whether that is nothing.
	Plan func(ctx context.Context) (text string, empty bool, err error)
}

// Config returns the configuration of the tour: it offers each device that is not a bridge, with one resource class and
// the vendor as a trait. Of a PF with VFs it offers the VFs, because a PF and its VFs cannot both be offered.
func Config(hostname string, devices []pci.Device) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[DEFAULT]\nhost = %s\n\n[api]\nauth_strategy = noauth2\n\n[pci]\nreport_in_placement = true\n",
		hostname)
	for _, d := range Offered(devices) {
		fmt.Fprintf(&b, "device_spec = %s\n", oneLine(map[string]string{
			"address": d.Address.String(), "product_id": d.Product, "resource_class": string(Class), "traits": vendorTrait(d)}))
	}
	fmt.Fprintf(&b, "alias = %s\n\n[filter_scheduler]\npci_in_placement = true\n", oneLine(map[string]string{
		"name": Alias, "resource_class": string(Class)}))
	return b.String()
}

func vendorTrait(d pci.Device) string { return "CUSTOM_VENDOR_" + strings.ToUpper(d.Vendor) }

// oneLine encodes a map of strings as JSON, which cannot fail.
func oneLine(m map[string]string) string {
	data, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// Offered returns the devices that the tour offers.
func Offered(devices []pci.Device) []pci.Device {
	return slices.DeleteFunc(slices.Clone(devices), func(d pci.Device) bool {
		return d.IsBridge() || d.Type == pci.Physical && d.NumVFs > 0
	})
}

// tour is one run of the tour.
type tour struct {
	Cloud
	ctx  context.Context
	out  io.Writer
	step int
}

// Run runs the tour and prints it to out. devices are the devices of the host.
func Run(ctx context.Context, out io.Writer, c Cloud, devices []pci.Device) error {
	t := &tour{Cloud: c, ctx: ctx, out: out}
	offered := Offered(devices)
	if err := t.facts(devices, offered); err != nil {
		return err
	}
	if err := t.tree(offered); err != nil {
		return err
	}
	if err := t.first(); err != nil {
		return err
	}
	if err := t.race(len(offered) - 1); err != nil {
		return err
	}
	if err := t.restart(); err != nil {
		return err
	}
	return t.end()
}

func (t *tour) title(format string, args ...any) {
	t.step++
	fmt.Fprintf(t.out, "\n%d. %s\n\n", t.step, fmt.Sprintf(format, args...))
}

func (t *tour) say(format string, args ...any) {
	for line := range strings.SplitSeq(strings.TrimRight(fmt.Sprintf(format, args...), "\n"), "\n") {
		fmt.Fprintf(t.out, "   %s\n", line)
	}
}

// fail returns the fault of a step whose result is not as described.
func fail(format string, args ...any) error {
	return fault.New(fault.Internal, "demo", format, args...)
}

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
	if got := len(tree.Providers) - 1; got != len(want) {
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
