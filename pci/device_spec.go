package pci

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// Rule is one object of `[pci] device_spec`: it selects devices of a host that guests may use, and gives them
// properties.
type Rule struct {
	At            string // its location, such as "nova.conf:12", for messages; set by the reader of the file
	Vendor        string // four lower-case hex digits, or "" for any
	Product       string // like Vendor
	Address       Pattern
	Devname       string           // name of a network interface; not together with Address
	Shapes        bool             // the rule names PFs: each is offered as a whole or as its VFs
	ResourceClass resource.Class   // normal form, or "" for ClassFor the device
	Traits        []resource.Trait // normal form, sorted
	Properties    Properties       // nil: none
	Tags          Tags
}

// Tags are the properties that a rule gives to its devices, except class and traits.
type Tags struct {
	Networked       bool   // physical_network is present, also if it is null (a tunnelled network)
	PhysicalNetwork string // its name, or "" for null
	Trusted         Flag
	RemoteManaged   Flag
	Managed         Flag
	LiveMigratable  Flag
	OneTimeUse      Flag
}

type tag struct {
	key  string
	flag *Flag
}

func (t *Tags) flags() []tag {
	return []tag{{"trusted", &t.Trusted}, {"remote_managed", &t.RemoteManaged}, {"managed", &t.Managed},
		{"live_migratable", &t.LiveMigratable}, {"one_time_use", &t.OneTimeUse}}
}

var specKeys = []string{
	"vendor_id",
	"product_id",
	"address",
	"devname",
	"physical_network",
	"trusted",
	"remote_managed",
	"managed",
	"live_migratable",
	"one_time_use",
	"resource_class",
	"traits",
	"properties",
	"shapes",
}

// ParseSpecs parses one occurrence of `[pci] device_spec`: a JSON object, or an array of objects. The error is one
// sentence with the key, the text and the remedy; the caller adds file and line.
func ParseSpecs(text string) (Rules, error) {
	const option = "device_spec"
	raw, err := readJSON(option, text)
	if err != nil {
		return nil, err
	}
	list := []json.RawMessage{raw}
	if raw[0] == '[' {
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, refuse("%s is not JSON: %v: %q", option, err, clip(text))
		}
	}
	var rules Rules
	for i, raw := range list {
		rule, err := parseRule(raw)
		if err != nil && len(list) > 1 {
			rest, _ := strings.CutPrefix(fault.TextOf(err), option)
			return nil, refuse("%s, entry %d of %d%s", option, i+1, len(list), rest)
		}
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

func parseRule(raw json.RawMessage) (Rule, error) {
	var r Rule
	o, err := readObject("device_spec", raw, specKeys)
	if err != nil {
		return r, err
	}
	for _, read := range []func(object) error{r.readIDs, r.readAddress, r.readTags, r.readNames,
		r.readProperties, r.readShapes} {
		if err := read(o); err != nil {
			return Rule{}, err
		}
	}
	return r, nil
}

func (r *Rule) readIDs(o object) (err error) {
	if r.Vendor, err = o.id("vendor_id"); err != nil {
		return err
	}
	r.Product, err = o.id("product_id")
	return err
}

// id parses a vendor or product number of a rule: hexadecimal with or without 0x; "*" means any.
func (o object) id(key string) (string, error) {
	text, err := o.text(key, "8086")
	if _, there := o.values[key]; err != nil || !there || text == "*" {
		return "", err
	}
	digits := strings.TrimPrefix(strings.ToLower(text), "0x")
	n, err := strconv.ParseUint(digits, 16, 16)
	if err != nil {
		return "", refuse("%s: %s is %q; write a hexadecimal number of at most FFFF, such as \"8086\", or "+
			"\"*\"", o.option, key, text)
	}
	return fmt.Sprintf("%04x", n), nil
}

func (r *Rule) readAddress(o object) (err error) {
	if r.Devname, err = o.text("devname", "ens3f0"); err != nil {
		return err
	}
	if r.Address, err = o.pattern("address"); err != nil {
		return err
	}
	if r.Devname != "" && r.Address != (Pattern{}) {
		return refuse("device_spec has devname %q and address %s; keep the address, interface names "+
			"change", r.Devname, r.Address)
	}
	if r.Devname != "" && o.nonEmpty("address") { // Nova also rejects every address beside a devname
		return refuse("device_spec has devname %q beside address %s; keep one of them: an address of wildcards "+
			"restricts nothing, so leave it out, or write the card's address in place of the devname",
			r.Devname, clip(string(o.values["address"])))
	}
	return nil
}

func (r *Rule) readTags(o object) (err error) {
	if raw, there := o.values["physical_network"]; there {
		r.Tags.Networked = true
		if string(raw) != "null" {
			if r.Tags.PhysicalNetwork, err = o.text("physical_network", "physnet1"); err != nil {
				return err
			}
			if r.Tags.PhysicalNetwork == "" {
				return refuse("device_spec: physical_network is empty; name the network, write null for a " +
					"tunnelled one, or leave it out")
			}
		}
	}
	for _, tag := range r.Tags.flags() {
		if *tag.flag, err = o.flag(tag.key); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rule) readNames(o object) error {
	class, err := o.text("resource_class", "CUSTOM_GPU")
	if err != nil {
		return err
	}
	if class != "" {
		if r.ResourceClass, err = NormalClass(class); err != nil {
			return refuse("device_spec: %s", fault.TextOf(err))
		}
		// Nova accepts resource_class only without physical_network.
		if r.Tags.Networked {
			return refuse("device_spec has resource_class %q beside physical_network %q; a device of a network is "+
				"not counted in Placement; remove one of them",
				class, r.Tags.PhysicalNetwork)
		}
	}
	names, err := o.text("traits", "CUSTOM_FAST,HW_GPU_API_VULKAN")
	if err != nil || names == "" {
		return err
	}
	if r.Traits, _, err = traits(names, false); err != nil {
		return refuse("device_spec: %s", fault.TextOf(err))
	}
	return nil
}

// shapes is the one value of the key shapes: the card is given to guests as its PF or as its VFs.
var shapes = []string{"pf", "vf"}

// readShapes reads whether the cards of the rule are offered as their PFs and as their VFs, and refuses what excludes
// that.
func (r *Rule) readShapes(o object) error {
	raw, there := o.values["shapes"]
	if !there {
		return nil
	}
	var list []string
	err := json.Unmarshal(raw, &list)
	if slices.Sort(list); err != nil || !slices.Equal(list, shapes) {
		return refuse(`device_spec: shapes must be ["pf", "vf"]; it is %s; leave it out to offer one kind`, clip(string(raw)))
	}
	r.Shapes = true
	switch {
	case r.Tags.Networked:
		return refuse("device_spec has shapes beside physical_network; a card for network ports is offered in one way " +
			"only; remove one of them")
	case r.Tags.RemoteManaged == Yes:
		return refuse("device_spec has shapes beside remote_managed; only VFs are managed remotely; remove one of them")
	case r.Tags.Managed == No:
		return refuse("device_spec has shapes beside managed false; the PF and its VFs need different drivers; remove " +
			"one of them")
	case r.Tags.OneTimeUse == Yes:
		return refuse("device_spec has shapes beside one_time_use; VFs are not cleaned; remove one of them")
	case r.ResourceClass == "":
		return refuse("device_spec has shapes without resource_class; a card and its VFs are counted in one class; name it")
	}
	return nil
}

// Match reports whether the rule applies to a device. parent is the PF of a VF if it is known; only devname and shapes
// need it. A rule with the exact address of a PF applies to the PF and all its VFs; product_id restricts it to one
// kind. A rule with shapes applies to PFs, and to the VFs of each. A rule with remote_managed requires a serial number,
// which identifies the card to the remote manager.
func (r Rule) Match(d Device, parent *Device) bool {
	if r.Shapes && d.Parent != nil {
		return parent != nil && r.Match(*parent, nil)
	}
	if r.Shapes && d.Type != Physical {
		return false
	}
	if !r.numbers(d) || r.Tags.RemoteManaged == Yes && d.Serial == "" {
		return false
	}
	if r.Devname != "" {
		return slices.Contains(d.Net, r.Devname) || parent != nil && slices.Contains(parent.Net, r.Devname)
	}
	return r.at(d)
}

// numbers reports whether vendor and product match those of the rule.
func (r Rule) numbers(d Device) bool {
	return (r.Vendor == "" || r.Vendor == d.Vendor) && (r.Product == "" || r.Product == d.Product)
}

// at reports whether the address matches the rule, or the device is a VF of the PF at the address of the rule.
func (r Rule) at(d Device) bool {
	if r.Address.Match(d.Address) {
		return true
	}
	exact, ok := r.Address.Exact()
	return ok && d.Parent != nil && *d.Parent == exact
}

// Class returns the resource class that the rule gives a device.
func (r Rule) Class(d Device) resource.Class {
	if r.ResourceClass != "" {
		return r.ResourceClass
	}
	return ClassFor(d.Vendor, d.Product)
}

// ForPorts reports whether only network ports may use the devices of the rule: aliases do not get them, and
// Placement does not count them.
func (r Rule) ForPorts() bool { return r.Tags.Networked || r.Tags.RemoteManaged == Yes }

// String formats the rule as a device_spec that ParseSpecs parses to the same rule, without At.
func (r Rule) String() string {
	var w writer
	w.text("vendor_id", r.Vendor)
	w.text("product_id", r.Product)
	if object, text := r.Address.json(); object != nil {
		w.put("address", object)
	} else {
		w.text("address", text)
	}
	w.text("devname", r.Devname)
	if r.Tags.PhysicalNetwork != "" {
		w.put("physical_network", r.Tags.PhysicalNetwork)
	} else if r.Tags.Networked {
		w.put("physical_network", nil)
	}
	for _, tag := range r.Tags.flags() {
		w.text(tag.key, string(*tag.flag))
	}
	w.text("resource_class", string(r.ResourceClass))
	w.text("traits", joined(r.Traits, nil))
	if len(r.Properties) > 0 {
		w.put("properties", r.Properties.texts())
	}
	if r.Shapes {
		w.put("shapes", shapes)
	}
	return w.String()
}

// Rules are all rules of a host in the order of its configuration. Without rules no device is offered.
type Rules []Rule

// First returns the first rule that matches a device; later rules have no effect on it.
func (rs Rules) First(d Device, parent *Device) (Rule, bool) {
	for _, r := range rs {
		if r.Match(d, parent) {
			return r, true
		}
	}
	return Rule{}, false
}
