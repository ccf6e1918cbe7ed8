package store

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/openberth/berth/pci"
)

// upgradeVersion1 returns a record of version 1 as one of version 2, which has the fields of the struct type record.
//
// Version 1 had the names that fields and states had in Go when it was written; the tags `v1` and the table of states
// keep these names. Fields that have no such tag were added later and are absent. Fields of version 1 that no tag
// names are dropped: no program has read them since.
func upgradeVersion1(text []byte, record reflect.Type) ([]byte, error) {
	var old map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // a float64 would round large numbers
	if err := decoder.Decode(&old); err != nil {
		return nil, err
	}
	upgraded := upgradeObject(old, record)
	upgraded["version"] = 2
	return json.Marshal(upgraded)
}

// upgradeValue returns a value of version 1 as one of version 2 that is read into a Go value of type t.
func upgradeValue(value any, t reflect.Type) any {
	switch value := value.(type) {
	case []any:
		if t.Kind() != reflect.Slice {
			return value // decoding it returns an error
		}
		for i := range value {
			value[i] = upgradeValue(value[i], t.Elem())
		}
	case map[string]any:
		switch {
		case t.Kind() == reflect.Pointer:
			return upgradeValue(value, t.Elem())
		case t == reflect.TypeFor[address]():
			return upgradeAddress(value)
		case t.Kind() == reflect.Struct:
			return upgradeObject(value, t)
		}
	case string:
		if t == reflect.TypeFor[storedState]() {
			return upgradeState(value)
		}
	}
	return value // also maps, whose values no version has changed
}

// upgradeObject renames the keys of an object from the tags `v1` to the tags `json` of a struct type.
func upgradeObject(old map[string]any, t reflect.Type) map[string]any {
	upgraded := map[string]any{}
	for _, field := range reflect.VisibleFields(t) {
		if value, there := old[field.Tag.Get("v1")]; there {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			upgraded[name] = upgradeValue(value, field.Type)
		}
	}
	return upgraded
}

// upgradeAddress returns the text of a PCI address, which version 1 kept as four numbers.
func upgradeAddress(old map[string]any) any {
	number := func(name string) uint64 {
		n, _ := old[name].(json.Number)
		i, _ := n.Int64() // it is a number in every record of version 1
		return uint64(i)
	}
	a := pci.Address{Domain: uint32(number("Domain")), Bus: uint8(number("Bus")), Slot: uint8(number("Slot")),
		Func: uint8(number("Func"))}
	return a.String()
}
