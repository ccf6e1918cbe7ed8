package index_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// machine returns the rows of a host with 26 devices and 200 traits.
func machine(n int) []index.Row {
	root := provider.ID(fmt.Sprintf("%08d-0000-4000-8000-000000000000", n))
	rows := []index.Row{{Provider: provider.Provider{ID: root, Name: fmt.Sprint("cmp-", n), Root: root,
		Inventories: map[resource.Class]resource.Inventory{
			"VCPU":      resource.Whole(64),
			"MEMORY_MB": resource.Whole(65536),
		}}}}
	for i := range 200 {
		rows[0].Traits = append(rows[0].Traits, resource.Trait(fmt.Sprintf("HW_CPU_%03d", i)))
	}
	for i := range 26 {
		id := provider.ID(fmt.Sprintf("%08d-0000-4000-8000-0000000000%02d", n, i+1))
		rows = append(rows, index.Row{
			Provider: provider.Provider{ID: id, Name: fmt.Sprintf("cmp-%d_%02d", n, i), Root: root, Parent: root,
				Inventories: map[resource.Class]resource.Inventory{
					"CUSTOM_NIC": resource.Whole(1),
				}, Traits: []resource.Trait{"CUSTOM_RED"}},
		})
	}
	return rows
}

func machines(n int) []index.Row {
	var rows []index.Row
	for i := range n {
		rows = append(rows, machine(i)...)
	}
	return rows
}

// BenchmarkBuild builds a snapshot of 10,000 hosts and reports its size in memory.
func BenchmarkBuild(b *testing.B) {
	rows := machines(10000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var s *index.Snapshot
	for b.Loop() {
		s = index.Build(rows)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
	runtime.KeepAlive(s)
	runtime.KeepAlive(rows)
}

// BenchmarkReplace replaces one tree of 10,000: with another usage, and by removing and adding it.
func BenchmarkReplace(b *testing.B) {
	s := index.Build(machines(10000))
	rows := machine(5000)
	rows[3].Used = resource.Amounts{"CUSTOM_NIC": 1}
	b.Run("usage", func(b *testing.B) {
		for b.Loop() {
			s.Replace(rows[0].ID, rows)
		}
	})
	b.Run("structure", func(b *testing.B) {
		for b.Loop() {
			s.Replace(rows[0].ID, nil).Replace(rows[0].ID, rows)
		}
	})
}
