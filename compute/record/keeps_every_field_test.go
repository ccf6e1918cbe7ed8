package record

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

// reported returns a host that an agent can have reported: without what is not part of a report. How its card is found
// is reported for a remote-managed device only.
func reported(h schedule.Host) schedule.Host {
	h.Guests, h.Load, h.Seen, h.Provider = nil, 0, time.Time{}, "0b9d3ab4-2ed0-4e71-a8a1-1f2f2c8d5d54"
	for i := range h.Devices {
		d := &h.Devices[i]
		d.Class, d.TotalVFs, d.NumVFs, d.VFProduct, d.Net = 0, 0, 0, "", nil
		if !d.RemoteManaged {
			d.Serial, d.PFMAC, d.VFNumber = "", "", 0
		}
	}
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
	hosts := map[string]schedule.Host{"filled": reported(filled[schedule.Host]()), "zero": reported(schedule.Host{})}
	for bit := 1; bit <= bits; bit++ {
		servers[fmt.Sprint("bit ", bit)] = filledByBit[lifecycle.Server](bit)
		hosts[fmt.Sprint("bit ", bit)] = reported(filledByBit[schedule.Host](bit))
	}
	for name, want := range servers {
		text, err := EncodeServer(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeServer(want.ID, text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the %s server is stored as %s, which is read as\n%+v %v, want\n%+v", name, text, got, err, want)
		}
	}
	if at := unset("", reflect.ValueOf(filled[schedule.Host]())); at != "" {
		t.Fatalf("this test does not fill Host%s", at)
	}
	for name, want := range hosts {
		text, err := EncodeHost(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeHost(want.Name, text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the %s host is stored as %s, which is read as\n%+v %v, want\n%+v",
				name, text, got, err, want)
		}
	}
}
