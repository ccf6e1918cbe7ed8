package index

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
)

// Shape is the same for two trees of one line of snapshots exactly when they differ in nothing but IDs, names, generations
// and the order of siblings: same inventories, usage, traits and aggregates on providers that lie in the same way. Whatever
// can be had from one of them can be had from the other. It is a digest: that two shapes meet by accident, or can be made
// to, is as unlikely as it gets.
type Shape [16]byte

// shape sums the tree up. Children stand behind their parents, so they are summed up before them.
func (t *Tree) shape() Shape {
	sums := make([]Shape, len(t.Nodes))
	var tops, below []Shape
	var text []byte
	for i := len(t.Nodes) - 1; i >= 0; i-- {
		n := &t.Nodes[i]
		below = below[:0]
		for c := i + 1; c < int(n.End); c = int(t.Nodes[c].End) {
			below = append(below, sums[c])
		}
		text = n.append(text[:0])
		sums[i] = sum(text, below)
		if n.Parent < 0 && (i > 0 || t.Top() == nil) {
			tops = append(tops, sums[i])
		}
	}
	if t.Top() != nil {
		tops = append(tops, sums[0])
		if len(tops) == 1 {
			return tops[0]
		}
		return sum(tops[len(tops)-1][:], tops[:len(tops)-1])
	}
	return sum(nil, tops)
}

// sum is the digest of a text and of other sums in any order.
func sum(text []byte, of []Shape) Shape {
	slices.SortFunc(of, func(a, b Shape) int { return bytes.Compare(a[:], b[:]) })
	for i := range of {
		text = append(text, of[i][:]...)
	}
	whole := sha256.Sum256(text)
	return Shape(whole[:])
}

// append writes what the node has, so that no two nodes that differ read the same.
func (n *Node) append(to []byte) []byte {
	number := func(v int) { to = binary.AppendVarint(to, int64(v)) }
	number(len(n.Stocks))
	for i := range n.Stocks {
		st := &n.Stocks[i]
		for _, v := range [...]int{int(st.Class), st.Inventory.Total, st.Inventory.Reserved, st.Inventory.MinUnit, st.Inventory.MaxUnit,
			st.Inventory.StepSize, st.Used} {
			number(v)
		}
		to = binary.LittleEndian.AppendUint64(to, math.Float64bits(st.Inventory.AllocationRatio))
	}
	for _, list := range [...][]No{n.Traits, n.Aggregates} {
		number(len(list))
		for _, no := range list {
			number(int(no))
		}
	}
	if n.shares {
		return append(to, 1)
	}
	return append(to, 0)
}
