package sim

// randomSet is a set from which a random element can be drawn.
type randomSet struct {
	list []string
	at   map[string]int
}

func (b *randomSet) add(s string) {
	if _, in := b.at[s]; in {
		return
	}
	if b.at == nil {
		b.at = map[string]int{}
	}
	b.at[s] = len(b.list)
	b.list = append(b.list, s)
}

func (b *randomSet) drop(s string) {
	i, in := b.at[s]
	if !in {
		return
	}
	last := b.list[len(b.list)-1]
	b.list[i], b.at[last] = last, i
	b.list = b.list[:len(b.list)-1]
	delete(b.at, s)
}
