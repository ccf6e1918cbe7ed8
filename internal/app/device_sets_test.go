package app

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
)

// headroom returns how many servers of a flavor with these extra specs fit.
func (l *lab) headroom(name string, specs map[string]string) int {
	l.t.Helper()
	f, err := l.compute().CreateFlavor(l.t.Context(), compute.CreateFlavor{Name: "h-" + name, VCPUs: 1, RAM: 64})
	if err == nil {
		err = l.compute().SetExtraSpecs(l.t.Context(), f.ID, specs)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	got, err := l.cloud.HostClient().Headroom(l.t.Context(), f.ID, nil)
	if err != nil || !got.Exact {
		l.t.Fatalf("headroom of %s: %+v %v", name, got, err)
	}
	return got.Fits
}

// held returns the devices of a server, by address, as soon as a host has reported some.
func (l *lab) held(server string) (list []host.Device) {
	l.t.Helper()
	l.until("the devices of "+server, func() bool {
		devices, err := l.cloud.HostClient().Devices(l.t.Context())
		list = slices.DeleteFunc(devices, func(d host.Device) bool { return d.Holder != server })
		return err == nil && len(list) > 0
	})
	return list
}

// wantError checks that a server is in ERROR with a text.
func (l *lab) wantError(s compute.Server, text string) {
	l.t.Helper()
	if s.Fault == nil || !strings.Contains(s.Fault.Message+s.Fault.Details, text) {
		l.t.Errorf("%s: fault %+v; want %q", s.Name, s.Fault, text)
	}
}

// Servers get GPUs and VFs below one root, and as many fit as the headroom says. The machine has two roots with a GPU
// and a NIC, one with two GPUs and one with a NIC.
func TestDevicesBelowOneRoot(t *testing.T) {
	t.Parallel()
	for _, inPlacement := range []bool{true, false} {
		t.Run(fmt.Sprint("in Placement ", inPlacement), func(t *testing.T) {
			t.Parallel()
			l, m := newLab(t), &machine{}
			m.gpusAndNICs(0, 2, 0, 0)
			m.gpusAndNICs(0, 0, 1, 3)
			m.gpusAndNICs(0, 1, 1, 3)
			m.gpusAndNICs(1, 1, 1, 3)
			m.node(0, 0, 8)
			m.node(1, 8, 8)
			l.sys = m.text()
			l.up("[pci]\n" + strings.Join([]string{gpuRule, vfRule,
				`alias = {"name": "gpu", "vendor_id": "10de", "product_id": "2330", "resource_class": "CUSTOM_GPU"}`,
				`alias = {"name": "vf", "vendor_id": "15b3", "product_id": "101e", "device_type": "type-VF", ` +
					`"resource_class": "CUSTOM_VF"}`,
				`alias = {"name": "pair", "members": {"gpu": 1, "vf": 1}, "match": "pcie_root"}`}, "\n") +
				fmt.Sprintf("\nreport_in_placement = %t\n[filter_scheduler]\npci_in_placement = %[1]t", inPlacement))
			defer l.down()
			pairs := map[string]string{"pci_passthrough:alias": "pair:2"}
			one := map[string]string{"pci_passthrough:alias": "gpu:1,vf:2", "pci:match:pcie_root": "gpu,vf"}
			if inPlacement {
				for name, want := range map[string]int{"pair:2": 1, "pair:1": 2} {
					if got := l.headroom(name, map[string]string{"pci_passthrough:alias": name}); got != want {
						t.Errorf("the headroom of %s is %d, not %d", name, got, want)
					}
				}
				if got := l.headroom("one", one); got != 2 {
					t.Errorf("the headroom of one GPU and two VFs is %d", got)
				}
			}
			first := l.boot("pairs", "ACTIVE", pairs)
			roots := map[string]int{}
			for _, d := range l.held(first.ID) {
				roots[strings.Split(d.Address, ":")[0]+" "+d.Type]++
			}
			if len(roots) != 4 {
				t.Errorf("a server of two pairs has devices below %v", roots)
			}
			l.wantError(l.boot("third", "ERROR", one), "do not have one pcie_root in common")
			l.delete(first.ID)
			second := l.boot("one", "ACTIVE", one)
			held := l.held(second.ID)
			if len(held) != 3 || slices.ContainsFunc(held, func(d host.Device) bool {
				return !strings.HasPrefix(d.Address, held[0].Address[:4])
			}) {
				t.Errorf("one GPU and two VFs below one root are %+v", held)
			}
		})
	}
}

// Servers get partitions of NVSwitches: a partition of exactly their size that is free, of which the smaller ones are
// used first that are part of no larger free one.
func TestPartitionsOfSwitches(t *testing.T) {
	t.Parallel()
	l, m := newLab(t), &machine{}
	m.devices(0, 8, "10de", "2330", "030200")
	m.device(0, 0, "10de", "22a3", "068000", 0) // an NVSwitch
	m.node(0, 0, 8)
	l.sys = m.text()
	var rules []string
	for n := range 8 {
		rules = append(rules, fmt.Sprintf(`device_spec = {"address": "%04x:01:00.0", "resource_class": "CUSTOM_GPU", `+
			`"properties": {"fabric": "p2-%d,p4-%d,p8-0"}}`, n+1, n/2, n/4))
	}
	program, log := filepath.Join(l.dir, "activate"), filepath.Join(l.dir, "activated")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nif [ $2 = p4-0 ]; then echo p4-0 is broken; exit 1; fi\n"+
		"echo $* >>"+log+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	activated := func(when, want string) {
		t.Helper()
		if text, err := os.ReadFile(log); err != nil || string(text) != want {
			t.Errorf("%s, the program had the arguments %q (%v), not %q", when, text, err, want)
		}
		if err := os.Remove(log); err != nil {
			t.Error(err)
		}
	}
	l.up("[berth]\ndevice_start_command = " + program + "\n[pci]\n" + strings.Join(rules, "\n") + `
device_spec = {"vendor_id": "10de", "product_id": "22a3", "resource_class": "CUSTOM_NVSWITCH"}
alias = {"name": "hgx", "resource_class": "CUSTOM_GPU", "match": "fabric", "whole": true}
alias = {"name": "switch", "resource_class": "CUSTOM_NVSWITCH"}
report_in_placement = true
[filter_scheduler]
pci_in_placement = true`)
	defer l.down()
	size := func(n int) map[string]string {
		return map[string]string{"pci_passthrough:alias": fmt.Sprint("hgx:", n)}
	}
	check := func(when string, two, four, eight int) {
		t.Helper()
		for n, want := range map[int]int{2: two, 4: four, 8: eight, 3: 0} {
			if got := l.headroom(fmt.Sprint(when, n), size(n)); got != want {
				t.Errorf("%s, %d servers of %d GPUs fit, not %d", when, got, n, want)
			}
		}
	}
	check("empty", 4, 2, 1)
	pair := l.boot("pair", "ACTIVE", size(2))
	check("with a pair", 3, 1, 0)
	next := l.boot("next", "ACTIVE", size(2)) // in the half of the first
	check("with two pairs", 2, 1, 0)
	activated("after two pairs", "fabric p2-0 0001:01:00.0 0002:01:00.0\nfabric p2-1 0003:01:00.0 0004:01:00.0\n")
	four := l.boot("four", "ACTIVE", size(4))
	var at []string
	for _, d := range l.held(four.ID) {
		at = append(at, d.Address[:4])
	}
	if strings.Join(at, " ") != "0005 0006 0007 0008" {
		t.Errorf("the partition of four is %v", at)
	}
	check("full", 0, 0, 0)
	const last = "fabric p4-1 0005:01:00.0 0006:01:00.0 0007:01:00.0 0008:01:00.0\n"
	activated("with four", last)
	l.act(four.ID, "os-stop", "SHUTOFF", "cmp1", nil)
	l.act(four.ID, "os-start", "ACTIVE", "cmp1", nil)
	activated("after a start", last)
	l.delete(four.ID)
	l.boot("third", "ACTIVE", size(2))
	l.delete(pair.ID)
	l.wantError(l.boot("too large", "ERROR", size(4)), "no fabric of exactly 4 devices is free")
	if s := l.boot("switch", "ACTIVE", map[string]string{"pci_passthrough:alias": "switch:1"}); len(l.held(s.ID)) != 1 {
		t.Error("a server does not have its NVSwitch")
	}
	l.delete(next.ID)
	l.wantError(l.boot("broken", "ERROR", size(4)), "p4-0 is broken")
}

// A GPU and its audio function, which are in one IOMMU group, are given together.
func TestMembersOfIOMMUGroups(t *testing.T) {
	t.Parallel()
	l, m := newLab(t), &machine{groups: map[int]int{1: 10, 2: 11, 3: 12, 4: 10, 5: 12}} // one GPU has none
	m.devices(0, 3, "10de", "2330", "030200")
	m.devices(0, 2, "10de", "22e4", "040300")
	m.node(0, 0, 8)
	l.sys = m.text()
	l.up("[pci]\n" + gpuRule + `
device_spec = {"vendor_id": "10de", "product_id": "22e4", "resource_class": "CUSTOM_AUDIO"}
alias = {"name": "gpu", "resource_class": "CUSTOM_GPU"}
alias = {"name": "audio", "resource_class": "CUSTOM_AUDIO"}
alias = {"name": "card", "members": {"gpu": 1, "audio": 1}, "match": "iommu_group"}
report_in_placement = true
[filter_scheduler]
pci_in_placement = true`)
	defer l.down()
	card := map[string]string{"pci_passthrough:alias": "card:1"}
	if fits := l.headroom("card", card); fits != 2 {
		t.Errorf("the headroom is %d", fits)
	}
	for _, name := range []string{"one", "two"} {
		at := ""
		for _, d := range l.held(l.boot(name, "ACTIVE", card).ID) {
			at += d.Address[:4] + " "
		}
		if at != "0001 0004 " && at != "0003 0005 " {
			t.Errorf("server %s has %s", name, at)
		}
	}
	l.wantError(l.boot("three", "ERROR", card), "no free device of")
}

// A server with sets migrates live to sets of the destination, set by set, or stays with a reason. The addresses of
// the GPUs are not in the order of those of the NVMe devices.
func TestLiveMigrationOfSets(t *testing.T) {
	t.Parallel()
	l, m := newLab(t), &machine{}
	m.devices(0, 3, "10de", "2330", "030200")
	m.devices(0, 3, "144d", "a808", "010802")
	m.node(0, 0, 8)
	l.sys = m.text()
	text, tray := "[pci]\n", map[string]string{}
	for n, of := range []string{"a", "b", "c", "b", "c", "a"} {
		at, class := fmt.Sprintf("%04x:01:00.0", n+1), []string{"CUSTOM_GPU", "CUSTOM_NVME"}[n/3]
		tray[at] = of
		text += fmt.Sprintf("device_spec = {\"address\": %q, \"resource_class\": %q, \"live_migratable\": true, "+
			"\"properties\": {\"tray\": %q}}\n", at, class, of)
	}
	l.up(text + `alias = {"name": "gpu", "resource_class": "CUSTOM_GPU", "live_migratable": true}
alias = {"name": "nvme", "resource_class": "CUSTOM_NVME", "live_migratable": true}
alias = {"name": "pair", "members": {"gpu": 1, "nvme": 1}, "match": "tray"}
report_in_placement = true
[filter_scheduler]
pci_in_placement = true`)
	defer l.down()
	trays := func(id string) string { // of both requests, in the order by which devices are paired up
		t.Helper()
		why, err := l.compute().Why(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		byRequest := map[string]string{}
		for _, d := range why.Devices {
			byRequest[d.RequestID] += tray[d.Address]
		}
		of := slices.Collect(maps.Values(byRequest))
		if len(of) != 2 || of[0] != of[1] {
			t.Fatalf("the server has the trays %v, not the same for each request", byRequest)
		}
		return of[0]
	}
	specs := func(n int) map[string]string {
		return map[string]string{"pci_passthrough:alias": fmt.Sprint("pair:", n)}
	}
	live := map[string]any{"host": nil, "block_migration": "auto"}
	two := l.boot("two", "ACTIVE", specs(2))
	if got := trays(two.ID); got != "ab" {
		t.Errorf("the server has the trays %s", got)
	}
	l.host("cmp2")
	l.enable("cmp1", false)
	l.boot("in the way", "ACTIVE", specs(1))
	l.act(two.ID, "os-migrateLive", "ACTIVE", "cmp2", live)
	if got := trays(two.ID); got != "bc" {
		t.Errorf("the server has the trays %s after the migration", got)
	}
	l.enable("cmp1", true)
	one := l.boot("one", "ACTIVE", specs(1))
	before := trays(one.ID)
	if err := l.compute().Act(t.Context(), one.ID, "os-migrateLive", live); err != nil {
		t.Fatal(err)
	}
	l.until("the reason", func() bool {
		why, err := l.compute().Why(t.Context(), one.ID)
		return err == nil && strings.Contains(why.Fault, "no free device of CUSTOM_")
	})
	if after := trays(one.ID); after != before {
		t.Errorf("the server had the tray %s and has %s", before, after)
	}
	if s, err := l.compute().Server(t.Context(), one.ID); err != nil || s.Status != "ACTIVE" || *s.Host != "cmp1" {
		t.Errorf("after a migration that is not possible: %+v %v", s, err)
	}
}
