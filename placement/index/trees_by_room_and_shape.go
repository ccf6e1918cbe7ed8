package index

import (
	"encoding/binary"
	"iter"
	"math/bits"
	"slices"

	"github.com/openberth/berth/provider"
)

// Two more orders of the trees, so that queries about all trees need not visit all of them: by shape, and by the
// largest amount of a class that one provider of a tree has left. A key is the value to order by, followed by the
// root.

// shapeKey returns the key of a tree in the order of shapes.
func (t *Tree) shapeKey() provider.ID {
	key := binary.BigEndian.AppendUint64(make([]byte, 0, 16+len(t.Root)), t.Shape[0])
	return provider.ID(append(binary.BigEndian.AppendUint64(key, t.Shape[1]), t.Root...))
}

// roomKey is a class and the number of binary digits of the largest amount that one provider of a tree has left. The
// order changes only with the number of digits, so most changes of usage do not affect it.
type roomKey [5]byte

func roomOf(class ID, amount int) roomKey {
	var r roomKey
	binary.BigEndian.PutUint32(r[:], uint32(class))
	r[4] = byte(bits.Len(uint(amount)))
	return r
}

// rooms returns the keys of the classes that a tree has something left of, sorted.
func (t *Tree) rooms() []roomKey {
	var most [32]int // by position in t.Classes; later classes are not counted
	left := most[:0]
	if left = append(left, make([]int, len(t.Classes))...); len(left) == 0 {
		return nil
	}
	for i := range t.Nodes {
		for j := range t.Nodes[i].Inventories {
			st := &t.Nodes[i].Inventories[j]
			if at, found := slices.BinarySearch(t.Classes, st.Class); found {
				left[at] = max(left[at], st.Room)
			}
		}
	}
	out := make([]roomKey, 0, len(left))
	for at, n := range left {
		if n > 0 {
			out = append(out, roomOf(t.Classes[at], n))
		}
	}
	return out
}

func (r roomKey) key(root provider.ID) provider.ID { return provider.ID(r[:]) + root }

// updateOrders replaces a tree by another one in both orders. A tree without nodes is not in them.
func (s *Snapshot) updateOrders(old, fresh *Tree) {
	if old.Shape != fresh.Shape || len(old.Nodes)*len(fresh.Nodes) == 0 {
		s.byShape = s.byShape.edit(func(d *draft[struct{}]) {
			if len(old.Nodes) > 0 {
				d.drop(old.shapeKey())
			}
			if len(fresh.Nodes) > 0 {
				d.put(fresh.shapeKey(), struct{}{})
			}
		})
	}
	before, after := old.rooms(), fresh.rooms()
	if slices.Equal(before, after) {
		return
	}
	s.byRoom = s.byRoom.edit(func(d *draft[struct{}]) {
		for _, r := range before {
			if !slices.Contains(after, r) {
				d.drop(r.key(old.Root))
			}
		}
		for _, r := range after {
			if !slices.Contains(before, r) {
				d.put(r.key(fresh.Root), struct{}{})
			}
		}
	})
}

// buildOrders builds both orders of all trees. Only Build calls it.
func (s *Snapshot) buildOrders() {
	var shapes, rooms []provider.ID
	for root, t := range s.trees.all() {
		shapes = append(shapes, t.shapeKey())
		for _, r := range t.rooms() {
			rooms = append(rooms, r.key(root))
		}
	}
	for keys, in := range map[*[]provider.ID]*sorted[struct{}]{&shapes: &s.byShape, &rooms: &s.byRoom} {
		slices.Sort(*keys)
		for _, key := range *keys {
			in.append(key, struct{}{})
		}
	}
}

// between iterates over the keys from one on and below another one, if that is not empty.
func (s sorted[V]) between(from, to provider.ID) iter.Seq[provider.ID] {
	return func(yield func(provider.ID) bool) {
		at, in, _ := s.locate(from)
		for ; at < len(s.pages); at, in = at+1, 0 {
			for _, key := range s.pages[at].keys[in:] {
				if to != "" && key >= to || !yield(key) {
					return
				}
			}
		}
	}
}

// Span is a range of an order of the trees.
type Span struct {
	snapshot *Snapshot
	order    sorted[struct{}]
	from, to provider.ID
	prefix   int // length of the part of a key before the root
}

// Len returns the number of trees, but at most the given limit.
func (s Span) Len(most int) int {
	n := 0
	for range s.order.between(s.from, s.to) {
		if n++; n >= most {
			break
		}
	}
	return n
}

// All iterates over the trees, not in the order of their IDs.
func (s Span) All() iter.Seq[*Tree] {
	return func(yield func(*Tree) bool) {
		for key := range s.order.between(s.from, s.to) {
			if !yield(s.snapshot.Lookup(key[s.prefix:])) {
				return
			}
		}
	}
}

// WithRoom returns the trees in which some provider may have amount units of a class left: all that have them, and
// some that have at least half.
func (s *Snapshot) WithRoom(class ID, amount int) Span {
	from, to := roomOf(class, amount), roomOf(class, 0)
	to[4] = 65
	return Span{s, s.byRoom, provider.ID(from[:]), provider.ID(to[:]), len(from)}
}

// afterAnyRoot is greater than any root in UTF-8.
const afterAnyRoot = "\xff"

// SameShape returns the trees with the same shape as t.
func (s *Snapshot) SameShape(t *Tree) Span {
	from := t.shapeKey()[:16]
	return Span{s, s.byShape, from, from + afterAnyRoot, 16}
}

// Shapes iterates over one tree of each shape.
func (s *Snapshot) Shapes() iter.Seq[*Tree] {
	return func(yield func(*Tree) bool) {
		for from := provider.ID(""); ; {
			key := provider.ID("")
			for key = range s.byShape.between(from, "") {
				break
			}
			if key == "" || !yield(s.Lookup(key[16:])) {
				return
			}
			from = key[:16] + afterAnyRoot
		}
	}
}
