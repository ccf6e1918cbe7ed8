package pci

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Finding is a problem of one rule on a particular host.
type Finding struct {
	At       string // Rule.At
	Wrong    bool   // the configuration is not valid for this host; otherwise it is a warning
	Sentence string // contains the rule
}

// WhyNot returns the sentence of the first rule that Judge reports as wrong, or "". It is fast enough for each
// observation of a host.
func (rs Rules) WhyNot(devices []Device) string {
	if !slices.ContainsFunc(rs, func(r Rule) bool { return r.Tags.RemoteManaged == Yes || r.Shapes }) {
		return ""
	}
	h := hostOf(devices)
	for _, r := range rs {
		if sentence := cmp.Or(h.remote(r), h.shapes(r)); sentence != "" {
			return r.where() + " " + sentence
		}
	}
	return ""
}

// Judge compares rules with the devices of a host. The Serial of a device must be set if NeedSerial reports so. Wrong
// rules have remote_managed for a device that is not a VF of the card, or for an interface that does not exist, or
// shapes for a device that is not a PF. Warnings are rules that match nothing, or only devices that earlier rules
// match. The findings are in the order of the rules.
func (rs Rules) Judge(devices []Device) []Finding {
	h := hostOf(devices)
	left := slices.Clone(devices) // devices that no rule has matched yet
	var out []Finding
	for i, r := range rs {
		add := func(wrong bool, sentence string) {
			out = append(out, Finding{At: r.At, Wrong: wrong, Sentence: r.where() + " " + sentence})
		}
		if sentence := cmp.Or(h.remote(r), h.shapes(r)); sentence != "" {
			add(true, sentence)
			continue
		}
		matched := slices.DeleteFunc(slices.Clone(devices), func(d Device) bool { return !r.Match(d, h.parent(d)) })
		usable := slices.DeleteFunc(slices.Clone(matched), Device.IsBridge)
		fresh := slices.DeleteFunc(slices.Clone(left),
			func(d Device) bool { return d.IsBridge() || !r.Match(d, h.parent(d)) })
		switch {
		case len(matched) == 0:
			add(false, "matches no device of this host"+h.nearest(r))
		case len(usable) == 0:
			add(false, fmt.Sprintf("matches nothing but bridges, such as %s, which no guest can use", matched[0].Address))
		case len(fresh) == 0:
			first, _ := rs[:i].First(usable[0], h.parent(usable[0]))
			add(false, fmt.Sprintf("is never reached: earlier entries match all its devices, such as %s by %s; the "+
				"first match counts, so put it before them or remove it",
				usable[0].Address, first.where()))
		case !r.ForPorts() && slices.ContainsFunc(fresh, Device.isVDPA):
			add(false, fmt.Sprintf("offers %s, which carries a vDPA device: aliases do not get it, it is for "+
				"network ports; add physical_network, or leave it out",
				fresh[slices.IndexFunc(fresh, Device.isVDPA)].Address))
		}
		left = slices.DeleteFunc(left, func(d Device) bool { return r.Match(d, h.parent(d)) })
	}
	return out
}

// NeedSerial reports whether a rule requires the serial number of the device's card: remote_managed rules do.
func (rs Rules) NeedSerial(d Device) bool {
	return slices.ContainsFunc(rs, func(r Rule) bool {
		return r.Tags.RemoteManaged == Yes && r.numbers(d) && (r.Devname != "" || r.at(d))
	})
}

// where returns a rule for a message: its location if it is known, and its text.
func (r Rule) where() string {
	if r.At != "" {
		return fmt.Sprintf("device_spec at %s, %s", r.At, r)
	}
	return fmt.Sprintf("device_spec %s", r)
}

// census are the devices of a host, in their order and by address.
type census struct {
	list []Device
	at   map[Address]*Device
}

func hostOf(devices []Device) census {
	h := census{devices, make(map[Address]*Device, len(devices))}
	for i := range devices {
		h.at[devices[i].Address] = &devices[i]
	}
	return h
}

func (h census) parent(d Device) *Device {
	if d.Parent == nil {
		return nil
	}
	return h.at[*d.Parent]
}

// named returns the device that a rule names by its address or its interface, or nil.
func (h census) named(r Rule) *Device {
	if r.Devname == "" {
		if exact, ok := r.Address.Exact(); ok {
			return h.at[exact]
		}
		return nil
	}
	for i := range h.list {
		if slices.Contains(h.list[i].Net, r.Devname) {
			return &h.list[i]
		}
	}
	return nil
}

// remote returns the problem with remote_managed of a rule, or "". A rule that names a PF must match its VFs.
func (h census) remote(r Rule) string {
	if r.Tags.RemoteManaged != Yes {
		return ""
	}
	pf := h.named(r)
	if pf == nil && r.Devname != "" {
		return fmt.Sprintf("has remote_managed, but this host has no interface %q; write the address of the card's "+
			"PF and the product_id of its VFs", r.Devname)
	}
	if pf == nil || pf.Type != Physical {
		return ""
	}
	vendor := r.Vendor == "" || r.Vendor == pf.Vendor
	product := h.productOfVFs(*pf)
	vfs := "the product_id of its VFs"
	if product != "" {
		vfs = fmt.Sprintf("product_id %q, that of its VFs", product)
	}
	switch {
	case vendor && r.Product != "" && (r.Product == product || product == "" && r.Product != pf.Product):
		return ""
	case vendor && (r.Product == "" || r.Product == pf.Product):
		return fmt.Sprintf("has remote_managed and matches the PF %s itself, but only its VFs can be managed "+
			"remotely; add %s", pf.Address, vfs)
	}
	return fmt.Sprintf("has remote_managed, but neither the PF %s (%s:%s) nor its VFs have these numbers; write "+
		"vendor_id %q and %s",
		pf.Address, pf.Vendor, pf.Product, pf.Vendor, vfs)
}

// shapes returns the problem with shapes of a rule, or "".
func (h census) shapes(r Rule) string {
	d := h.named(r)
	switch {
	case !r.Shapes || d == nil || d.Type == Physical:
		return ""
	case d.Parent != nil:
		return fmt.Sprintf("has shapes, but %s is a VF; write the address of its PF, %s", d.Address, d.Parent)
	}
	return fmt.Sprintf("has shapes, but %s is a %s, which has no VFs; remove shapes", d.Address, d.Type)
}

// productOfVFs returns the product of a PF's VFs as the PF reports it or, if it does not, as the first VF reports
// it; "" if neither does.
func (h census) productOfVFs(pf Device) string {
	if pf.VFProduct != "" {
		return pf.VFProduct
	}
	for _, d := range h.list {
		if d.Parent != nil && *d.Parent == pf.Address {
			return d.Product
		}
	}
	return ""
}

// nearest returns the nearest match of a rule that matches nothing, as the end of a sentence, or "".
func (h census) nearest(r Rule) string {
	if d := h.named(r); d != nil && !r.numbers(*d) {
		return fmt.Sprintf("; %s is %s:%s", d.Address, d.Vendor, d.Product)
	}
	if r.Tags.RemoteManaged == Yes {
		without := r
		without.Tags.RemoteManaged = Unset
		for _, d := range h.list {
			if without.Match(d, h.parent(d)) {
				return fmt.Sprintf("; the devices %s:%s have no serial number in their vital product data, which "+
					"remote_managed requires",
					d.Vendor, d.Product)
			}
		}
	}
	if r.Vendor == "" && r.Product == "" || r.Address == (Pattern{}) && r.Devname == "" {
		return ""
	}
	var at []string
	for _, d := range h.list {
		if r.numbers(d) {
			at = append(at, d.Address.String())
		}
	}
	if len(at) == 0 {
		return ""
	}
	const most = 4
	text := strings.Join(at[:min(len(at), most)], ", ")
	if len(at) > most {
		text += fmt.Sprintf(" and %d more places", len(at)-most)
	}
	return "; devices with these numbers are at " + text
}
