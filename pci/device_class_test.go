package pci

import "testing"

// TestBridges checks which classes of devices no guest can use.
func TestBridges(t *testing.T) {
	for class, want := range map[uint32]bool{
		0x060000: true,  // host bridge
		0x060400: true,  // PCI bridge
		0x060401: true,  // PCI bridge, subtractive decode
		0x060100: true,  // ISA bridge
		0x060940: true,  // semi-transparent bridge
		0x068000: false, // NVSwitch
		0x030200: false, // GPU
		0x058000: false,
	} {
		if got := (Device{Class: class}).IsBridge(); got != want {
			t.Errorf("class %06x is a bridge: %t", class, got)
		}
	}
}
