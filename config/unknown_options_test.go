package config

import (
	"reflect"
	"testing"
)

func TestUnknownOptionsAreListed(t *testing.T) {
	c := parseConfig(t, "[DEFAULT]\nx = 1\n[PCI]\nalias = 1\nailas = 1\n", "[default]\nx = 2\n")
	var got []string
	for _, e := range c.Unknown([]Name{{"DEFAULT", "x"}, {"pci", "alias"}, {"pci", "device_spec"}}) {
		got = append(got, e.Place())
	}
	if want := []string{"first.conf:5", "second.conf:2"}; !reflect.DeepEqual(got, want) {
		t.Errorf("unknown %q, want %q", got, want)
	}
}
