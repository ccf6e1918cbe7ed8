package candidate

import "slices"

// tryPackings places the items in many different orders, each on the slot that suits it best at that moment, without
// going back. Where the groups nearly fill the slots, one of the orders often succeeds although the first one, of
// greedy, does not. It keeps the placement as the witness if one succeeds, and counts a step for each order.
func (s *search) tryPackings(first, orders int) bool {
	var items []int
	for _, i := range s.order {
		if !s.fixed[i] {
			items = append(items, i)
		}
	}
	scales := s.scales()
	weights := make([]float64, len(s.query.Items))
	for n := first; n < first+orders && !s.stop.step(searchCost); n++ {
		for _, i := range items {
			noise := float64((i*7919+n*104729+(i+1)*n*31)%1009) / 1009 // spread evenly, and the same each time
			weights[i] = s.load(i, scales) * (1 + 0.6*noise)
		}
		slices.SortFunc(items, func(a, b int) int {
			switch {
			case weights[a] > weights[b]:
				return -1
			case weights[a] < weights[b]:
				return 1
			}
			return a - b
		})
		if s.pack(items, scales, n%2 == 0) {
			return true
		}
	}
	return false
}

// scales returns by class of the section the inverse of what all slots have together.
func (s *search) scales() []float64 {
	scales := make([]float64, len(s.section.Classes))
	for k, class := range s.section.Classes {
		sum := 0.0
		for at := range int32(len(s.slots.slots)) {
			sum += float64(s.rooms(at)[class])
		}
		scales[k] = 1 / max(sum, 1)
	}
	return scales
}

// load returns the sum of the shares of all classes that an item needs.
func (s *search) load(i int, scales []float64) (sum float64) {
	c := s.classOf(i)
	for k, class := range s.section.Classes {
		sum += float64(c.Amount(class)) * scales[k]
	}
	return sum
}

// pack places the items in this order, and keeps the placement as the witness if all have a slot. An item is placed
// where least is left, or, if aligned is set, where what is left is most like what it needs.
func (s *search) pack(items []int, scales []float64, aligned bool) bool {
	placed := 0
	for ; placed < len(items); placed++ {
		i := items[placed]
		c, best, score := s.classOf(i), int32(-1), 0.0
		for _, at := range s.domain(i) {
			if !s.fits(c, at) {
				continue
			}
			now, rooms := 0.0, s.rooms(at)
			for k, class := range s.section.Classes {
				left := float64(rooms[class]) * scales[k]
				if aligned {
					now += left * float64(c.Amount(class)) * scales[k]
				} else {
					now -= left
				}
			}
			if best < 0 || now > score {
				best, score = at, now
			}
		}
		if best < 0 {
			break
		}
		s.put(i, best)
	}
	if placed == len(items) {
		copy(s.witness, s.place)
	}
	for _, i := range items[:placed] {
		s.remove(i, s.place[i])
	}
	return placed == len(items)
}
