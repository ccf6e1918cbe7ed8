package pci

import (
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/fault"
)

// Match is what the devices of a request have in common with each other, and with those of other requests of the server
// that have the same Set.
type Match struct {
	Set    int    // its number within the server, from 1
	Family string // the devices of a set have a value of this family in common
	Times  int    // how many sets: each has equally many devices of each request, and agrees by itself; at least 1
	Whole  bool   // a set takes all devices that the host offers with its value
}

// maxMembers is the maximum number of devices in one set of an alias.
const maxMembers = 64

// CheckFamily returns a fault if a text cannot be the name of a family: one that each device has, or a property of
// device_spec.
func CheckFamily(name string) error {
	switch {
	case slices.Contains(builtInFamilies, name):
		return nil
	case !propertyName.MatchString(name), slices.Contains(reservedFamilies, name):
		return refuse("%q is not a family of values; write %s, or a property of device_spec", clip(name),
			strings.Join(builtInFamilies, ", "))
	}
	if near := fault.Similar(name, builtInFamilies, 2); len(near) > 0 {
		return refuse("%q is not a family of values; did you mean %s?", name, near[0])
	}
	return nil
}

// IsProperty reports whether a family is a property of device_spec.
func IsProperty(family string) bool { return !slices.Contains(builtInFamilies, family) }

// readSets reads what the devices of an alias have in common, and the members of its sets.
func (a *Alias) readSets(o object) (err error) {
	if a.Match, err = o.text("match", RootFamily); err != nil {
		return err
	}
	whole, err := o.flag("whole")
	if err != nil {
		return err
	}
	a.Whole = whole == Yes
	if _, there := o.values["match"]; there {
		if err := CheckFamily(a.Match); err != nil {
			return refuse("alias %q: match: %s", a.Name, fault.TextOf(err))
		}
	} else if a.Whole {
		return refuse("alias %q has whole without match; add the match whose values its devices share", a.Name)
	}
	return a.readMembers(o)
}

// readMembers reads the members of the sets of an alias: an object of numbers by alias.
func (a *Alias) readMembers(o object) error {
	raw, there := o.values["members"]
	if !there {
		return nil
	}
	if err := readNumbers(raw, &a.Members); err != nil || len(a.Members) == 0 {
		return refuse("alias %q: members must be an object of numbers, such as {\"gpu\": 1, \"nic\": 1}; it is %s",
			a.Name, clip(string(raw)))
	}
	sum := 0
	for _, name := range slices.Sorted(maps.Keys(a.Members)) {
		n := a.Members[name]
		if n < 1 || n > maxMembers {
			return refuse("alias %q: members: the number of %s is %d; write one from 1 to %d", a.Name, name, n, maxMembers)
		}
		sum += n
	}
	switch {
	case a.Match == "":
		return refuse("alias %q has members without match; add the match whose values they share, such as %q", a.Name,
			RootFamily)
	case sum > maxMembers:
		return refuse("alias %q: members are %d devices; use at most %d", a.Name, sum, maxMembers)
	}
	for _, key := range []string{"vendor_id", "product_id", "device_type", "numa_policy", "resource_class", "traits",
		"live_migratable", "capability_type"} {
		if _, there := o.values[key]; there {
			return refuse("alias %q has members and %s; write %s in the aliases of its members", a.Name, key, key)
		}
	}
	return nil
}

// CheckMembers returns a fault if the members of the alias with a name are not aliases of devices.
func (as Aliases) CheckMembers(name string) error {
	for _, member := range slices.Sorted(maps.Keys(as[name].Members)) {
		of, known := as[member]
		switch {
		case !known:
			return refuse("alias %q: members: no alias %q is configured; %s", name, member,
				suggest(member, slices.Sorted(maps.Keys(as))))
		case of.Match != "":
			return refuse("alias %q: members: alias %q has a match of its own; write an alias without", name, member)
		}
	}
	return nil
}

// matched returns the requests for a number of an alias with match: one for each member, or one for the devices of the
// alias, which are one set.
func (as Aliases) matched(a Alias, count, set int, newID func() string) (list []Request) {
	if len(a.Members) == 0 {
		r := a.request(count, newID())
		r.Match = &Match{Set: set, Family: a.Match, Times: 1, Whole: a.Whole}
		return []Request{r}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Members)) {
		r := as[name].request(count*a.Members[name], newID())
		r.Match = &Match{Set: set, Family: a.Match, Times: count, Whole: a.Whole}
		list = append(list, r)
	}
	return list
}

// request returns the request for a number of devices of an alias without members.
func (a Alias) request(count int, id string) Request {
	r := Request{ID: id, Alias: a.Name, Count: count, Requirement: a.Requirement.clone(), Policy: a.Policy}
	for _, w := range a.Alternatives {
		r.Alternatives = append(r.Alternatives, w.clone())
	}
	return r
}

// SharedValue is how many devices of a host have a value.
type SharedValue struct{ Devices, Free int }

// SharedValues counts the offered devices with each value of a family.
func SharedValues(family string, offered []Offered, free func(Offered) bool) map[string]SharedValue {
	out := map[string]SharedValue{}
	for _, d := range offered {
		for _, v := range d.Values(family) {
			of := out[v]
			if of.Devices++; free(d) {
				of.Free++
			}
			out[v] = of
		}
	}
	return out
}
