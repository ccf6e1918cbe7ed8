package flavor

import (
	"cmp"
	"slices"
	"strings"

	"github.com/openberth/berth/fault"
)

// setting is one setting that a flavor and an image can both have, such as "hw:cpu_policy" and "hw_cpu_policy".
type setting struct {
	key           string // of the flavor
	flavor, image string // the values; empty: not set
}

// readSetting returns a setting by the flavor's key.
func readSetting(f Flavor, i Image, key string) setting {
	return setting{
		key:    key,
		flavor: strings.TrimSpace(f.ExtraSpecs[key]),
		image:  strings.TrimSpace(i.Properties[imageKey(key)]),
	}
}

// imageKey returns the image property for an extra spec. Traits have the same key in both.
func imageKey(key string) string {
	if strings.HasPrefix(key, "trait:") {
		return key
	}
	return strings.Replace(key, ":", "_", 1)
}

// source returns where the setting is made, for messages.
func (w setting) source() string {
	if w.flavor == "" && w.image != "" {
		return "image property " + imageKey(w.key)
	}
	return "extra spec " + w.key
}

// oneOf returns the value of the setting, one of the known values or an empty string. An image that contradicts the
// flavor yields a fault.
func (w setting) oneOf(known ...string) (string, error) {
	for _, one := range []setting{{key: w.key, flavor: w.flavor}, {key: w.key, image: w.image}} {
		text := one.flavor + one.image
		if text != "" && !slices.Contains(known, text) {
			return "", invalid("%s is %q; write one of %s", one.source(), text, strings.Join(known, ", "))
		}
	}
	if w.flavor != "" && w.image != "" && w.flavor != w.image {
		return "", w.forbidden()
	}
	return cmp.Or(w.flavor, w.image), nil
}

// forbidden returns the fault for an image that contradicts its flavor: of kind Forbidden for devices and Invalid for
// anything else, as in Nova.
func (w setting) forbidden() error {
	kind := fault.Invalid
	if w.key == affinitySpec {
		kind = fault.Forbidden
	}
	return fault.New(kind, "image property %s is %q, and extra spec %s of the flavor is %q: the image may not override it",
		imageKey(w.key), w.image, w.key, w.flavor)
}
