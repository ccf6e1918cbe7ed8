package cli

import (
	"cmp"
	"reflect"
	"time"
)

// withEmptyLists returns a value in which nil slices are empty ones: JSON shows them as [] instead of null. It may
// change what the value refers to.
func withEmptyLists(value any) any {
	v := reflect.ValueOf(value)
	if !v.IsValid() {
		return value
	}
	changed := reflect.New(v.Type()).Elem()
	changed.Set(v)
	fillLists(changed)
	return changed.Interface()
}

// fillLists makes the nil slices in a value empty ones. Bytes are not a list.
func fillLists(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		if v.IsNil() && v.CanSet() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			fillLists(v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			fillLists(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				fillLists(f)
			}
		}
	case reflect.Map, reflect.Interface:
		fillCopies(v)
	}
}

// fillCopies does it for values that cannot be changed in their place.
func fillCopies(v reflect.Value) {
	if v.IsNil() || !v.CanInterface() {
		return
	}
	filled := func(old reflect.Value) reflect.Value {
		changed := reflect.New(old.Type()).Elem()
		changed.Set(old)
		fillLists(changed)
		return changed
	}
	if v.Kind() == reflect.Interface {
		if v.CanSet() {
			v.Set(filled(v.Elem()))
		}
		return
	}
	for _, key := range v.MapKeys() {
		v.SetMapIndex(key, filled(v.MapIndex(key)))
	}
}

// localTime returns a time for people, in the zone of this machine; "-" for none. JSON has times in UTC.
func localTime(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Local().Format("2006-01-02 15:04:05")
}

// apiTimes are the forms of times in OpenStack's APIs. Those without a zone are in UTC.
var apiTimes = []string{time.RFC3339, "2006-01-02T15:04:05.999999", "2006-01-02 15:04:05"}

// parseTime reads a time of an API.
func parseTime(text string) (time.Time, bool) {
	for _, form := range apiTimes {
		if at, err := time.Parse(form, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

// localTimeOf returns the time of an API for people. Another text stays.
func localTimeOf(text string) string {
	if at, ok := parseTime(text); ok {
		return localTime(at)
	}
	return cmp.Or(text, "-")
}

// utcTime returns the time of an API as JSON has it: in UTC, in seconds. Another text stays.
func utcTime(text string) string {
	if at, ok := parseTime(text); ok {
		return at.UTC().Format(time.RFC3339)
	}
	return text
}
