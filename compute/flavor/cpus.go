package flavor

import (
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/resource"
)

// The extra specs about CPUs. Images have each of them too, with hw_ instead of hw:, except for the mask.
const (
	cpuPolicySpec = "hw:cpu_policy"
	threadsSpec   = "hw:cpu_thread_policy"
	maskSpec      = "hw:cpu_dedicated_mask"
	emulatorSpec  = "hw:emulator_threads_policy"
)

// The words of hw:cpu_policy.
const (
	shared    = "shared"
	dedicated = "dedicated"
	mixed     = "mixed"
)

// maxCPUs is how many CPUs a server may have whose CPUs are told apart: more than any hypervisor gives a guest.
const maxCPUs = 4096

const hyperthreading resource.Trait = "HW_CPU_HYPERTHREADING"

// cpus is how the CPUs of a server get host threads.
type cpus struct {
	total     int
	policy    string // "" is shared
	dedicated []int  // numbers of those that have a host thread each, rising
	threads   numa.Threads
	emulator  int  // host threads for the emulator alone
	inGroups  bool // the flavor's own groups ask for PCPU
}

// readCPUs reads what flavor and image say of CPUs.
func readCPUs(f Flavor, i Image) (cpus, error) {
	c := cpus{total: f.VCPUs}
	for _, read := range []func(Flavor, Image) error{c.readPolicy, c.readDedicated, c.readThreads, c.readEmulator} {
		if err := read(f, i); err != nil {
			return cpus{}, err
		}
	}
	return c, nil
}

// readPolicy: a flavor that says dedicated has its way; what else it says, the image may not raise.
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
			n, _ := strconv.Atoi(value) // what is no number is refused where the groups are read
			asked += n
		}
	}
	switch {
	case named != "" && (c.policy == dedicated || c.policy == mixed):
		return invalid("%s is %s, and extra spec %s asks for CPUs too; leave one of them out", w.source(), c.policy, named)
	case asked > 0 && c.policy == shared:
		return invalid("%s is shared, and extra spec %s asks for PCPU; leave one of them out", w.source(), named)
	case asked == 0:
	case asked != c.total:
		return invalid("the flavor has %d CPUs and its groups ask for %d PCPU; for some of each write %s=mixed and %s", c.total, asked, cpuPolicySpec, maskSpec)
	default:
		c.policy, c.inGroups = dedicated, true
	}
	return nil
}

// readDedicated finds out which CPUs are dedicated.
func (c *cpus) readDedicated(f Flavor, _ Image) error {
	text, said := f.ExtraSpecs[maskSpec]
	switch {
	case c.policy != mixed && said:
		return invalid("extra spec %s needs %s=mixed", maskSpec, cpuPolicySpec)
	case c.policy != "" && c.policy != shared && c.total > maxCPUs:
		return invalid("the flavor has %d CPUs; with %s %s at most %d", c.total, cpuPolicySpec, c.policy, maxCPUs)
	case c.policy == dedicated:
		c.dedicated = allBelow(c.total)
		return nil
	case c.policy != mixed:
		return nil
	case !said:
		return invalid("%s is mixed; say in extra spec %s which CPUs are dedicated, such as \"0-1\", or \"^0\" for all but the first", cpuPolicySpec, maskSpec)
	}
	list, err := readSet(maskSpec, text, c.total)
	if err != nil {
		return err
	}
	if len(list) == 0 || len(list) == c.total {
		return invalid("extra spec %s is %q, which makes %d of %d CPUs dedicated; for all or none say so in %s", maskSpec, text, len(list), c.total, cpuPolicySpec)
	}
	c.dedicated = list
	return nil
}

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
		return invalid("%s is %q, but no CPU is dedicated; set %s to dedicated or mixed", w.source(), text, cpuPolicySpec)
	}
	c.threads = numa.Threads(text)
	return nil
}

func (c *cpus) readEmulator(f Flavor, i Image) error {
	w := readSetting(f, i, emulatorSpec)
	text, err := w.oneOf("share", "isolate")
	if err != nil || text != "isolate" {
		return err
	}
	if len(c.dedicated) == 0 {
		return invalid("%s is isolate, but no CPU is dedicated; set %s to dedicated or mixed", w.source(), cpuPolicySpec)
	}
	if c.inGroups {
		return invalid("%s is isolate, and resources of class PCPU are asked for; write %s=dedicated instead of them", w.source(), cpuPolicySpec)
	}
	c.emulator = 1
	return nil
}

// amounts are the classes for the CPUs: a dedicated one is a PCPU, and so is a thread for the emulator.
func (c cpus) amounts() resource.Amounts {
	pinned := len(c.dedicated)
	out := resource.Amounts{"VCPU": c.total - pinned}
	if pinned > 0 {
		out["PCPU"] = pinned + c.emulator
	}
	return out
}

// traits are what a host must have, or must not, for the thread policy.
func (c cpus) traits() (required, forbidden []resource.Trait) {
	switch c.threads {
	case numa.Require:
		return []resource.Trait{hyperthreading}, nil
	case numa.Isolate:
		return nil, []resource.Trait{hyperthreading}
	}
	return nil, nil
}

func allBelow(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// readSet reads a set of CPU numbers below total, such as "0-3,^2,7"; what begins with "^" is taken out, of all when nothing is put in.
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
