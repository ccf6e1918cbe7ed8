package plan

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
)

// profile is what a guest has from one node of the host.
type profile struct {
	class int   // nodes of one class are equivalent if their count is equal
	count []int // by type: the devices near this node, if only their numbers matter
	local []int // by request: the devices near this node, at most as many as the request needs
	sum   int   // of local
}

// profiles are the profiles of all nodes. A type is kinds that differ only in their node.
type profiles struct {
	of     []profile // by host cell
	enough []int     // by type: as many devices as the guest can use
	remote []int     // by request: the devices that it can have from no node of the guest, at most as many as it needs
	needs  []int     // by request
	step   int       // the least cost of a device that is not near
}

// profile computes the profiles of the nodes.
func (s *search) profile(cells []numa.Cell, fits [][]bool) profiles {
	p := profiles{of: make([]profile, len(cells)), step: (s.total + 1) * s.scale}
	classes, types := map[string]int{}, map[string]int{}
	for n, c := range cells {
		of, text := &p.of[n], ""
		for i := range fits {
			text += fmt.Sprint(fits[i][n])
		}
		near, simple := s.touching(c.ID)
		if simple {
			for _, k := range near {
				p.count(of, types, s, k)
			}
		} else {
			text += s.describe(near, nil, c.ID, name{noNames, ""}, nil)
		}
		if _, known := classes[text]; !known {
			classes[text] = len(classes)
		}
		of.class = classes[text]
		of.local = s.local(c.ID)
		for _, n := range of.local {
			of.sum += n
		}
	}
	for r, request := range s.requests {
		p.needs = append(p.needs, request.Count)
		p.remote = append(p.remote, s.remote(r))
	}
	return p
}

// local returns how many devices near a node each request can have, at most as many as it needs.
func (s *search) local(node int) []int {
	list := make([]int, len(s.requests))
	for r, request := range s.requests {
		for k, of := range s.kinds {
			if of.fits[r] && slices.Contains(of.near, node) {
				list[r] += s.room[k]
			}
		}
		list[r] = min(list[r], request.Count)
	}
	return list
}

// touching returns the kinds near or beside a node, and whether only their numbers matter: they are near no other node,
// and have no values and no card.
func (s *search) touching(node int) (list []int, simple bool) {
	simple = true
	for k, of := range s.kinds {
		near, beside := slices.Contains(of.near, node), slices.Contains(of.beside, node)
		if near || beside {
			list = append(list, k)
			alone := len(of.near) == 1 && near && (len(of.beside) == 0 || len(of.beside) == 1 && beside)
			simple = simple && alone && len(of.names()) == 0
		}
	}
	return list, simple
}

// count counts a kind in the profile of its node.
func (p *profiles) count(of *profile, types map[string]int, s *search, k int) {
	text := fmt.Sprint(s.kinds[k].fits, s.kinds[k].later, len(s.kinds[k].beside))
	number, known := types[text]
	if !known {
		number = len(types)
		types[text] = number
		useful := 0
		for r, request := range s.requests {
			if s.kinds[k].fits[r] {
				useful += request.Count
			}
		}
		p.enough = append(p.enough, useful)
	}
	for len(of.count) <= number {
		of.count = append(of.count, 0)
	}
	of.count[number] += s.room[k]
}

// remote returns how many devices a request can have that are near no node of the guest, at most as many as it needs.
func (s *search) remote(r int) (sum int) {
	request := s.requests[r]
	for i, k := range s.kinds {
		if k.fits[r] && (request.Policy == pci.Preferred || request.Policy == pci.Socket && len(k.beside) > 0 ||
			request.Policy != pci.Required && request.Policy != pci.Socket && len(k.near) == 0) {
			sum += s.room[i]
		}
	}
	return min(sum, request.Count)
}

// key returns a text for nodes that were chosen among those before index at. If it is the same for other nodes, these
// are as good together with any of the later ones.
func (p *profiles) key(at int, chosen []int) string {
	count := make([]int, len(p.enough))
	classes := make([]int, 0, len(chosen))
	for _, n := range chosen {
		of := &p.of[n]
		classes = append(classes, of.class)
		for t, n := range of.count {
			count[t] = min(count[t]+n, p.enough[t])
		}
	}
	slices.Sort(classes)
	b := binary.AppendVarint(nil, int64(at))
	for _, n := range append(classes, count...) {
		b = binary.AppendVarint(b, int64(n))
	}
	return string(b)
}

// atLeast returns how many devices a guest on chosen and some of rest lacks at least, and the least cost of all: each
// request can have at most the devices near the nodes with the most of them.
func (p *profiles) atLeast(chosen, rest []int, nodes int) (lacking, cost int) {
	free := nodes - len(chosen)
	total, local, served := 0, 0, 0
	for r, need := range p.needs {
		near := min(need, p.most(chosen, rest, free, func(of *profile) int { return of.local[r] }))
		total, local, served = total+need, local+near, served+min(need, near+p.remote[r])
	}
	together := p.most(chosen, rest, free, func(of *profile) int { return of.sum })
	remote := 0
	for _, n := range p.remote {
		remote += n
	}
	return total - min(served, together+remote), (total - min(local, together)) * p.step
}

// most returns the sum of a number over the chosen nodes and those of the rest where it is largest.
func (p *profiles) most(chosen, rest []int, free int, number func(*profile) int) (sum int) {
	for _, n := range chosen {
		sum += number(&p.of[n])
	}
	list := make([]int, 0, len(rest))
	for _, n := range rest {
		list = append(list, number(&p.of[n]))
	}
	slices.Sort(list)
	for i := range min(free, len(list)) {
		sum += list[len(list)-1-i]
	}
	return sum
}
