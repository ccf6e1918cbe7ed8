package flavor

import (
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/resource"
)

// The extra specs about CPUs. Images have the same properties with hw_ instead of hw:, except the mask.
const (
	cpuPolicySpec = "hw:cpu_policy"
	threadsSpec   = "hw:cpu_thread_policy"
	maskSpec      = "hw:cpu_dedicated_mask"
	emulatorSpec  = "hw:emulator_threads_policy"
)

// The values of hw:cpu_policy.
const (
	shared    = "shared"
	dedicated = "dedicated"
	mixed     = "mixed"
)

// maxCPUs is the maximum number of CPUs of a server with dedicated CPUs or NUMA cells. Hypervisors support fewer.
const maxCPUs = 4096

const hyperthreading resource.Trait = "HW_CPU_HYPERTHREADING"

// cpus describes how the CPUs of a server are mapped to host threads.
type cpus struct {
	total     int
	policy    string // "" is shared
	dedicated []int  // numbers of the dedicated CPUs, ascending
	threads   numa.Threads
	emulator  int  // separate host threads for the emulator
	inGroups  bool // the flavor requests PCPU in its extra specs
}

// readCPUs reads the CPU settings of flavor and image.
func readCPUs(f Flavor, i Image) (cpus, error) {
	c := cpus{total: f.VCPUs}
	for _, read := range []func(Flavor, Image) error{c.readPolicy, c.readDedicated, c.readThreads, c.readEmulator} {
		if err := read(f, i); err != nil {
			return cpus{}, err
		}
	}
	return c, nil
}

// readPolicy reads hw:cpu_policy. dedicated in the flavor takes precedence; otherwise the image must not request
// more than the flavor.
func (c *cpus) readPolicy(f Flavor, i Image) error {
	w := readSetting(f, i, cpuPolicySpec)
	known := []string{shared, dedicated, mixed}
	if w.flavor == dedicated && slices.Contains(known, w.image) || w.flavor == mixed && w.image == shared {
		w.image = ""
	}
	var err error
	if c.policy, err = w.oneOf(known...); err != nil {
		return err
	}
	asked, named := 0, ""
	for key, value := range f.ExtraSpecs {
		m := groupSpec.FindStringSubmatch(key)
		if m == nil || m[1] != "resources" || m[3] != "PCPU" && m[3] != "VCPU" {
			continue
		}
		named = max(named, key)
		if m[3] == "PCPU" {
			n, _ := strconv.Atoi(value) // groups.read refuses a value that is not a number
			asked += n
		}
	}
	switch {
	case named != "" && (c.policy == dedicated || c.policy == mixed):
		return invalid("%s is %s, and extra spec %s requests CPUs too; remove one of them", w.source(), c.policy, named)
	case asked > 0 && c.policy == shared:
		return invalid("%s is shared, and extra spec %s requests PCPU; remove one of them", w.source(), named)
	case asked == 0:
	case asked != c.total:
		return invalid("the flavor has %d CPUs and its groups request %d PCPU; to mix dedicated and shared CPUs, "+
			"write %s=mixed and %s", c.total, asked, cpuPolicySpec, maskSpec)
	default:
		c.policy, c.inGroups = dedicated, true
	}
	return nil
}

// readDedicated sets the dedicated CPUs.
func (c *cpus) readDedicated(f Flavor, _ Image) error {
	text, set := f.ExtraSpecs[maskSpec]
	switch {
	case c.policy != mixed && set:
		return invalid("extra spec %s requires %s=mixed", maskSpec, cpuPolicySpec)
	case c.policy != "" && c.policy != shared && c.total > maxCPUs:
		return invalid("the flavor has %d CPUs; with %s %s at most %d are possible",
			c.total, cpuPolicySpec, c.policy, maxCPUs)
	case c.policy == dedicated:
		c.dedicated = allBelow(c.total)
		return nil
	case c.policy != mixed:
		return nil
	case !set:
		return invalid("%s is mixed; set extra spec %s to the dedicated CPUs, such as \"0-1\", "+
			"or \"^0\" for all except the first", cpuPolicySpec, maskSpec)
	}
	list, err := readSet(maskSpec, text, c.total)
	if err != nil {
		return err
	}
	if len(list) == 0 || len(list) == c.total {
		return invalid("extra spec %s is %q, which makes %d of %d CPUs dedicated; for all or none set %s instead",
			maskSpec, text, len(list), c.total, cpuPolicySpec)
	}
	c.dedicated = list
	return nil
}

// readThreads reads hw:cpu_thread_policy.
func (c *cpus) readThreads(f Flavor, i Image) error {
	w := readSetting(f, i, threadsSpec)
	known := []string{string(numa.Prefer), string(numa.Isolate), string(numa.Require)}
	if w.flavor == string(numa.Prefer) && slices.Contains(known, w.image) {
		w.image = ""
	}
	text, err := w.oneOf(known...)
	if err != nil || text == "" {
		return err
	}
	if len(c.dedicated) == 0 {
		return invalid("%s is %q, but no CPU is dedicated; set %s to dedicated or mixed",
			w.source(), text, cpuPolicySpec)
	}
	c.threads = numa.Threads(text)
	return nil
}

// readEmulator reads hw:emulator_threads_policy.
func (c *cpus) readEmulator(f Flavor, i Image) error {
	w := readSetting(f, i, emulatorSpec)
	text, err := w.oneOf("share", "isolate")
	if err != nil || text != "isolate" {
		return err
	}
	if len(c.dedicated) == 0 {
		return invalid("%s is isolate, but no CPU is dedicated; set %s to dedicated or mixed",
			w.source(), cpuPolicySpec)
	}
	if c.inGroups {
		return invalid("%s is isolate, and an extra spec requests resources of class PCPU; write %s=dedicated instead",
			w.source(), cpuPolicySpec)
	}
	c.emulator = 1
	return nil
}

// amounts returns the resources for the CPUs: PCPU for dedicated CPUs and emulator threads, VCPU for the others.
func (c cpus) amounts() resource.Amounts {
	pinned := len(c.dedicated)
	out := resource.Amounts{"VCPU": c.total - pinned}
	if pinned > 0 {
		out["PCPU"] = pinned + c.emulator
	}
	return out
}

// traits returns the traits of the host that the thread policy requires and forbids.
func (c cpus) traits() (required, forbidden []resource.Trait) {
	switch c.threads {
	case numa.Require:
		return []resource.Trait{hyperthreading}, nil
	case numa.Isolate:
		return nil, []resource.Trait{hyperthreading}
	}
	return nil, nil
}

// allBelow returns the numbers from 0 to n-1.
func allBelow(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// readSet parses a set of CPU numbers below total, such as "0-3,^2,7". An element that begins with "^" is excluded. If
// all elements are exclusions, they apply to the set of all CPUs.
func readSet(key, text string, total int) ([]int, error) {
	in, out, some := map[int]bool{}, map[int]bool{}, false
	for part := range strings.SplitSeq(text, ",") {
		part, not := strings.CutPrefix(strings.TrimSpace(part), "^")
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		from, err1 := strconv.ParseUint(strings.TrimSpace(first), 10, 31)
		to, err2 := strconv.ParseUint(strings.TrimSpace(last), 10, 31)
		if err1 != nil || err2 != nil || from > to {
			return nil, invalid("%s is %q; write CPU numbers and ranges, such as \"0-3,6\"", key, text)
		}
		if int(to) >= total {
			return nil, invalid("%s is %q, but there are %d CPUs, numbered from 0", key, text, total)
		}
		some = some || !not
		for n := int(from); n <= int(to); n++ {
			if not {
				out[n] = true
			} else {
				in[n] = true
			}
		}
	}
	var list []int
	for n := range total {
		if (in[n] || !some) && !out[n] {
			list = append(list, n)
		}
	}
	return list, nil
}
