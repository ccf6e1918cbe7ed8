package flavor

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/fault"
)

// CheckProperties returns nil if Berth does all that the extra specs of a flavor and the properties of an image
// promise. Otherwise it returns a fault of kind Invalid that names the first one which is not done, or whose name is
// not known in a namespace of Nova. Names in other namespaces are those of the operator. ignored are the names that are
// not checked ([berth] ignored_properties); one may end with *.
func CheckProperties(f Flavor, i Image, ignored []string) error {
	for _, key := range slices.Sorted(maps.Keys(f.ExtraSpecs)) {
		if IsIgnored(key, ignored) {
			continue
		}
		if err := checkSpec(f, key); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(i.Properties)) {
		if IsIgnored(key, ignored) {
			continue
		}
		if err := checkImageProperty(f, key, i.Properties[key]); err != nil {
			return err
		}
	}
	return nil
}

// IsIgnored reports whether a name is among the names that are not checked.
func IsIgnored(key string, ignored []string) bool {
	return slices.ContainsFunc(ignored, func(name string) bool {
		beginning, any := strings.CutSuffix(name, "*")
		return name == key || any && strings.HasPrefix(key, beginning)
	})
}

// checkSpec checks one extra spec.
func checkSpec(f Flavor, key string) error {
	what, value := "extra spec "+key, f.ExtraSpecs[key]
	if key == aliasSpec && strings.TrimSpace(value) == "" {
		return invalid("%s of flavor %s is empty; write the name of an alias, or remove it", what, f.Name)
	}
	if p, known := find(Specs, key); known {
		return p.check(f, what, value)
	}
	if isKnown(ImageProperties, key) {
		return unknown(what, []string{strings.Replace(key, "_", ":", 1)})
	}
	namespace, _, scoped := strings.Cut(key, ":")
	if !scoped {
		return nil
	}
	own := namespaces()
	if slices.Contains(own, namespace) {
		return unknown(what, similar(key, Specs))
	}
	for _, near := range fault.Similar(namespace, own, 1) {
		if len(near) > 4 || strings.EqualFold(near, namespace) { // a short one may be near another one by chance
			return unknown(what, []string{near + key[len(namespace):]})
		}
	}
	return nil
}

// checkImageProperty checks one property of an image.
func checkImageProperty(f Flavor, key, value string) error {
	what := "image property " + key
	if p, known := find(ImageProperties, key); known {
		return p.check(f, what, value)
	}
	if _, known := find(Specs, key); known {
		return unknown(what, []string{imageKey(key)})
	}
	if strings.HasPrefix(key, "os_glance_") { // the image service writes them
		return nil
	}
	for _, namespace := range []string{"hw_", "os_", "img_", "hw:", "os:"} {
		if strings.HasPrefix(strings.ToLower(key), namespace) {
			return unknown(what, similar(key, ImageProperties))
		}
	}
	return nil
}

// check returns nil if a value is accepted. what names the property.
func (p Property) check(f Flavor, what, value string) error {
	switch text := word(value); {
	case p.Values == Works, p.Values == Any:
		return nil
	case p.Values == Q35:
		if text != "" && isQ35(text) {
			return nil
		}
	case p.Values == CPUs, p.Values == Least, p.Values == More:
		if n, err := strconv.Atoi(text); err == nil && n > 0 && (p.Values != CPUs || n == f.VCPUs) &&
			(p.Values != Least || n >= f.VCPUs) {
			return nil
		}
	case p.Values != None && slices.ContainsFunc(strings.Split(p.Values, ", "), func(accepted string) bool {
		return text == accepted || truth[text] == accepted
	}):
		return nil
	}
	remedy := "remove it"
	if p.Values != None {
		remedy = "write " + p.Values + ", or remove it"
	}
	return invalid("%s is %q, which Berth does not do: %s; %s, or ask an administrator to list it in [berth] "+
		"ignored_properties", what, value, p.Effect, remedy)
}

// q35 matches the versions of a machine type.
var q35 = regexp.MustCompile(`^pc-q35-[0-9]{1,3}(\.[0-9]{1,3}){1,2}$`)

// isQ35 reports whether a machine type is q35, a version of it, or not chosen.
func isQ35(machine string) bool { return machine == "" || machine == "q35" || q35.MatchString(machine) }

// word returns a value as it is compared.
func word(value string) string { return strings.ToLower(strings.TrimSpace(value)) }

// truth is what Nova accepts as true and false.
var truth = map[string]string{"1": "true", "t": "true", "on": "true", "y": "true", "yes": "true", "0": "false",
	"f": "false", "off": "false", "n": "false", "no": "false"}

// unknown is the fault of a name that is not known.
func unknown(what string, near []string) error {
	advice := "remove it"
	if len(near) > 0 {
		advice = "did you mean " + near[0] + "?"
	}
	return invalid("%s is not known; %s; an administrator can list it in [berth] ignored_properties", what, advice)
}

// mistaken are names that are far from the right one.
var mistaken = map[string]string{"hw:cpu_pinning": cpuPolicySpec, "hw_cpu_pinning": "hw_cpu_policy",
	"hw:cpu_realtime_priority": "hw:cpu_realtime", "hw:page_size": pagesSpec, "hw:hugepages": pagesSpec,
	"hw_page_size": "hw_mem_page_size", "hw_nic_model": "hw_vif_model", "hw_secure_boot": "os_secure_boot"}

// similar returns the known names that are near to a name.
func similar(key string, known []Property) []string {
	if right := mistaken[key]; right != "" {
		return []string{right}
	}
	var names []string
	for _, p := range known {
		if !strings.ContainsAny(p.Name, "{*") {
			names = append(names, p.Name)
		}
	}
	return fault.Similar(key, names, max(2, len(key)/4))
}

// namespaces returns those of the known extra specs.
func namespaces() (list []string) {
	for _, p := range Specs {
		if namespace, _, scoped := strings.Cut(p.Name, ":"); scoped {
			list = append(list, strings.TrimSuffix(namespace, "{suffix}"))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// find returns the known property with a name.
func find(known []Property, key string) (Property, bool) {
	for _, p := range known {
		if p.matches(key) {
			return p, true
		}
	}
	return Property{}, false
}

func isKnown(known []Property, key string) bool {
	_, is := find(known, key)
	return is && !strings.HasPrefix(key, "trait:")
}

// matches reports whether a name is that of the property.
func (p Property) matches(key string) bool {
	beginning, end, pattern := strings.Cut(p.Name, "{")
	switch {
	case strings.HasSuffix(p.Name, "*"):
		return strings.HasPrefix(key, strings.TrimSuffix(p.Name, "*"))
	case !pattern:
		return key == p.Name
	case strings.HasPrefix(end, "n}"):
		return mapSpec.MatchString(key) && strings.HasPrefix(key, beginning)
	case strings.HasPrefix(end, "suffix}"):
		m := groupSpec.FindStringSubmatch(key)
		return m != nil && m[1] == beginning
	}
	return strings.HasPrefix(key, beginning)
}
