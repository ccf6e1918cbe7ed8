package candidate

import "math/bits"

// sumsLimit is the largest limit for which largestSum tries all sums, after division by the common divisor.
const sumsLimit = 1 << 15

// largestSum returns the largest sum of some of the amounts that is not above limit, or an upper bound of it if limit
// is large. Amounts are positive.
func largestSum(amounts []int, limit int) int {
	if len(amounts) == 0 || limit <= 0 {
		return 0
	}
	divisor := 0
	for _, n := range amounts {
		divisor = gcd(divisor, n)
	}
	most := limit / divisor
	all := 0
	for _, n := range amounts {
		if all += n / divisor; all >= most {
			all = most + 1
		}
	}
	if all <= most {
		return all * divisor
	}
	if most > sumsLimit {
		return most * divisor
	}
	sums := make([]uint64, most/64+1) // bit n: n is a sum
	sums[0] = 1
	for _, n := range amounts {
		addShifted(sums, n/divisor)
	}
	for n := most; ; n-- {
		if sums[n/64]&(1<<(n%64)) != 0 {
			return n * divisor
		}
	}
}

// addShifted adds n to each number of the set, beside the numbers as they are.
func addShifted(set []uint64, n int) {
	words, rest := n/64, n%64
	for i := len(set) - 1; i >= words; i-- {
		moved := set[i-words] << rest
		if rest > 0 && i > words {
			moved |= set[i-words-1] >> (bits.UintSize - rest)
		}
		set[i] |= moved
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
