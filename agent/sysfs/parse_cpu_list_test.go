package sysfs

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseCPUList(t *testing.T) {
	for text, want := range map[string][]int{"": nil, "0": {0}, "0-3,8": {0, 1, 2, 3, 8}, "8,0-1,1": {0, 1, 8}} {
		if got, err := ParseCPUList(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for _, text := range []string{",", "1-", "-1", "3-1", "x", "0-65536", "0-4294967295", strings.Repeat("0-65535,", 100) +
		"1", " 1"} {
		if got, err := ParseCPUList(text); err == nil {
			t.Errorf("%q: %d CPUs", text, len(got))
		}
	}
}

func FuzzParseCPUList(f *testing.F) {
	for _, seed := range []string{"", "0-3,8", "1-", "0-65535,0-65535", "0-65535,0,0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cpus, err := ParseCPUList(text)
		if err != nil {
			return
		}
		for i := 1; i < len(cpus); i++ {
			if cpus[i-1] >= cpus[i] {
				t.Fatalf("%q: %v", text, cpus)
			}
		}
	})
}
