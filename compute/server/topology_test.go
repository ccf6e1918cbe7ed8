package server

import (
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/numa"
)

// TestTopologyOfServer tests who sees where the NUMA cells of a server are, from 2.78 on.
func TestTopologyOfServer(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	plain := h.server(h.client("ann:p1"), "plain", "small")
	id := h.server(h.client("ann:p1"), "cells", "small")
	if _, err := h.store.Change(t.Context(), id, func(s lifecycle.Server) lifecycle.Server {
		s.Topology = []numa.GuestCell{{VCPUs: []int{0, 1}, Dedicated: []int{0, 1}, MemoryMB: 512, PageKB: 2048}}
		s.Cells = []numa.Placed{{Node: 1, CPUs: map[int]int{0: 4, 1: 5}, PageKB: 2048}}
		return s
	}); err != nil {
		t.Fatal(err)
	}
	const cell = `"memory_mb":512,"vcpu_set":[0,1],"siblings":[]`
	h.exchanges("ann:p1", []exchange{
		{"2.77", "GET", "/servers/" + id + "/topology", "", 404, "itemNotFound"},
		{"2.78", "GET", "/servers/" + plain + "/topology", "", 200, `{"nodes":[],"pagesize_kb":null}`},
		{"2.78", "GET", "/servers/" + id + "/topology", "", 200, `{"nodes":[{` + cell + `}],"pagesize_kb":2048}`},
	})
	h.exchanges("admin", []exchange{
		{"2.78", "GET", "/servers/" + id + "/topology", "", 200, cell + `,"host_node":1,"cpu_pinning":{"0":4,"1":5}`},
	})
}
