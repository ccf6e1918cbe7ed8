package libvirt

import (
	"slices"
	"strings"
	"testing"
)

// The remarks about confinement follow the security models that libvirt reports.
func TestConfinement(t *testing.T) {
	const (
		module = `<secmodel><model>apparmor</model><doi>0</doi></secmodel>`
		user   = `<secmodel><model>dac</model><doi>0</doi><baselabel type='kvm'>+64055:+64055</baselabel>` +
			`<baselabel type='qemu'>+64055:+64055</baselabel></secmodel>`
		root = `<secmodel><model>dac</model><doi>0</doi><baselabel type='kvm'>+0:+0</baselabel></secmodel>`
		none = `<secmodel><model>none</model><doi>0</doi></secmodel>`
	)
	for models, want := range map[string][]string{
		module + user: nil,
		strings.ReplaceAll(module, "apparmor", "selinux") + user: nil,
		user:          {unconfined},
		none + user:   {unconfined},
		module + root: {asRoot},
		module:        {asRoot},
		"":            {asRoot, unconfined},
	} {
		got, err := readConfinement("<capabilities><host>" + models + "</host></capabilities>")
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", models, got, err, want)
		}
	}
	if _, err := readConfinement("<capabilities>"); err == nil {
		t.Error("capabilities that end early are read")
	}
}
