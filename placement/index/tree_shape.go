package index

import (
	"math"
	"math/bits"
)

// Odd numbers without a pattern: the first digits of the fractions of the square roots of 2 and 3.
const root2, root3 = 0x6a09e667f3bcc909, 0xbb67ae8584caa73b

// add mixes a number into the digest: two sums of products, each of 128 bits folded to 64.
func (s *Shape) add(v uint64) {
	hi, lo := bits.Mul64(s[0]^v, root2)
	s[0] = hi ^ lo ^ s[1]
	hi, lo = bits.Mul64(s[1]+v, root3)
	s[1] = hi ^ lo + s[0]
}

// shape computes the digest of the tree.
func (t *Tree) shape() Shape {
	s := Shape{root3, root2}
	if t.Top() == nil {
		s.add(1)
	}
	for i := range t.Nodes {
		t.Nodes[i].sum(&s)
	}
	return s
}

// sum adds the properties of the node, so that two different nodes never add the same sequence.
func (n *Node) sum(s *Shape) {
	s.add(uint64(n.Parent + 1))
	s.add(uint64(len(n.Inventories)))
	for i := range n.Inventories {
		st := &n.Inventories[i]
		for _, v := range [...]int{int(st.Class), st.Inventory.Total, st.Inventory.Reserved,
			st.Inventory.MinUnit, st.Inventory.MaxUnit, st.Inventory.StepSize, st.Used} {
			s.add(uint64(v))
		}
		s.add(math.Float64bits(st.Inventory.AllocationRatio))
	}
	for _, list := range [...][]ID{n.Traits, n.Aggregates} {
		s.add(uint64(len(list)))
		for _, no := range list {
			s.add(uint64(no))
		}
	}
	if n.shares {
		s.add(1)
	} else {
		s.add(0)
	}
}
