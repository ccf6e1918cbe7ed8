package schedule_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// TestDeviceFilter checks which requests the devices of a host can fulfil, without NUMA.
func TestDeviceFilter(t *testing.T) {
	three := slices.Concat(card(1, "pf1", 0, true, 4), card(2, "pf2", 0, true, 4), card(3, "pf3", 0, true, 0))
	vfs := slices.Concat(card(1, "pf1", 0, false, 2), card(2, "pf2", 0, false, 2))
	plain := []pci.Offered{testDevice(8, pci.Plain, "1533", "p8", 0), testDevice(9, pci.Plain, "1533", "p9", 0)}
	change := func(list []pci.Offered, n int, how func(*pci.Offered)) []pci.Offered {
		list = slices.Clone(list)
		how(&list[n])
		return list
	}
	class := pci.Request{Alias: "c", Count: 1, Requirement: pci.Requirement{Class: "CUSTOM_X"}}
	remote := func(d *pci.Offered) { d.RemoteManaged = true }
	physnet := func(d *pci.Offered) { d.ForPorts = true }
	vf, pf, one := requestFor(1, pci.Virtual, "1515"), requestFor(1, pci.Physical, "1528"), requestFor(1, "", "1533")
	for _, c := range []struct {
		name     string
		devices  []pci.Offered
		ask      question
		wantText string
	}{
		{"no device requested", plain, question{}, ""},
		{"a host without devices", nil, question{requests: []pci.Request{one}}, "no free device 8086:1533 on the host"},
		{"another product", plain, question{requests: []pci.Request{requestFor(1, "", "1534")}},
			"no free device 8086:1534 on the host"},
		{"two requests", plain, question{requests: []pci.Request{one, one}}, ""},
		{"three requests, applied one after the other", plain, question{requests: []pci.Request{one, one, one}},
			"fewer than 3 free"},
		{"without a mapping any provider is accepted", slices.Concat(three, plain),
			question{requests: []pci.Request{vf, pf, one}}, ""},
		{"VFs of two PFs", vfs, question{requests: []pci.Request{requestFor(4, pci.Virtual, "1515")}}, ""},
		{"one VF more than two PFs have", vfs, question{requests: []pci.Request{requestFor(5, pci.Virtual, "1515")}},
			"fewer than 5 free type-VF 8086:1515 on the host"},
		{"VFs of one PF that differ in class", change(vfs, 0, func(d *pci.Offered) { d.ResourceClass = "CUSTOM_Y" }),
			question{requests: []pci.Request{requestFor(4, pci.Virtual, "1515")}}, ""},
		{"the request names the provider", three, question{requests: []pci.Request{onProvider(pf, "pf3"),
			onProvider(pf, "pf2")}},
			""},
		{"the request names a provider with too few devices", three, question{requests: []pci.Request{onProvider(pf, "pf3"),
			onProvider(pf, "pf3")}},
			"fewer than 2 free type-PF 8086:1528 on the chosen provider"},
		{"live-migratable requested, the device has no",
			change(vfs[:1], 0, func(d *pci.Offered) { d.LiveMigratable = pci.No }),
			question{requests: []pci.Request{migratable(vf)}}, "live_migratable true"},
		{"live-migratable requested, the device has no tag", vfs[:1], question{requests: []pci.Request{migratable(vf)}},
			"live_migratable true"},
		{"live-migratable requested, the device has yes",
			change(vfs[:1], 0, func(d *pci.Offered) { d.LiveMigratable = pci.Yes }),
			question{requests: []pci.Request{migratable(vf)}}, ""},
		{"not live-migratable requested, the device has yes",
			change(vfs[:1], 0, func(d *pci.Offered) { d.LiveMigratable = pci.Yes }),
			question{requests: []pci.Request{notMigratable(vf)}},
			"live_migratable false"},
		{"not live-migratable requested, the device has no tag", vfs[:1],
			question{requests: []pci.Request{notMigratable(vf)}}, "live_migratable false"},
		{"not live-migratable requested, the device has no",
			change(vfs[:1], 0, func(d *pci.Offered) { d.LiveMigratable = pci.No }),
			question{requests: []pci.Request{notMigratable(vf)}}, ""},
		{"no tag requested, the device has yes",
			change(vfs[:1], 0, func(d *pci.Offered) { d.LiveMigratable = pci.Yes }), question{requests: []pci.Request{vf}},
			""},
		{"no tag requested, the device has no", change(vfs[:1], 0, func(d *pci.Offered) { d.LiveMigratable = pci.No }),
			question{requests: []pci.Request{vf}}, ""},
		{"no tag requested, the device has none", vfs[:1], question{requests: []pci.Request{vf}}, ""},
		{"a provider of the class that no agent reports", plain, question{requests: []pci.Request{class},
			on: []provider.ID{"another's"}}, "no free device of CUSTOM_X on the chosen provider"},
		{"a provider without devices", vfs, question{requests: []pci.Request{vf}, on: []provider.ID{"elsewhere"}},
			"on the chosen provider"},
		{"two PFs by name", three, question{requests: []pci.Request{requestFor(2, pci.Physical, "1528")},
			on: []provider.ID{"pf2", "pf3"}}, ""},
		{"VF of one, PF of another", three, question{requests: []pci.Request{vf, pf}, on: []provider.ID{"pf1", "pf3"}}, ""},
		{"VF and PF of one card", three, question{requests: []pci.Request{vf, pf}, on: []provider.ID{"pf1", "pf1"}},
			"no free type-PF 8086:1528 on the chosen provider"},
		{"three VFs of two PFs", vfs, question{requests: []pci.Request{requestFor(3, pci.Virtual, "1515")},
			on: []provider.ID{"pf1", "pf2", "pf2"}}, ""},
		{"one VF of each", vfs, question{requests: []pci.Request{requestFor(2, pci.Virtual, "1515")},
			on: []provider.ID{"pf1", "pf2"}},
			""},
		{"the sum is enough, one provider is exhausted", vfs,
			question{requests: []pci.Request{requestFor(4, pci.Virtual, "1515")},
				on: []provider.ID{"pf1", "pf1", "pf1", "pf2"}},
			"fewer than 3 free"},
		{"all VFs of two PFs and the third PF", three, question{requests: []pci.Request{requestFor(8, pci.Virtual, "1515"),
			pf}}, ""},
		{"VFs of both and two PFs", three, question{requests: []pci.Request{requestFor(5, pci.Virtual, "1515"),
			requestFor(2, pci.Physical, "1528")}}, "fewer than 2 free type-PF"},
		{"a PF of the same product is not a VF",
			slices.Concat(change(card(1, "p", 0, true, 8), 0, func(d *pci.Offered) { d.Product = "1515" })),
			question{requests: []pci.Request{requestFor(9, "", "1515")}}, "fewer than 9 free devices 8086:1515"},
		{"a PF must be requested by its type", card(1, "p", 0, true, 0),
			question{requests: []pci.Request{requestFor(1, "", "1528")}},
			"no free device"},
		{"a vdpa device must be requested by its type", change(card(1, "p", 0, false, 1), 0,
			func(d *pci.Offered) { d.Type = "vdpa" }), question{requests: []pci.Request{requestFor(1, "", "1515")}},
			"no free device"},
		{"a remote-managed device is only for ports", change(vfs, 0, remote),
			question{requests: []pci.Request{requestFor(4, pci.Virtual, "1515")}},
			"fewer than 4 free"},
		{"the devices that are not remote-managed", change(vfs, 0, remote),
			question{requests: []pci.Request{requestFor(3, pci.Virtual, "1515")}}, ""},
		{"a device of a physical network, by alias, without Placement", change(plain, 0, physnet),
			question{requests: []pci.Request{one, one}}, ""},
		{"a device of a physical network, on a provider chosen by Placement", change(plain, 0, physnet),
			question{requests: []pci.Request{one}, on: []provider.ID{"p8"}},
			"no free device"},
		{"class and product on different providers", slices.Concat(
			change(plain[:1], 0, func(d *pci.Offered) { d.Provider, d.ResourceClass = "p00", "CUSTOM_MY_DEV" }),
			change(card(5, "p01", 0, true, 0), 0, func(d *pci.Offered) { d.ResourceClass = "CUSTOM_MY_DEV" })),
			question{requests: []pci.Request{{Alias: "a", Count: 1, Requirement: pci.Requirement{Vendor: "8086", Product: "1533",
				Class: "CUSTOM_MY_DEV", Required: []resource.Trait{"CUSTOM_A_PF"}}}},
				on: []provider.ID{"p01"}}, "no free device 8086:1533 on the chosen provider"},
		{"Placement has checked class and traits of its provider", plain, question{requests: []pci.Request{class},
			on: []provider.ID{"p8"}},
			""},
		{"without a provider the class is checked", plain, question{requests: []pci.Request{class}},
			"no free device of CUSTOM_X on the host"},
		{"either definition", plain,
			question{requests: []pci.Request{orRequirement(class, pci.Requirement{Vendor: "8086", Product: "1533"})}}, ""},
		{"neither definition", plain,
			question{requests: []pci.Request{orRequirement(class, pci.Requirement{Vendor: "8086", Product: "1534"})}},
			"no free device"},
		{"VFs of another PF that differ in tags",
			change(vfs, 0, func(d *pci.Offered) { d.LiveMigratable = pci.No }),
			question{requests: []pci.Request{requestFor(2, pci.Virtual, "1515")}, on: []provider.ID{"pf2", "pf2"}}, ""},
		{"VFs that differ in tags, no tag requested", change(vfs, 0, func(d *pci.Offered) { d.LiveMigratable = pci.No }),
			question{requests: []pci.Request{requestFor(2, pci.Virtual, "1515")}, on: []provider.ID{"pf1", "pf1"}}, ""},
		{"used once and not cleaned", change(plain[:1], 0, func(d *pci.Offered) { d.OneTimeUse, d.Spent = true, true }),
			question{requests: []pci.Request{one}}, "no free device"},
		{"disabled", change(plain[:1], 0, func(d *pci.Offered) { d.Disabled = true }),
			question{requests: []pci.Request{one}}, "no free device"},
		{"one is disabled, another is free", change(plain, 0, func(d *pci.Offered) { d.Disabled = true }),
			question{requests: []pci.Request{one}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			filter := schedule.FilterDevices
			if c.wantText == "" {
				filter = ""
			}
			check(t, c.ask, host("h", c.devices...), c.wantText, filter)
		})
	}
	inPlacement := host("h", change(plain[:1], 0, physnet)...)
	inPlacement.InPlacement = true
	check(t, question{requests: []pci.Request{one}}, inPlacement, "no free device", schedule.FilterDevices)
}

// TestDevicesAreFittedByTags checks that each request gets the device with its tags, in any order of the requests.
func TestDevicesAreFittedByTags(t *testing.T) {
	flags := []pci.Flag{pci.Unset, pci.Yes, pci.No}
	var list []pci.Offered
	var requests []pci.Request
	for i, f := range flags {
		d := testDevice(uint8(i), pci.Plain, "1533", provider.ID(fmt.Sprint("p", i)), 0)
		d.LiveMigratable = f
		list = append(list, d)
		r := requestFor(1, "", "1533")
		r.Requirement.LiveMigratable = f
		requests = append(requests, r)
	}
	check(t, question{requests: requests}, host("h", list...), "", "")
	slices.Reverse(requests)
	check(t, question{requests: requests}, host("h", list...), "", "")
	requests[0].Requirement.LiveMigratable = pci.Yes
	check(t, question{requests: requests}, host("h", list...),
		"fewer than 2 free devices 8086:1533 with live_migratable true "+
			"on the host", schedule.FilterDevices)
}

// TestRelativesOfTakenDevicesAreNotFree checks that the devices that guests have or will get are not free, nor the PFs
// of such VFs and the VFs of such PFs.
func TestRelativesOfTakenDevicesAreNotFree(t *testing.T) {
	one := host("h", card(1, "p", 0, true, 2)...)
	held := one
	held.Guests = []schedule.Guest{{ID: "s1", Devices: []schedule.Picked{{Address: "0000:01:01.0"}}}}
	check(t, question{requests: []pci.Request{requestFor(1, pci.Physical, "1528")}}, held, "no free type-PF",
		schedule.FilterDevices)
	check(t, question{requests: []pci.Request{requestFor(1, pci.Virtual, "1515")}}, held, "", "")
	promised := one
	r := requestFor(1, pci.Physical, "1528")
	r.ID = "Q"
	promised.Guests = []schedule.Guest{{ID: "s1", Requests: []pci.Request{r}}}
	check(t, question{requests: []pci.Request{requestFor(1, pci.Virtual, "1515")}}, promised, "no free type-VF",
		schedule.FilterDevices)
}
