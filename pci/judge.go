package pci

import (
	"fmt"
	"slices"
	"strings"
)

// Finding is what one rule means on a particular host and ought not to.
type Finding struct {
	At       string // Rule.At
	Wrong    bool   // the host cannot be offered like that; else it is a warning
	Sentence string // names the rule
}

// Refuse is the sentence of the first rule that Judge finds wrong, or nothing. It is quick enough for each look at a
// host.
func (rs Rules) Refuse(devices []Device) string {
	if !slices.ContainsFunc(rs, func(r Rule) bool { return r.Tags.RemoteManaged == Yes }) {
		return ""
	}
	h := hostOf(devices)
	for _, r := range rs {
		if sentence := h.remote(r); sentence != "" {
			return r.where() + " " + sentence
		}
	}
	return ""
}

// Judge compares rules with the devices of a host, whose Serial must have been read where NeedSerial says so. Wrong
// are rules with
// remote_managed for what is no VF of the card, or for an interface that is not there. Warnings are rules that match
// nothing, or
// nothing that earlier rules have left. The findings are in the order of the rules.
func (rs Rules) Judge(devices []Device) []Finding {
	h := hostOf(devices)
	left := slices.Clone(devices) // what no rule has matched yet
	var out []Finding
	for i, r := range rs {
		say := func(wrong bool, sentence string) {
			out = append(out, Finding{At: r.At, Wrong: wrong, Sentence: r.where() + " " + sentence})
		}
		if sentence := h.remote(r); sentence != "" {
			say(true, sentence)
			continue
		}
		matched := slices.DeleteFunc(slices.Clone(devices), func(d Device) bool { return !r.Match(d, h.parent(d)) })
		usable := slices.DeleteFunc(slices.Clone(matched), Device.IsBridge)
		fresh := slices.DeleteFunc(slices.Clone(left),
			func(d Device) bool { return d.IsBridge() || !r.Match(d, h.parent(d)) })
		switch {
		case len(matched) == 0:
			say(false, "matches no device of this host"+h.nearest(r))
		case len(usable) == 0:
			say(false, fmt.Sprintf("matches nothing but bridges, such as %s, which no guest can be "+
				"given", matched[0].Address))
		case len(fresh) == 0:
			first, _ := rs[:i].First(usable[0], h.parent(usable[0]))
			say(false, fmt.Sprintf("is never reached: earlier entries match all its devices, such as %s by %s; the "+
				"first match counts, so put it before them or take it away",
				usable[0].Address, first.where()))
		case !r.ForPorts() && slices.ContainsFunc(fresh, Device.isVDPA):
			say(false, fmt.Sprintf("offers %s, which carries a vDPA device: no alias is given it, it is for "+
				"network ports; add physical_network, or leave it out",
				fresh[slices.IndexFunc(fresh, Device.isVDPA)].Address))
		}
		left = slices.DeleteFunc(left, func(d Device) bool { return r.Match(d, h.parent(d)) })
	}
	return out
}

// NeedSerial says whether a rule asks for the serial number of the device's card: only with one can a device be
// managed remotely.
func (rs Rules) NeedSerial(d Device) bool {
	return slices.ContainsFunc(rs, func(r Rule) bool {
		return r.Tags.RemoteManaged == Yes && r.numbers(d) && (r.Devname != "" || r.at(d))
	})
}

// where names a rule for a sentence: its place if that is known, and its text.
func (r Rule) where() string {
	if r.At != "" {
		return fmt.Sprintf("device_spec at %s, %s", r.At, r)
	}
	return fmt.Sprintf("device_spec %s", r)
}

// census is the devices of a host, in their order and by address.
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

// named is the one device that a rule names by its address or its interface, or nil.
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

// remote says what is wrong with remote_managed of a rule, or nothing. A rule that names a PF must mean its VFs.
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
		return fmt.Sprintf("has remote_managed and means the PF %s itself, but only its VFs can be managed "+
			"remotely; add %s", pf.Address, vfs)
	}
	return fmt.Sprintf("has remote_managed, but neither the PF %s (%s:%s) nor its VFs have these numbers; write "+
		"vendor_id %q and %s",
		pf.Address, pf.Vendor, pf.Product, pf.Vendor, vfs)
}

// productOfVFs is the product of a PF's VFs as the PF says or, when it does not, as they do; "" when nobody says.
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

// nearest says what a rule that matches nothing comes nearest to, or nothing.
func (h census) nearest(r Rule) string {
	if d := h.named(r); d != nil && !r.numbers(*d) {
		return fmt.Sprintf("; %s is %s:%s", d.Address, d.Vendor, d.Product)
	}
	if r.Tags.RemoteManaged == Yes {
		without := r
		without.Tags.RemoteManaged = Unset
		for _, d := range h.list {
			if without.Match(d, h.parent(d)) {
				return fmt.Sprintf("; those like %s:%s that it means have no serial number in their vital product "+
					"data, without which nothing can be managed remotely",
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
