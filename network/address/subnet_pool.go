package address

import (
	"net/netip"
	"slices"
)

// Compact returns prefixes sorted, without those that others contain; two that are the halves of one are joined.
func Compact(prefixes []netip.Prefix) []netip.Prefix {
	var all []netip.Prefix
	for _, p := range prefixes {
		all = append(all, p.Masked())
	}
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		if n := a.Addr().Compare(b.Addr()); n != 0 {
			return n
		}
		return a.Bits() - b.Bits()
	})
	var out []netip.Prefix
	for _, p := range all {
		if len(out) > 0 && out[len(out)-1].Overlaps(p) {
			continue
		}
		out = append(out, p)
		for n := len(out); n > 1 && areHalves(out[n-2], out[n-1]); n = len(out) {
			out = append(out[:n-2], netip.PrefixFrom(out[n-2].Addr(), out[n-2].Bits()-1))
		}
	}
	return out
}

// areHalves reports whether two prefixes are the halves of a shorter one, in this order.
func areHalves(a, b netip.Prefix) bool {
	if a.Bits() != b.Bits() || a.Bits() == 0 {
		return false
	}
	both := netip.PrefixFrom(a.Addr(), a.Bits()-1).Masked()
	return both.Addr() == a.Addr() && both.Contains(b.Addr())
}

// FreePrefix returns the first free prefix of a length in pools. ok is false if there is none.
func FreePrefix(pools, used []netip.Prefix, bits int) (free netip.Prefix, ok bool) {
	used = Compact(used)
	for _, pool := range Compact(pools) {
		if bits < pool.Bits() {
			continue
		}
		at := pool.Addr()
		for at.IsValid() && pool.Contains(at) {
			block := netip.PrefixFrom(at, bits).Masked()
			taken := slices.IndexFunc(used, func(u netip.Prefix) bool { return u.Overlaps(block) })
			if taken < 0 && block.Addr() == at {
				return block, true
			}
			next := LastOf(block)
			if taken >= 0 && next.Less(LastOf(used[taken])) {
				next = LastOf(used[taken])
			}
			at = next.Next()
		}
	}
	return netip.Prefix{}, false
}

// Within reports whether one of the pools contains a prefix.
func Within(pools []netip.Prefix, p netip.Prefix) bool {
	return slices.ContainsFunc(pools, func(pool netip.Prefix) bool {
		return pool.Bits() <= p.Bits() && pool.Contains(p.Addr())
	})
}
