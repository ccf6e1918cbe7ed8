package host

import (
	"reflect"
	"testing"
)

// fill sets each field and element of a value to something that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	default:
		panic("no value for " + v.Type().String())
	}
}

// Equal compares each field of a server: servers that differ in one field are different, and equal ones need not share
// their lists.
func TestEqualComparesEachField(t *testing.T) {
	var full, other Server
	fill(reflect.ValueOf(&full).Elem())
	fill(reflect.ValueOf(&other).Elem())
	if !full.Equal(other) || !full.Equal(full) || !(Server{}).Equal(Server{Requests: []Request{}}) {
		t.Error("equal servers are different")
	}
	for i := range reflect.TypeFor[Server]().NumField() {
		changed := full
		field := reflect.ValueOf(&changed).Elem().Field(i)
		field.SetZero()
		if name := reflect.TypeFor[Server]().Field(i).Name; full.Equal(changed) || changed.Equal(full) {
			t.Errorf("servers that differ in %s are equal", name)
		}
	}
	changed := full
	changed.Requests = append([]Request(nil), full.Requests...)
	changed.Requests[1].ID = "y"
	if full.Equal(changed) {
		t.Error("servers that differ in an element of a list are equal")
	}
}
