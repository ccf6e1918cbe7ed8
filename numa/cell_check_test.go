package numa_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/numa"
)

// TestCellChecks tests the checks of one host cell for one guest cell, and the refusals.
func TestCellChecks(t *testing.T) {
	huge := func(c numa.Cell, pages ...numa.Pages) numa.Cell { c.Pages = pages; return c }
	with := func(p numa.GuestCell, change func(*numa.GuestCell)) numa.GuestCell { change(&p); return p }
	pages := func(kb int) func(*numa.GuestCell) { return func(p *numa.GuestCell) { p.PageKB = kb } }
	threads := func(w numa.Threads) func(*numa.GuestCell) { return func(p *numa.GuestCell) { p.Threads = w } }
	emulator := func(p *numa.GuestCell) { p.Emulator = 1 }
	used := cell(0, 4)
	used.UsedMemory, used.Floating = 7680, 3
	for _, c := range []struct {
		name    string
		cell    numa.Cell
		guest   numa.GuestCell
		limits  numa.Limits
		refused string // Reason: Nearest
		want    numa.Placed
	}{
		{name: "dedicated", cell: pinned(cell(0, 4), 0), guest: guestCell(2, true),
			want: numa.Placed{CPUs: map[int]int{0: 1, 1: 2}}},
		{name: "too few dedicated", cell: pinned(cell(0, 4), 0), guest: guestCell(4, true),
			refused: "no NUMA node has 4 threads for dedicated CPUs left: node 0 has 3"},
		{name: "emulator isolated", cell: cell(0, 4), guest: with(guestCell(3, true), emulator),
			want: numa.Placed{CPUs: map[int]int{0: 0, 1: 1, 2: 2}, Emulator: []int{3}}},
		{name: "no thread for the emulator", cell: cell(0, 3), guest: with(guestCell(3, true), emulator),
			refused: "no NUMA node has 4 threads for dedicated CPUs left: node 0 has 3"},
		{name: "prefer uses whole cores", cell: pinned(smt(cell(0, 6)), 1), guest: guestCell(2, true),
			want: numa.Placed{CPUs: map[int]int{0: 2, 1: 3}}},
		{name: "prefer uses halves if no core is whole", cell: pinned(smt(cell(0, 4)), 1, 3), guest: guestCell(2, true),
			want: numa.Placed{CPUs: map[int]int{0: 0, 1: 2}}},
		{name: "require", cell: pinned(smt(cell(0, 6)), 1), guest: with(guestCell(3, true), threads(numa.Require)),
			want: numa.Placed{CPUs: map[int]int{0: 2, 1: 3, 2: 4}}},
		{name: "require with halves only", cell: pinned(smt(cell(0, 4)), 1, 3), guest: with(guestCell(2, true),
			threads(numa.Require)),
			refused: "no NUMA node has 2 threads that share cores left (hw:cpu_thread_policy require): node 0 has 0"},
		{name: "require without SMT", cell: cell(0, 4), guest: with(guestCell(2, true), threads(numa.Require)),
			refused: "no NUMA node has cores with several threads (hw:cpu_thread_policy require): node 0 has none"},
		{name: "isolate without SMT", cell: cell(0, 2), guest: with(guestCell(2, true), threads(numa.Isolate)),
			want: numa.Placed{CPUs: map[int]int{0: 0, 1: 1}}},
		{name: "isolate with SMT", cell: smt(cell(0, 4)), guest: with(guestCell(2, true), threads(numa.Isolate)),
			want: numa.Placed{CPUs: map[int]int{0: 0, 1: 2}}},
		{name: "isolate needs a core for the emulator", cell: smt(cell(0, 4)),
			guest:   with(with(guestCell(2, true), threads(numa.Isolate)), emulator),
			refused: "no NUMA node has 3 idle cores (hw:cpu_thread_policy isolate): node 0 has 2"},
		{name: "isolate beside a busy thread", cell: pinned(smt(cell(0, 4)), 1), guest: with(guestCell(2, true),
			threads(numa.Isolate)),
			refused: "no NUMA node has 2 idle cores (hw:cpu_thread_policy isolate): node 0 has 1"},
		{name: "shared", cell: cell(0, 0), guest: guestCell(2, false)},
		{name: "shared may not exceed the cell, whatever the ratio", cell: cell(0, 0), guest: guestCell(3, false),
			limits:  numa.Limits{CPU: 16},
			refused: "no NUMA node has 3 threads for shared CPUs: node 0 has 2"},
		{name: "shared beyond the ratio", cell: used, guest: guestCell(2, false), limits: numa.Limits{CPU: 2, Memory: 2},
			refused: "no NUMA node has room for 2 shared CPUs left: node 0 has 3 on 2 threads, at most 4"},
		{name: "shared within the ratio", cell: used, guest: guestCell(1, false), limits: numa.Limits{CPU: 2, Memory: 2}},
		{name: "memory", cell: used, guest: guestCell(1, true), refused: "no NUMA node has 1024 MiB of memory left: node 0 " +
			"has 512"},
		{name: "memory is not overcommitted with dedicated CPUs", cell: used, guest: guestCell(1, true),
			limits:  numa.Limits{Memory: 2},
			refused: "no NUMA node has 1024 MiB of memory left: node 0 has 512"},
		{name: "memory is not overcommitted if small pages are requested", cell: used, guest: with(guestCell(1, false),
			pages(numa.OwnPages)), limits: numa.Limits{Memory: 2, CPU: 4},
			refused: "no NUMA node has 1024 MiB of memory left: node 0 has 512"},
		{name: "memory may not exceed the cell, whatever the ratio", cell: cell(0, 0), guest: with(guestCell(1, false),
			func(p *numa.GuestCell) { p.MemoryMB = 8193 }),
			limits: numa.Limits{Memory: 2}, refused: "no NUMA node has 8193 MiB of memory left: node 0 has 8192"},
		{name: "huge pages are not available as small pages", cell: huge(cell(0, 1), numa.Pages{SizeKB: 2048, Total: 3840}),
			guest:   guestCell(1, true),
			refused: "no NUMA node has 1024 MiB of memory left: node 0 has 512"},
		{name: "huge pages", cell: huge(cell(0, 1), numa.Pages{SizeKB: 2048, Total: 600, Used: 88}),
			guest: with(guestCell(1, true),
				pages(2048)),
			want: numa.Placed{CPUs: map[int]int{0: 0}, PageKB: 2048}},
		{name: "too few huge pages", cell: huge(cell(0, 1), numa.Pages{SizeKB: 2048, Total: 600, Used: 89}),
			guest: with(guestCell(1, true),
				pages(2048)),
			refused: "no NUMA node has 512 pages of 2 MiB left: node 0 has 511 of 2 MiB"},
		{name: "no pages of the size", cell: cell(0, 1), guest: with(guestCell(1, true), pages(1<<20)),
			refused: "no NUMA node has pages of 1 GiB: node 0 has none"},
		{name: "large uses the largest pages that fit", cell: huge(cell(0, 1), numa.Pages{SizeKB: 2048, Total: 600},
			numa.Pages{SizeKB: 1 << 20, Total: 1, Used: 1}),
			guest: with(guestCell(1, false), pages(numa.LargePages)), want: numa.Placed{PageKB: 2048}},
		{name: "large needs huge pages", cell: cell(0, 1), guest: with(guestCell(1, false), pages(numa.LargePages)),
			refused: "no NUMA node has huge pages: node 0 has none"},
		{name: "large with too few huge pages", cell: huge(cell(0, 1), numa.Pages{SizeKB: 2048, Total: 256}),
			guest: with(guestCell(1, false),
				pages(numa.LargePages)),
			refused: "no NUMA node has huge pages for 1024 MiB left: node 0 has 256 of 2 MiB"},
		{name: "any uses small pages if there are too few huge ones",
			cell: huge(cell(0, 1), numa.Pages{SizeKB: 2048, Total: 256}), guest: with(guestCell(1, false),
				pages(numa.AnyPages))},
		{name: "any with too few pages of both kinds", cell: huge(used, numa.Pages{SizeKB: 2048, Total: 128}),
			guest: with(guestCell(1, true),
				pages(numa.AnyPages)),
			refused: "no NUMA node has huge pages for 1024 MiB left: node 0 has 128 of 2 MiB"},
		{name: "memory is not a multiple of the page size", cell: huge(cell(0, 1), numa.Pages{SizeKB: 1 << 20, Total: 4}),
			guest:   with(guestCell(1, false), func(p *numa.GuestCell) { p.PageKB, p.MemoryMB = 1<<20, 1536 }),
			refused: "no NUMA node has pages that 1536 MiB is a multiple of: node 0 has pages of 1 GiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			placed, refusal := numa.Fit(numa.Host{Cells: []numa.Cell{c.cell}, Limits: c.limits},
				numa.Guest{Cells: []numa.GuestCell{c.guest}}, numa.Judge{})
			if got := strings.TrimPrefix(refusal.Reason+": "+refusal.Nearest, ": "); got != c.refused {
				t.Fatalf("refused %q, want %q", got, c.refused)
			}
			if c.refused == "" && !reflect.DeepEqual(placed, []numa.Placed{c.want}) {
				t.Errorf("placed %+v, want %+v", placed, c.want)
			}
		})
	}
}
