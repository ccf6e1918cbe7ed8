package pci

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// card returns a PF, if pf is set, with a number of VFs.
func card(bus uint8, pf bool, vfs int) []Device {
	at := Address{Bus: bus}
	var list []Device
	if pf {
		list = append(list, Device{Address: at, Type: Physical, Vendor: "8086", Product: "1528"})
	}
	for i := range vfs {
		list = append(list, Device{
			Address: Address{Bus: bus, Slot: 1, Func: uint8(i)},
			Type:    Virtual,
			Parent:  &at,
			Vendor:  "8086",
			Product: "1515",
		})
	}
	return list
}

func join(lists ...[]Device) (all []Device) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// vdpa returns the devices with a vDPA device on each VF.
func vdpa(devices []Device) []Device {
	out := slices.Clone(devices)
	for i := range out {
		if out[i].Type == Virtual {
			out[i].Type = VDPA
		}
	}
	return out
}

// fitTypes calls Fit with one slot for each type.
func fitTypes(devices []Device, types ...Type) ([]int, int) {
	return Fit(devices, len(types), func(s, d int) int {
		if types[s] == devices[d].Type {
			return 0
		}
		return -1
	})
}

// TestFitKeepsPFAndVFsApart tests that a PF and its VFs are never picked together, in any order of the requests
// (docs/behaviour/nova-pci.md 3.9).
func TestFitKeepsPFAndVFsApart(t *testing.T) {
	two := join(card(1, true, 4), card(2, true, 4)) // 0 and 5 are the PFs
	for _, c := range []struct {
		row     string
		devices []Device
		types   []Type
		missing int
	}{
		{"T29 PF 2", two, []Type{Physical, Physical}, -1},
		{"T29 VF + PF", two, []Type{Virtual, Physical}, -1},
		{"T29 PF + VF", two, []Type{Physical, Virtual}, -1},
		{"T29 4 VF + PF", two, []Type{Virtual, Virtual, Virtual, Virtual, Physical}, -1},
		{"T29 5 VF + PF", two, []Type{Virtual, Virtual, Virtual, Virtual, Virtual, Physical}, 4},
		{"T29 8 vDPA", vdpa(two), []Type{VDPA, VDPA, VDPA, VDPA, VDPA, VDPA, VDPA, VDPA}, -1},
		{"T29 4 vDPA + PF", vdpa(two), []Type{VDPA, VDPA, VDPA, VDPA, Physical}, -1},
		{"T29 5 vDPA + PF", vdpa(two), []Type{VDPA, VDPA, VDPA, VDPA, VDPA, Physical}, 5},
		{"a VF and a PF of one card", card(1, true, 4), []Type{Virtual, Physical}, 1},
		{"a PF without VFs is picked first", join(card(1, true, 1), card(2, true, 0)), []Type{Physical, Virtual}, -1},
		{"four VFs and a PF on three cards", join(card(1, true, 2), card(2, true, 1), card(3, true, 3)),
			[]Type{Physical, Virtual, Virtual, Virtual, Virtual}, -1},
	} {
		t.Run(c.row, func(t *testing.T) {
			picked, missing := fitTypes(c.devices, c.types...)
			if (missing < 0) != (c.missing < 0) {
				t.Fatalf("picked %v, missing %d", picked, missing)
			}
			checkPicked(t, c.devices, picked)
		})
	}
}

// checkPicked fails if a device is picked twice, or a PF beside one of its VFs.
func checkPicked(t *testing.T, devices []Device, picked []int) {
	t.Helper()
	for i, a := range picked {
		for j, b := range picked {
			if a < 0 || b < 0 || i == j {
				continue
			}
			if a == b || devices[b].Parent != nil && *devices[b].Parent == devices[a].Address {
				t.Fatalf("%s beside %s", devices[a], devices[b])
			}
		}
	}
}

// TestFitPrefersLowRanks tests the policy preferred (T10): near devices first, then those without a node, then the
// others. A slot with only one possible device gets it.
func TestFitPrefersLowRanks(t *testing.T) {
	devices := join(card(1, false, 1), card(2, false, 1), card(3, false, 1))
	ranks := []int{2, 0, 1}
	near := func(_, d int) int { return ranks[d] }
	for slots, want := range [][]int{{}, {1}, {1, 2}, {1, 2, 0}} {
		if picked, missing := Fit(devices, slots, near); missing >= 0 || !reflect.DeepEqual(picked, want) {
			t.Errorf("%d slots: %v", slots, picked)
		}
	}
	picked, missing := Fit(devices, 2, func(s, d int) int {
		if s == 1 && d != 1 {
			return -1
		}
		return ranks[d]
	})
	if missing >= 0 || picked[0] != 2 || picked[1] != 1 {
		t.Errorf("the second slot can have only the nearest: %v", picked)
	}
}

// TestFitAgreesWithTryingEverything compares Fit with a search that tries every device for every slot.
func TestFitAgreesWithTryingEverything(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	const cases = 4000
	fits := 0
	for n := range cases {
		var devices []Device
		for bus := range 1 + rng.IntN(3) {
			devices = join(devices, card(uint8(bus), rng.IntN(3) > 0, rng.IntN(4)))
		}
		slots := 1 + rng.IntN(4)
		ranks := map[string]int{}
		rank := func(s, d int) int {
			key := fmt.Sprint(s, d)
			if _, ok := ranks[key]; !ok {
				ranks[key] = rng.IntN(5) - 2
			}
			return max(ranks[key], -1)
		}
		picked, missing := Fit(devices, slots, rank)
		want := anyFit(devices, slots, rank, nil)
		if (missing < 0) != want {
			t.Fatalf("case %d: picked %v missing %d, trying everything: %v", n, picked, missing, want)
		}
		checkPicked(t, devices, picked)
		for s, d := range picked {
			if d >= 0 && rank(s, d) < 0 {
				t.Fatalf("case %d: slot %d got a device that does not fit", n, s)
			}
		}
		if want {
			fits++
		}
	}
	if fits < cases/10 || fits > cases*9/10 {
		t.Errorf("%d of %d cases fit: the cases are too similar", fits, cases)
	}
}

func anyFit(devices []Device, slots int, rank func(s, d int) int, picked []int) bool {
	if len(picked) == slots {
		return true
	}
	for d := range devices {
		free := rank(len(picked), d) >= 0
		for _, other := range picked {
			free = free && other != d && !isParent(devices[d], devices[other]) && !isParent(devices[other], devices[d])
		}
		if free && anyFit(devices, slots, rank, append(picked[:len(picked):len(picked)], d)) {
			return true
		}
	}
	return false
}

func isParent(pf, vf Device) bool { return vf.Parent != nil && *vf.Parent == pf.Address }
