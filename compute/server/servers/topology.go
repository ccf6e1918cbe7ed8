package servers

import (
	"net/http"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/numa"
)

// topologyRoutes returns the path of the NUMA topology of a server (2.78).
func topologyRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/servers/{id}/topology": {
			http.MethodGet: request.Since(compute.Topology, s.OfServer(policies.ShowTopology, showTopology)),
		},
	}
}

// showTopology is GET /v2.1/servers/{id}/topology: the NUMA cells of the guest. Nova's rules are
// compute:server:topology:index and, for the nodes and threads of the host, compute:server:topology:host:index.
func showTopology(c *request.Call, found lifecycle.Server) error {
	onHost, _ := c.Allowed(policies.ShowTopologyOfHost, request.OwnerOf(found))
	return c.WriteJSON(http.StatusOK, topologyView(found, onHost))
}

// topologyView returns the view of the NUMA cells of a server, with their places on its host if onHost is true.
func topologyView(s lifecycle.Server, onHost bool) compute.ServerTopology {
	view := compute.ServerTopology{Nodes: []compute.TopologyNode{}}
	for i, cell := range s.Topology {
		node := compute.TopologyNode{MemoryMB: cell.MemoryMB, CPUs: cell.VCPUs, Siblings: [][]int{}}
		var placed numa.Placed
		if i < len(s.Cells) {
			placed = s.Cells[i]
		}
		if placed.PageKB > 0 {
			view.PageKB = &placed.PageKB
		}
		if onHost && i < len(s.Cells) {
			node.HostNode, node.Pinning = &placed.Node, pinning(placed)
		}
		view.Nodes = append(view.Nodes, node)
	}
	return view
}

// pinning returns the host threads of the dedicated CPUs of a cell; empty, not nil, if there are none.
func pinning(cell numa.Placed) map[int]int {
	if cell.CPUs == nil {
		return map[int]int{}
	}
	return cell.CPUs
}
