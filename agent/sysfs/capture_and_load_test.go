package sysfs

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

// TestCapture tests that a captured machine has the same result, and the same text when it is captured again.
func TestCapture(t *testing.T) {
	for _, name := range []string{"sample", "virtio_vm", "odd_host"} {
		fsys := machine(t, name)
		text, err := Capture(fsys)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := Load(text)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		if got, want := read(t, loaded), read(t, fsys); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", name, got, want)
		}
		again, err := Capture(loaded)
		if err != nil || !bytes.Equal(again, text) {
			t.Errorf("%s: second capture: %v\n%s\nfirst:\n%s", name, err, again, text)
		}
	}
}

// TestCaptureHidesAddresses tests that a capture contains no MAC address and no serial number.
func TestCaptureHidesAddresses(t *testing.T) {
	fsys := fstest.MapFS{
		"bus/pci/devices/0000:01:00.0/vendor":           {Data: []byte("0x8086\n")},
		"bus/pci/devices/0000:01:00.0/net/eth0/address": {Data: []byte("52:54:00:12:34:56\n")},
		"bus/pci/devices/0000:01:00.0/vpd":              {Data: []byte("serial 12345")},
	}
	text, err := Capture(fsys)
	if err != nil || strings.Contains(string(text), "52:54") || strings.Contains(string(text), "12345") ||
		!strings.Contains(string(text), "eth0") {
		t.Errorf("%v\n%s", err, text)
	}
}
