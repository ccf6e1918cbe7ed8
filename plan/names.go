package plan

import (
	"fmt"
	"slices"
	"strings"
)

// describe returns a text for kinds. It is the same for other kinds if they differ in nothing, except in the name own,
// and in names that no kind outside has: these are numbered, with how many sets were given the value already. Other
// values of the same set as own are not numbered, because some of them may not be used any more. With costs (by request
// and kind) these count instead of the nodes.
func (s *search) describe(inside []int, costs [][]int, node int, own name, given map[name]int) string {
	s.spend(100 * (len(s.kinds) + 10*len(inside)))
	local := map[name]string{}
	for _, k := range inside {
		for _, n := range s.kinds[k].names() {
			if n.set != own.set {
				local[n] = fmt.Sprint("given ", given[n])
			}
		}
	}
	for k, of := range s.kinds {
		if !slices.Contains(inside, k) {
			for _, n := range of.names() {
				delete(local, n)
			}
		}
	}
	local[own] = "*"
	text := func() (list []string) {
		for _, k := range inside {
			list = append(list, s.kinds[k].text(local, costs, k, node))
		}
		return list
	}
	// number the names in the order of what they are on
	before := text()
	on := map[name]string{}
	for n := range local {
		if n == own {
			continue
		}
		list := []string{local[n]}
		for i, k := range inside {
			if slices.Contains(s.kinds[k].names(), n) {
				list = append(list, before[i])
			}
		}
		slices.Sort(list)
		on[n] = strings.Join(list, "\n")
	}
	order := make([]name, 0, len(on))
	for n := range on {
		order = append(order, n)
	}
	slices.SortFunc(order, func(a, b name) int {
		if on[a] != on[b] {
			return compareText(on[a], on[b])
		}
		return compareText(fmt.Sprint(a), fmt.Sprint(b))
	})
	for i, n := range order {
		local[n] = fmt.Sprint(i, " ", local[n])
	}
	list := text()
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// text returns all that distinguishes a kind, with the new names of some of its names. node is written as an asterisk.
func (k kind) text(rename map[name]string, costs [][]int, number, node int) string {
	var b strings.Builder
	fmt.Fprint(&b, len(k.list), k.fits, k.whole, k.later)
	if costs != nil {
		for _, row := range costs {
			fmt.Fprint(&b, " ", row[number])
		}
	} else {
		for _, nodes := range [][]int{k.near, k.beside} {
			b.WriteByte('|')
			for _, n := range nodes {
				if n == node {
					b.WriteByte('*')
				} else {
					fmt.Fprint(&b, " ", n)
				}
			}
		}
	}
	var list []string
	for _, n := range k.names() {
		if to, renamed := rename[n]; renamed {
			list = append(list, fmt.Sprint(n.set, to))
		} else {
			list = append(list, fmt.Sprintf("%d %q", n.set, n.value))
		}
	}
	slices.Sort(list)
	return b.String() + "|" + strings.Join(list, " ")
}
