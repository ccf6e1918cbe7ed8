package vfconfig

import (
	"slices"
	"strings"
	"testing"
)

const mac = "fa:16:3e:00:00:07"

func TestSettingsOfPort(t *testing.T) {
	up := Port{ID: "p", MAC: mac, AdminUp: true, SpoofCheck: true}
	with := func(change func(*Port)) Port {
		p := up
		change(&p)
		return p
	}
	for name, c := range map[string]struct {
		port Port
		want Settings
	}{
		"plain":         {up, Settings{MAC: mac, SpoofCheck: true}},
		"VLAN":          {with(func(p *Port) { p.VLAN = 7 }), Settings{MAC: mac, VLAN: 7, SpoofCheck: true}},
		"upper case":    {with(func(p *Port) { p.MAC = strings.ToUpper(mac) }), Settings{MAC: mac, SpoofCheck: true}},
		"down":          {with(func(p *Port) { p.AdminUp = false }), Settings{MAC: mac, SpoofCheck: true, Disabled: true}},
		"trusted":       {with(func(p *Port) { p.Trusted = true }), Settings{MAC: mac, Trusted: true}},
		"no spoof":      {with(func(p *Port) { p.SpoofCheck = false }), Settings{MAC: mac}},
		"guarantee":     {with(func(p *Port) { p.MinEgress = 5000 }), Settings{MAC: mac, SpoofCheck: true, MinRate: 5}},
		"guarantee up":  {with(func(p *Port) { p.MinEgress = 5001 }), Settings{MAC: mac, SpoofCheck: true, MinRate: 6}},
		"1 kbit/s":      {with(func(p *Port) { p.MinEgress = 1 }), Settings{MAC: mac, SpoofCheck: true, MinRate: 1}},
		"limit":         {with(func(p *Port) { p.MaxEgress = 5000 }), Settings{MAC: mac, SpoofCheck: true, MaxRate: 5}},
		"limit down":    {with(func(p *Port) { p.MaxEgress = 5999 }), Settings{MAC: mac, SpoofCheck: true, MaxRate: 5}},
		"least limit":   {with(func(p *Port) { p.MaxEgress = 1 }), Settings{MAC: mac, SpoofCheck: true, MaxRate: 1}},
		"ingress limit": {with(func(p *Port) { p.MaxIngress = 1000 }), Settings{MAC: mac, SpoofCheck: true}},
		"limit below the rounded guarantee": {with(func(p *Port) { p.MinEgress, p.MaxEgress = 1500, 1999 }),
			Settings{MAC: mac, SpoofCheck: true, MinRate: 2, MaxRate: 2}},
	} {
		if got := c.port.Settings(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// names returns the operations as text.
func names(list []Operation) (out []string) {
	for _, o := range list {
		out = append(out, o.String())
	}
	return out
}

func TestOperationsAreTheDifference(t *testing.T) {
	full := Settings{MAC: mac, VLAN: 7, MinRate: 1, MaxRate: 2, Trusted: true, Disabled: true}
	for name, c := range map[string]struct {
		present, want Settings
		operations    []string
	}{
		"nothing": {full, full, nil},
		"all": {Unassigned(), full, []string{"MAC address " + mac, "VLAN 7", "a rate of at least 1 and at most 2 Mbit/s",
			"spoof check off", "trust on", "link off"}},
		"VLAN": {full, Settings{MAC: mac, MinRate: 1, MaxRate: 2, Trusted: true, Disabled: true}, []string{"VLAN 0"}},
		"limit removed": {full, Settings{MAC: mac, VLAN: 7, MinRate: 1, Trusted: true, Disabled: true},
			[]string{"a rate of at least 1 and at most any Mbit/s"}},
	} {
		if got := names(Operations(c.present, c.want)); !slices.Equal(got, c.operations) {
			t.Errorf("%s: %q, want %q", name, got, c.operations)
		}
	}
	reset := []string{"link on", "trust off", "spoof check on", "a rate of at least 0 and at most any Mbit/s", "VLAN 0",
		"MAC address " + NoMAC}
	if got := names(ResetOperations(full)); !slices.Equal(got, reset) {
		t.Errorf("reset: %q, want %q", got, reset)
	}
	if got := ResetOperations(Unassigned()); len(got) > 0 {
		t.Errorf("a VF without a port is reset: %v", got)
	}
}

// Each operation leads to the configuration that was wanted, so a second comparison returns nothing.
func TestOperationsConverge(t *testing.T) {
	all := []Settings{Unassigned(), {MAC: mac, VLAN: 4094, MinRate: 3, MaxRate: 9, Trusted: true},
		{MAC: NoMAC, Disabled: true}, {MAC: mac, MaxRate: 1, SpoofCheck: true}}
	for _, from := range all {
		for _, to := range all {
			present := from
			for _, o := range Operations(from, to) {
				present = after(present, o)
			}
			if present != to {
				t.Errorf("from %+v to %+v: %+v", from, to, present)
			}
		}
	}
}

// after returns the configuration after an operation.
func after(s Settings, o Operation) Settings {
	switch o.Attribute {
	case MAC:
		s.MAC = o.Settings.MAC
	case VLAN:
		s.VLAN = o.Settings.VLAN
	case Rates:
		s.MinRate, s.MaxRate = o.Settings.MinRate, o.Settings.MaxRate
	case SpoofCheck:
		s.SpoofCheck = o.Settings.SpoofCheck
	case Trust:
		s.Trusted = o.Settings.Trusted
	case LinkState:
		s.Disabled = o.Settings.Disabled
	}
	return s
}

func TestOnlyGuaranteesHaveAFallback(t *testing.T) {
	for _, o := range Operations(Unassigned(), Settings{MAC: mac, VLAN: 7, MinRate: 1, MaxRate: 2, Trusted: true}) {
		limit, ok := o.WithoutGuarantee()
		if ok != (o.Attribute == Rates) {
			t.Errorf("%s: %v", o, ok)
		}
		if ok && (limit.Settings.MinRate != 0 || limit.Settings.MaxRate != 2) {
			t.Errorf("%+v", limit)
		}
		if o.Necessary() != (o.Attribute == MAC || o.Attribute == VLAN) {
			t.Errorf("%s is necessary: %v", o, o.Necessary())
		}
	}
	if _, ok := (Operation{Rates, Settings{MaxRate: 2}}).WithoutGuarantee(); ok {
		t.Error("a limit alone has a fallback")
	}
}

func TestConditions(t *testing.T) {
	vf := VF{Address: "0000:12:10.0", Interface: "eth2", Speed: 1000}
	down := VF{Address: "0000:12:10.0", Interface: "eth2"}
	for _, c := range []struct {
		got  string
		want []string // parts; none: no condition
	}{
		{Unsupported(vf, Operation{Rates, Settings{MinRate: 5}}, "invalid argument"),
			[]string{"0000:12:10.0", "eth2", "invalid argument", "driver supports it"}},
		{Unsupported(down, Operation{Rates, Settings{MaxRate: 5}}, "invalid argument"), []string{"the link is down"}},
		{Unsupported(down, Operation{Trust, Settings{}}, "x"), []string{"driver supports it"}},
		{NoIngressLimit(vf, Port{ID: "p1", MaxIngress: 9}), []string{"p1", "9 kbit/s", "not enforced"}},
		{NoIngressLimit(vf, Port{ID: "p1", MaxEgress: 9}), nil},
		{ExceededSpeed("eth2", 1000, 1001), []string{"eth2", "1001 Mbit/s", "has 1000"}},
		{ExceededSpeed("eth2", 1000, 1000), nil},
		{ExceededSpeed("eth2", 0, 5000), nil},
	} {
		if len(c.want) == 0 && c.got != "" {
			t.Errorf("unexpected: %s", c.got)
		}
		for _, part := range c.want {
			if !strings.Contains(c.got, part) {
				t.Errorf("%q is not in %q", part, c.got)
			}
		}
	}
}
