package qos

import "fmt"

// Limits is a rule with the fields that conflicts depend on.
type Limits struct {
	Rule
	Max int // of a bandwidth limit, in kilobits per second
}

// Conflict returns why a rule cannot be in a policy beside the others, with the code of Neutron's error; empty if it
// can. The rule itself, by its ID, is not compared with its former state.
func Conflict(rule Limits, others []Limits) (code, reason string) {
	for _, o := range others {
		switch {
		case o.ID == rule.ID:
		case o.Type == rule.Type && o.Direction == rule.Direction:
			return "QoSRulesConflict", fmt.Sprintf("the policy has a rule of type %s with direction %q already, %s; change "+
				"that one", rule.Type, rule.Direction, o.ID)
		case rule.Type == MinimumPacketRate && o.Type == MinimumPacketRate &&
			(rule.Direction == "any" || o.Direction == "any"):
			return "QoSRuleParameterConflict", fmt.Sprintf("a minimum packet rate with direction any excludes one with a "+
				"direction: the policy has rule %s with direction %s", o.ID, o.Direction)
		case exceeds(rule, o) || exceeds(o, rule):
			return "QoSRuleParameterConflict", fmt.Sprintf("min_kbps of a minimum bandwidth is over max_kbps of the bandwidth "+
				"limit in the same direction, beside rule %s; lower min_kbps or raise max_kbps", o.ID)
		}
	}
	return "", ""
}

// exceeds reports whether a is a minimum over the limit b.
func exceeds(a, b Limits) bool {
	return a.Type == MinimumBandwidth && b.Type == BandwidthLimit && a.Direction == b.Direction && a.Min > b.Max
}
