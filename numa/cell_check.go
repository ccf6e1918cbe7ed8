package numa

import (
	"fmt"
	"slices"
)

// Place returns how a guest cell that fits on a host cell is placed there.
func Place(c Cell, g GuestCell, limits Limits) Placed {
	at := Placed{Node: c.ID}
	at.PageKB, _ = c.pages(g, limits)
	at.CPUs, at.Emulator = c.pick(g)
	return at
}

// check returns what a host cell lacks for a guest cell, or nil. It chooses nothing, so it is fast.
func (c Cell) check(g GuestCell, limits Limits) *shortfall {
	if _, lack := c.pages(g, limits); lack != nil {
		return lack
	}
	if lack := c.checkThreads(g); lack != nil {
		return lack
	}
	if shared := len(g.VCPUs) - len(g.Dedicated); shared > 0 {
		// The CPUs of one guest never share a thread with each other, whatever the ratio.
		if shared > len(c.CPUs) {
			return lacking(sharedCheck, float64(len(c.CPUs)), float64(shared),
				fmt.Sprintf("%d threads for shared CPUs", shared), fmt.Sprintf("has %d", len(c.CPUs)))
		}
		most := float64(len(c.CPUs)) * ratio(limits.CPU)
		if float64(c.Floating+shared) > most {
			return lacking(sharedCheck, most-float64(c.Floating), float64(shared),
				fmt.Sprintf("room for %d shared CPUs left", shared),
				fmt.Sprintf("has %d on %d threads, at most %g", c.Floating, len(c.CPUs), most))
		}
	}
	return nil
}

// ratio returns an overcommit ratio; 1 if it is not set.
func ratio(r float64) float64 {
	if r <= 0 {
		return 1
	}
	return r
}

// pages chooses the page size of a guest cell: 0 for small pages.
func (c Cell) pages(g GuestCell, limits Limits) (sizeKB int, _ *shortfall) {
	g = g.withPages()
	switch g.PageKB {
	case SmallPages:
		if len(g.Dedicated) > 0 {
			limits.Memory = 1
		}
		return 0, c.smallPages(g, ratio(limits.Memory))
	case OwnPages:
		return 0, c.smallPages(g, 1)
	}
	var nearest *shortfall
	pages := slices.Clone(c.Pages)
	slices.SortFunc(pages, func(a, b Pages) int { return b.SizeKB - a.SizeKB })
	for _, of := range pages {
		if g.PageKB > 0 && g.PageKB != of.SizeKB {
			continue
		}
		missing := of.shortfall(g)
		if missing == nil {
			return of.SizeKB, nil
		}
		if nearest == nil || missing.distance < nearest.distance {
			nearest = missing
		}
	}
	switch {
	case g.PageKB == AnyPages && c.smallPages(g, 1) == nil:
		return 0, nil
	case nearest != nil:
		return 0, nearest
	case g.PageKB > 0:
		return 0, lacking(memoryCheck, 0, 1, fmt.Sprintf("pages of %s", size(g.PageKB)), "has none")
	case g.PageKB == AnyPages:
		return 0, c.smallPages(g, 1)
	}
	return 0, lacking(memoryCheck, 0, 1, "huge pages", "has none")
}

// shortfall returns the shortfall of these pages for a guest cell.
func (of Pages) shortfall(g GuestCell) *shortfall {
	need, free := pagesFor(g.MemoryMB, of.SizeKB), of.Total-of.Used
	if g.MemoryMB*1024%of.SizeKB != 0 {
		return lacking(memoryCheck, 0, 1, fmt.Sprintf("pages that %d MiB is a multiple of", g.MemoryMB),
			"has pages of "+size(of.SizeKB))
	}
	if need > free {
		wants := fmt.Sprintf("%d pages of %s left", need, size(of.SizeKB))
		if g.PageKB < 0 {
			wants = fmt.Sprintf("huge pages for %d MiB left", g.MemoryMB)
		}
		return lacking(memoryCheck, float64(free), float64(need), wants,
			fmt.Sprintf("has %d of %s", free, size(of.SizeKB)))
	}
	return nil
}

// smallPages returns the shortfall of small pages for a guest cell.
func (c Cell) smallPages(g GuestCell, ratio float64) *shortfall {
	total := c.small()
	left := float64(total)*ratio - float64(c.UsedMemory)
	// The memory of one guest is never overcommitted against itself, whatever the ratio.
	if g.MemoryMB > total || float64(g.MemoryMB) > left {
		return lacking(memoryCheck, min(left, float64(total)), float64(g.MemoryMB),
			fmt.Sprintf("%d MiB of memory left", g.MemoryMB),
			fmt.Sprintf("has %.0f", max(min(left, float64(total)), 0)))
	}
	return nil
}

// size returns a page size as text.
func size(kb int) string {
	switch {
	case kb%(1<<20) == 0:
		return fmt.Sprintf("%d GiB", kb>>20)
	case kb%(1<<10) == 0:
		return fmt.Sprintf("%d MiB", kb>>10)
	}
	return fmt.Sprintf("%d KiB", kb)
}
