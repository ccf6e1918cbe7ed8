package store

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
)

// unset returns the path of an exported field that is zero, or "".
func unset(path string, v reflect.Value) string {
	switch {
	case v.IsZero():
		return path
	case v.Kind() == reflect.Pointer:
		return unset(path, v.Elem())
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			if at := unset(fmt.Sprintf("%s[%d]", path, i), v.Index(i)); at != "" {
				return at
			}
		}
	case v.Type() == reflect.TypeFor[time.Time](), v.Type() == reflect.TypeFor[pci.Address]():
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() {
				continue
			}
			if at := unset(path+"."+v.Type().Field(i).Name, v.Field(i)); at != "" {
				return at
			}
		}
	}
	return ""
}

// recordedPart returns a host without the fields that are not part of its record.
func recordedPart(h schedule.Host) schedule.Host {
	h.Guests, h.Load, h.Seen = nil, 0, time.Time{}
	return h
}

// TestRecordsKeepEveryField checks that a record keeps every field of a server and of a host. A new field that the
// record lacks fails here or does not compile.
func TestRecordsKeepEveryField(t *testing.T) {
	if at := unset("", reflect.ValueOf(filled[lifecycle.Server]())); at != "" {
		t.Fatalf("this test does not fill Server%s", at)
	}
	servers := map[string]lifecycle.Server{
		"filled": filled[lifecycle.Server](), "emptied": emptied[lifecycle.Server](), "zero": {},
	}
	hosts := map[string]schedule.Host{
		"filled": filled[schedule.Host](), "emptied": emptied[schedule.Host](), "zero": {},
	}
	for bit := 1; bit <= bits; bit++ {
		servers[fmt.Sprint("bit ", bit)] = filledByBit[lifecycle.Server](bit)
		hosts[fmt.Sprint("bit ", bit)] = filledByBit[schedule.Host](bit)
	}
	for name, want := range servers {
		text, err := encodeServer(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeServer(want.ID, text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the %s server is stored as %s, which is read as\n%+v %v, want\n%+v", name, text, got, err, want)
		}
	}
	if at := unset("", reflect.ValueOf(filled[schedule.Host]())); at != "" {
		t.Fatalf("this test does not fill Host%s", at)
	}
	for name, want := range hosts {
		text, err := encodeHost(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeHost(want.Name, text); err != nil || !reflect.DeepEqual(got, recordedPart(want)) {
			t.Errorf("the %s host is stored as %s, which is read as\n%+v %v, want\n%+v",
				name, text, got, err, recordedPart(want))
		}
	}
}
