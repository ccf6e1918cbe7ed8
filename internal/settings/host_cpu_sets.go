package settings

import (
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/fault"
)

// maxCPU is larger than the number of CPUs that any kernel supports (CONFIG_NR_CPUS is at most 8192 on x86).
const maxCPU = 1 << 16

// ParseCPUs parses a set such as "4-12,^8,15": numbers and ranges; ^ excludes. It returns the numbers in rising order,
// or fault.Invalid.
func ParseCPUs(text string) ([]int, error) {
	in, out := map[int]bool{}, map[int]bool{}
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		of := in
		rest, excluded := strings.CutPrefix(word, "^")
		if excluded {
			of = out
		}
		from, to, ranged := strings.Cut(rest, "-")
		if !ranged {
			to = from
		}
		first, err1 := strconv.ParseUint(strings.TrimSpace(from), 10, 32)
		last, err2 := strconv.ParseUint(strings.TrimSpace(to), 10, 32)
		if err1 != nil || err2 != nil || first > last || last >= maxCPU {
			return nil, fault.New(fault.Invalid, "%q is not a CPU or a range of CPUs; write them as in 4-12,^8,15", word)
		}
		for n := first; n <= last; n++ {
			of[int(n)] = true
		}
	}
	set := []int{}
	for n := range in {
		if !out[n] {
			set = append(set, n)
		}
	}
	slices.Sort(set)
	if len(set) == 0 {
		return nil, fault.New(fault.Invalid, "the set is empty; remove the option, or write CPUs as in 4-12,^8,15")
	}
	return set, nil
}
