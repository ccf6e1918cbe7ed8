package pci

import "slices"

// maxBranches is the maximum number of choices between a PF and its VFs that Fit tries.
const maxBranches = 1024

// Fit assigns a different device to each slot. rank returns how good a device is for a slot: 0 is best, -1 means
// that it does not fit. As many slots as possible get a device of rank 0, then of rank 1, and so on; of equal
// devices the first one is used. A PF is never assigned together with one of its own VFs.
//
// picked contains the device of each slot, or -1. missing is the first slot without a device, or -1. The scheduler
// and the agent use the same function, so the agent can claim what the scheduler has accepted.
func Fit(devices []Device, slots int, rank func(slot, device int) int) (picked []int, missing int) {
	f := fitter{devices: devices, slots: slots, banned: make([]bool, len(devices))}
	f.ranks = make([][]int, slots)
	for s := range slots {
		f.ranks[s] = make([]int, len(devices))
		for d := range devices {
			f.ranks[s][d] = rank(s, d)
			f.worst = max(f.worst, f.ranks[s][d])
		}
	}
	return f.solve()
}

type fitter struct {
	devices  []Device
	slots    int
	ranks    [][]int // by slot and device
	worst    int     // the largest rank
	banned   []bool  // by device
	branches int
}

// solve returns a matching without a PF beside one of its VFs. On a conflict it tries without the PF and without its
// VFs, and returns the better result.
func (f *fitter) solve() (picked []int, missing int) {
	picked, missing = f.match()
	pf, vfs := f.conflict(picked)
	if pf < 0 {
		return picked, missing
	}
	bestPicked, bestMissing := []int(nil), -1
	for _, without := range [][]int{{pf}, vfs} {
		if f.branches++; f.branches > maxBranches && bestPicked != nil {
			break
		}
		for _, d := range without {
			f.banned[d] = true
		}
		picked, missing := f.solve()
		for _, d := range without {
			f.banned[d] = false
		}
		if missing < 0 {
			return picked, -1
		}
		if bestPicked == nil || served(picked) > served(bestPicked) {
			bestPicked, bestMissing = picked, missing
		}
	}
	return bestPicked, bestMissing
}

func served(picked []int) (n int) {
	for _, d := range picked {
		if d >= 0 {
			n++
		}
	}
	return n
}

// conflict returns a PF that is picked beside one of its VFs, and all its VFs that are not banned; -1 if there is no
// conflict.
func (f *fitter) conflict(picked []int) (pf int, vfs []int) {
	for _, d := range picked {
		if d < 0 || f.devices[d].Parent == nil {
			continue
		}
		parent := *f.devices[d].Parent
		if !slices.ContainsFunc(picked, func(o int) bool { return o >= 0 && f.devices[o].Address == parent }) {
			continue
		}
		for n, other := range f.devices {
			switch {
			case other.Address == parent:
				pf = n
			case !f.banned[n] && other.Parent != nil && *other.Parent == parent:
				vfs = append(vfs, n)
			}
		}
		return pf, vfs
	}
	return -1, nil
}

// match returns a maximum matching, found with augmenting paths, rank by rank.
func (f *fitter) match() (picked []int, missing int) {
	picked = make([]int, f.slots)
	for s := range picked {
		picked[s] = -1
	}
	taken := make([]int, len(f.devices))
	for d := range taken {
		taken[d] = -1
	}
	for most := 0; most <= f.worst; most++ {
		for s := range picked {
			if picked[s] < 0 {
				f.assign(s, most, picked, taken, make([]bool, len(f.devices)))
			}
		}
	}
	return picked, slices.Index(picked, -1)
}

// assign assigns a device of at most rank most to slot s: a free one, or one whose slot can get another. seen are the
// devices already tried on this path.
func (f *fitter) assign(s, most int, picked, taken []int, seen []bool) bool {
	var others []int
	for rank := 0; rank <= most; rank++ {
		for d := range f.devices {
			switch {
			case seen[d] || f.banned[d] || f.ranks[s][d] != rank:
			case taken[d] < 0:
				picked[s], taken[d] = d, s
				return true
			default:
				others = append(others, d)
			}
		}
	}
	for _, d := range others {
		if seen[d] {
			continue
		}
		seen[d] = true
		if f.assign(taken[d], most, picked, taken, seen) {
			picked[s], taken[d] = d, s
			return true
		}
	}
	return false
}
