package configdrive

// Device is what meta_data.json says about the device of an interface, so that a program in the guest finds it.
type Device struct {
	Tag      string // given by the user; empty: none
	Place    string // PCI address in the guest; empty: not known
	HostVLAN int    // tag that the device itself adds; 0: none
	Trusted  bool   // it is a trusted VF
}

// nic is an element of the key devices of meta_data.json.
type nic struct {
	Type    string   `json:"type"`
	MAC     string   `json:"mac"`
	Bus     string   `json:"bus"`
	Address string   `json:"address"`
	VLAN    int      `json:"vlan,omitempty"`
	Trusted bool     `json:"vf_trusted,omitempty"`
	Tags    []string `json:"tags,omitempty"`
}

// devicesOf returns the devices that have a tag, a VLAN or trust; the guest finds the others without their help. Bus
// and address of a device whose place is not known are none, as in Nova.
func devicesOf(interfaces []Interface) []nic {
	list := []nic{}
	for _, i := range interfaces {
		one := nic{Type: "nic", MAC: i.MAC, Bus: "none", Address: "none", VLAN: max(i.VLAN, i.HostVLAN), Trusted: i.Trusted}
		if i.Tag != "" {
			one.Tags = []string{i.Tag}
		}
		if i.Place != "" {
			one.Bus, one.Address = "pci", i.Place
		}
		if one.VLAN != 0 || one.Trusted || one.Tags != nil {
			list = append(list, one)
		}
	}
	return list
}
