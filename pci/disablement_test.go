package pci

import (
	"testing"
	"time"
)

func TestAffecting(t *testing.T) {
	pf, other := Address{Bus: 1}, Address{Bus: 2}
	first, second := Address{Bus: 1, Func: 1}, Address{Bus: 1, Func: 2}
	devices := []Device{{Address: pf}, {Address: first, Parent: &pf}, {Address: second, Parent: &pf}, {Address: other}}
	for name, c := range map[string]struct {
		at   Address
		want []Address
	}{
		"a PF, its VFs":              {pf, []Address{pf, first, second}},
		"a VF, its PF":               {first, []Address{pf, first}},
		"a device":                   {other, []Address{other}},
		"a device that is not there": {Address{Bus: 3}, nil},
	} {
		got := Affecting([]Disablement{{ID: "d", Address: c.at}}, devices)
		if len(got) != len(c.want) {
			t.Errorf("%s: %v", name, got)
		}
		for _, at := range c.want {
			if len(got[at]) != 1 || got[at][0].ID != "d" {
				t.Errorf("%s: %s has %v", name, at, got[at])
			}
		}
	}
}

func TestExpired(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for _, c := range []struct {
		until time.Time
		want  bool
	}{{time.Time{}, false}, {now.Add(time.Second), false}, {now, true}} {
		if got := (Disablement{Until: c.until}).Expired(now); got != c.want {
			t.Errorf("until %s: %t", c.until, got)
		}
	}
}
