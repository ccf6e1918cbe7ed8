package qos

import "testing"

// TestConflict has row Q13 of docs/behaviour/network.md.
func TestConflict(t *testing.T) {
	rule := func(id string, kind Type, direction string, min, max int) Limits {
		return Limits{Rule{id, kind, direction, min}, max}
	}
	for _, c := range []struct {
		want      string
		new, have Limits
	}{
		{"", rule("b", MinimumBandwidth, "egress", 1, 0), rule("a", MinimumBandwidth, "ingress", 1, 0)},
		{"QoSRulesConflict", rule("b", MinimumBandwidth, "egress", 1, 0), rule("a", MinimumBandwidth, "egress", 2, 0)},
		{"", rule("a", MinimumBandwidth, "egress", 1, 0), rule("a", MinimumBandwidth, "egress", 2, 0)},
		{"QoSRuleParameterConflict", rule("b", MinimumPacketRate, "any", 1, 0), rule("a", MinimumPacketRate, "egress", 1, 0)},
		{"QoSRuleParameterConflict", rule("b", MinimumPacketRate, "ingress", 1, 0), rule("a", MinimumPacketRate, "any", 1,
			0)},
		{"", rule("b", MinimumPacketRate, "ingress", 1, 0), rule("a", MinimumPacketRate, "egress", 1, 0)},
		{"QoSRulesConflict", rule("b", MinimumPacketRate, "any", 1, 0), rule("a", MinimumPacketRate, "any", 1, 0)},
		{"QoSRuleParameterConflict", rule("b", MinimumBandwidth, "egress", 11, 0), rule("a", BandwidthLimit, "egress", 0,
			10)},
		{"QoSRuleParameterConflict", rule("b", BandwidthLimit, "egress", 0, 10), rule("a", MinimumBandwidth, "egress", 11,
			0)},
		{"", rule("b", MinimumBandwidth, "egress", 10, 0), rule("a", BandwidthLimit, "egress", 0, 10)},
		{"", rule("b", MinimumBandwidth, "ingress", 11, 0), rule("a", BandwidthLimit, "egress", 0, 10)},
	} {
		if code, reason := Conflict(c.new, []Limits{c.have}); code != c.want || (code == "") != (reason == "") {
			t.Errorf("%+v beside %+v: %q (%s), want %q", c.new, c.have, code, reason, c.want)
		}
	}
}
