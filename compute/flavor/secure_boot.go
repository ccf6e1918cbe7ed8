package flavor

// The properties of firmware.
const (
	firmwareProperty   = "hw_firmware_type"
	machineProperty    = "hw_machine_type"
	secureBootProperty = "os_secure_boot"
	secureBootSpec     = "os:secure_boot"
)

// The values of firmware and secure boot that change a guest.
const (
	uefi     = "uefi"
	required = "required"
)

// CheckSecureBoot returns nil if a guest can have the secure boot that its flavor and its image request. Otherwise it
// returns a fault of kind Invalid: both are set and differ, or it is required without UEFI or without q35. ignored are
// the names that are not checked.
func CheckSecureBoot(f Flavor, i Image, ignored []string) error {
	spec, property := f.ExtraSpecs[secureBootSpec], i.Properties[secureBootProperty]
	if IsIgnored(secureBootSpec, ignored) {
		spec = ""
	}
	if IsIgnored(secureBootProperty, ignored) {
		property = ""
	}
	if spec != "" && property != "" && word(spec) != word(property) {
		return invalid("extra spec %s of flavor %s is %q, and image property %s is %q; write the same value in both, or "+
			"remove one", secureBootSpec, f.Name, spec, secureBootProperty, property)
	}
	what := "image property " + secureBootProperty
	if property == "" {
		what = "extra spec " + secureBootSpec + " of flavor " + f.Name
	}
	machine := word(i.Properties[machineProperty])
	switch {
	case word(spec) != required && word(property) != required:
		return nil
	case word(i.Properties[firmwareProperty]) != uefi:
		return invalid("%s is %q, and the image does not choose UEFI; set its property %s=%s, or choose another flavor or "+
			"image", what, required, firmwareProperty, uefi)
	case !isQ35(machine):
		return invalid("%s is %q, and the machine type %s of the image has no secure boot; set its property %s=q35", what,
			required, machine, machineProperty)
	}
	return nil
}

// secureBootOf returns required, optional or, for disabled, an empty text. A guest without UEFI or q35 has none.
func secureBootOf(f Flavor, i Image) string {
	value := word(f.ExtraSpecs[secureBootSpec])
	if value == "" {
		value = word(i.Properties[secureBootProperty])
	}
	known := value == required || value == "optional"
	if !known || word(i.Properties[firmwareProperty]) != uefi || !isQ35(word(i.Properties[machineProperty])) {
		return ""
	}
	return value
}
