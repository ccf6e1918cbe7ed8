package pci

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/openberth/berth/fault"
)

// Alias is one object of `[pci] alias`: the name by which flavors request devices, and the required properties of
// the devices.
type Alias struct {
	Name         string
	Requirement  Requirement   // Class is always set: resource_class, or ClassFor vendor and product
	Alternatives []Requirement // from further options with the same name; of the same type as Requirement
	Policy       NUMAPolicy    // numa_policy; Legacy if the option has none

	// Members are the devices of one set, by alias; then the alias has no Requirement. Nil: the devices of the alias
	// itself, all together, are one set if it has a Match.
	Members map[string]int
	Match   string // the family of which the devices of a set have a value in common; "": there are no sets
	Whole   bool   // a set takes all devices that the host offers with its value
}

var aliasKeys = []string{
	"name",
	"vendor_id",
	"product_id",
	"device_type",
	"numa_policy",
	"resource_class",
	"traits",
	"live_migratable",
	"capability_type",
	"members",
	"match",
	"whole",
}

var (
	types    = []string{string(Plain), string(Physical), string(Virtual)}
	policies = []string{string(Required), string(Legacy), string(Preferred), string(Socket)}
)

// ParseAlias parses one occurrence of `[pci] alias`, a JSON object. It requires members, resource_class, or vendor_id
// and product_id. The error is one sentence with the key, the text and the remedy; the caller adds file and line.
func ParseAlias(text string) (Alias, error) {
	a := Alias{Policy: Legacy}
	raw, err := readJSON("alias", text)
	if err != nil {
		return Alias{}, err
	}
	if raw[0] == '[' {
		return Alias{}, refuse("alias is an array, %s; write one object in braces, and the option once more for "+
			"each further alias", clip(text))
	}
	o, err := readObject("alias", raw, aliasKeys)
	if err != nil {
		return Alias{}, err
	}
	for _, read := range []func(object) error{a.readName, a.readSets, a.readIDs, a.readWords, a.readNames} {
		if err := read(o); err != nil {
			return Alias{}, err
		}
	}
	return a, nil
}

func (a *Alias) readName(o object) (err error) {
	if a.Name, err = o.text("name", "gpu"); err != nil {
		return err
	}
	switch {
	case a.Name == "":
		return refuse("alias has no name, in %s; flavors request it by name", o.raw)
	case utf8.RuneCountInString(a.Name) > 256:
		return refuse("alias name %q has %d characters; use at most 256", clip(a.Name), utf8.RuneCountInString(a.Name))
	case strings.ContainsAny(a.Name, ":,"):
		return refuse("alias name %q has a colon or comma, so no flavor can request it; leave them out", a.Name)
	}
	return nil
}

func (a *Alias) readIDs(o object) error {
	for _, id := range []struct {
		key string
		to  *string
	}{{"vendor_id", &a.Requirement.Vendor}, {"product_id", &a.Requirement.Product}} {
		text, err := o.text(id.key, "8086")
		if err != nil {
			return err
		}
		if _, there := o.values[id.key]; !there {
			continue
		}
		n, err := strconv.ParseUint(text, 16, 16)
		if err != nil || len(text) != 4 {
			return refuse("alias %q: %s is %q; write four hexadecimal digits, such as \"8086\"", a.Name, id.key, text)
		}
		*id.to = fmt.Sprintf("%04x", n)
	}
	return nil
}

func (a *Alias) readWords(o object) (err error) {
	kind, err := o.word("device_type", types)
	if err != nil {
		return err
	}
	a.Requirement.Type = Type(kind)
	policy, err := o.word("numa_policy", policies)
	if err != nil {
		return err
	}
	if policy != "" {
		a.Policy = NUMAPolicy(policy)
	}
	if _, err := o.word("capability_type", []string{"pci"}); err != nil {
		return err
	}
	a.Requirement.LiveMigratable, err = o.flag("live_migratable")
	return err
}

// word returns the text under a key, which must be one of known.
func (o object) word(key string, known []string) (string, error) {
	text, err := o.text(key, known[0])
	if _, there := o.values[key]; err != nil || !there || slices.Contains(known, text) {
		return text, err
	}
	return "", refuse("%s: %s is %q; %s", o.option, key, text, suggest(text, known))
}

func (a *Alias) readNames(o object) error {
	class, err := o.text("resource_class", "CUSTOM_GPU")
	if err != nil || len(a.Members) > 0 {
		return err
	}
	switch {
	case class != "":
		if a.Requirement.Class, err = NormalClass(class); err != nil {
			return refuse("alias %q: %s", a.Name, fault.TextOf(err))
		}
	case a.Requirement.Vendor == "" || a.Requirement.Product == "":
		return refuse("alias %q does not identify its devices; add resource_class, or both vendor_id and "+
			"product_id", a.Name)
	default:
		a.Requirement.Class = ClassFor(a.Requirement.Vendor, a.Requirement.Product)
	}
	names, err := o.text("traits", "CUSTOM_FAST,!CUSTOM_OLD")
	if err != nil || names == "" {
		return err
	}
	if a.Requirement.Required, a.Requirement.Forbidden, err = traits(names, true); err != nil {
		return refuse("alias %q: %s", a.Name, fault.TextOf(err))
	}
	return nil
}

// String formats the first definition of the alias as an option text that ParseAlias parses to the same alias.
func (a Alias) String() string {
	var w writer
	w.text("name", a.Name)
	w.text("vendor_id", a.Requirement.Vendor)
	w.text("product_id", a.Requirement.Product)
	w.text("device_type", string(a.Requirement.Type))
	if len(a.Members) == 0 {
		w.text("numa_policy", string(a.Policy))
	}
	w.text("resource_class", string(a.Requirement.Class))
	w.text("traits", joined(a.Requirement.Required, a.Requirement.Forbidden))
	w.text("live_migratable", string(a.Requirement.LiveMigratable))
	if len(a.Members) > 0 {
		w.put("members", a.Members)
	}
	w.text("match", a.Match)
	if a.Whole {
		w.put("whole", true)
	}
	return w.String()
}

// Aliases are the aliases of a cloud by name.
type Aliases map[string]Alias

// Add parses one occurrence of `[pci] alias` and adds it. inPlacement is `[filter_scheduler] pci_in_placement`: if
// it is off, devices are selected by vendor_id and product_id, so an alias needs both.
//
// A name may be defined several times; a device fits if it meets one of the definitions. They must agree in
// device_type and numa_policy. With inPlacement they must also agree in class and traits, because one request to
// Placement covers all of them.
func (as Aliases) Add(text string, inPlacement bool) error {
	a, err := ParseAlias(text)
	if err != nil {
		return err
	}
	if !inPlacement && len(a.Members) == 0 && (a.Requirement.Vendor == "" || a.Requirement.Product == "") {
		return refuse("alias %q has no vendor_id and product_id, which it needs while [filter_scheduler] "+
			"pci_in_placement is off; add them or switch it on", a.Name)
	}
	first, twice := as[a.Name]
	if !twice {
		as[a.Name] = a
		return nil
	}
	switch {
	case len(a.Members)+len(first.Members) > 0:
		return refuse("alias %q has members and is defined twice, first as %s; keep one", a.Name, first)
	case a.Match != first.Match || a.Whole != first.Whole:
		return refuse("alias %q is defined twice with different match or whole, first as %s; give all definitions the "+
			"same", a.Name, first)
	case a.Requirement.Type != first.Requirement.Type:
		return refuse("alias %q is defined twice with different device_type, first as %s; give all definitions the "+
			"same", a.Name, first)
	case a.Policy != first.Policy:
		return refuse("alias %q is defined twice with different numa_policy, first as %s; give all definitions the "+
			"same", a.Name, first)
	case inPlacement && a.String() == first.String():
		return refuse("alias %q is defined twice as %s; keep one, or name a resource_class that different devices "+
			"share", a.Name, first)
	case inPlacement && !samePlacementRequest(a.Requirement, first.Requirement):
		return refuse("alias %q is defined twice with different classes or traits, first as %s; give all its "+
			"devices one resource_class in device_spec and name that class in each definition",
			a.Name, first)
	case len(first.Alternatives) == maxDefinitions-1:
		return refuse("alias %q is defined more than %d times", a.Name, maxDefinitions)
	}
	first.Alternatives = append(slices.Clone(first.Alternatives), a.Requirement)
	as[a.Name] = first
	return nil
}

const maxDefinitions = 64 // of one alias

// samePlacementRequest reports whether both result in the same request to Placement.
func samePlacementRequest(a, b Requirement) bool {
	return a.Class == b.Class && slices.Equal(a.Required, b.Required) && slices.Equal(a.Forbidden, b.Forbidden)
}

// ParseAliases parses all occurrences of `[pci] alias` like Add. The error contains the number of the wrong
// occurrence.
func ParseAliases(inPlacement bool, texts ...string) (Aliases, error) {
	as := Aliases{}
	for i, text := range texts {
		if err := as.Add(text, inPlacement); err != nil {
			return nil, refuse("[pci] alias number %d: %s", i+1, fault.TextOf(err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(as)) {
		if err := as.CheckMembers(name); err != nil {
			return as, err
		}
	}
	return as, nil
}
