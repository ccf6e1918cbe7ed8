package cli

import (
	"context"
	"net/http"
	"strings"

	"github.com/openberth/berth/fault"
)

// policyKind is the kind of the commands on QoS policies.
type policyKind struct{}

func (policyKind) kind() *kind { return kinds["QoS policy"] }

// QoSCmd groups the commands on QoS policies and their rules.
type QoSCmd struct {
	Policy qosPolicyCmd `cmd:"" help:"Create, list, show, change and delete QoS policies."`
	Rule   qosRuleCmd   `cmd:"" help:"Add, list and remove the rules of QoS policies."`
}

// qosPolicyCmd groups the commands on QoS policies.
type qosPolicyCmd struct {
	Create createOfKind[policyKind, policyFlags] `cmd:"" help:"Create a QoS policy."`
	List   PolicyListCmd                         `cmd:"" help:"List QoS policies with their rules."`
	Show   showOfKind[policyKind]                `cmd:"" help:"Show a QoS policy."`
	Set    setOfKind[policyKind, policyChanges]  `cmd:"" help:"Change a QoS policy."`
	Delete deleteOfKind[policyKind]              `cmd:"" help:"Delete QoS policies."`
}

// policyChanges are the attributes of a QoS policy that can be changed.
type policyChanges struct {
	Description *string `api:"description" help:"Description." placeholder:"TEXT"`
	Shared      *bool   `api:"shared" help:"All projects use the policy, or with --no-shared only its own." negatable:""`
	Default     *bool   `api:"is_default" help:"New networks of the project have the policy." negatable:""`
}

// policyFlags are the attributes of a new QoS policy.
type policyFlags struct {
	policyChanges
	Project *string `api:"project_id" help:"Project that owns the policy." placeholder:"PROJECT"`
}

// qosRuleCmd groups the commands on rules of QoS policies.
type qosRuleCmd struct {
	Add    qosRuleAdd    `cmd:"" help:"Add a rule to a QoS policy."`
	List   qosRuleList   `cmd:"" help:"List the rules of a QoS policy."`
	Remove qosRuleRemove `cmd:"" help:"Remove rules of a QoS policy."`
}

// qosRuleAdd adds a rule.
type qosRuleAdd struct {
	Policy    string `arg:"" help:"Name or id of the policy."`
	Type      string `required:"" help:"What the rule does: ${enum}." enum:"minimum-bandwidth,minimum-packet-rate,bandwidth-limit"`
	Direction string `help:"For packets from the guest (egress), to it (ingress), or both (any, of minimum-packet-rate)." enum:"egress,ingress,any" default:"egress"`
	Rate      int    `required:"" help:"kbit/s, or of minimum-packet-rate 1000 packets/s." placeholder:"NUMBER"`
	Burst     *int   `help:"Largest burst of bandwidth-limit, in kbit." placeholder:"KBIT"`
}

// qosRates are the attributes with the rate of each type of rules.
var qosRates = map[string]string{"minimum-bandwidth": "min_kbps", "minimum-packet-rate": "min_kpps",
	"bandwidth-limit": "max_kbps"}

// Run adds the rule and prints it.
func (c *qosRuleAdd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	policy, err := kinds["QoS policy"].idOf(ctx, g, c.Policy)
	if err != nil {
		return err
	}
	set := map[string]any{qosRates[c.Type]: c.Rate, "direction": c.Direction}
	if c.Burst != nil {
		if c.Type != "bandwidth-limit" {
			return fault.New(fault.Invalid, "--burst is for --type bandwidth-limit only")
		}
		set["max_burst_kbps"] = *c.Burst
	}
	k := qosRulesOf(policy, strings.ReplaceAll(c.Type, "-", "_"))
	made, err := k.create(ctx, g, set)
	if err != nil {
		return err
	}
	return printObject(g, made)
}

// qosRulesOf returns the kind of the rules of a type, such as minimum_bandwidth, of one policy.
func qosRulesOf(policy, of string) *kind {
	return &kind{noun: "QoS rule", service: networkService, path: kinds["QoS policy"].pathOf(policy) + "/" + of + "_rules",
		one: of + "_rule", all: of + "_rules", id: "id"}
}

// qosRuleList lists the rules of a policy.
type qosRuleList struct {
	Policy string `arg:"" help:"Name or id of the policy."`
}

// Run prints the rules.
func (c *qosRuleList) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	rules, err := rulesOfPolicy(ctx, g, c.Policy)
	if err != nil {
		return err
	}
	return printList(g, rules, "Type", false, []column[document]{attribute("ID", "id"), attribute("Type", "type"),
		attribute("Direction", "direction"), {name: "Rate", text: rateOfRule}})
}

// rateOfRule returns the rate of a rule with its unit.
func rateOfRule(d document) string {
	for _, of := range sortedKeys(qosRates) {
		if value := d[qosRates[of]]; value != nil {
			unit := " kbit/s"
			if qosRates[of] == "min_kpps" {
				unit = " kpackets/s"
			}
			return valueText("", value) + unit
		}
	}
	return "-"
}

// rulesOfPolicy returns the rules of a policy.
func rulesOfPolicy(ctx context.Context, g *Globals, idOrName string) ([]document, error) {
	policy, err := kinds["QoS policy"].find(ctx, g, idOrName)
	if err != nil {
		return nil, err
	}
	rules := []document{}
	for _, one := range listOf(policy["rules"]) {
		if rule, is := one.(map[string]any); is {
			rules = append(rules, rule)
		}
	}
	return rules, nil
}

// qosRuleRemove removes rules of a policy.
type qosRuleRemove struct {
	Policy string   `arg:"" help:"Name or id of the policy."`
	Rules  []string `arg:"" name:"rule" help:"Ids of rules, which have no names."`
}

// Run removes the rules.
func (c *qosRuleRemove) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	policy, err := kinds["QoS policy"].find(ctx, g, c.Policy)
	if err != nil {
		return err
	}
	rules, err := rulesOfPolicy(ctx, g, policy.text("id"))
	if err != nil {
		return err
	}
	types, known := map[string]string{}, []string{}
	for _, rule := range rules {
		types[rule.text("id")], known = rule.text("type"), append(known, rule.text("id"))
	}
	for _, id := range c.Rules {
		if types[id] == "" {
			return fault.New(fault.NotFound, "QoS policy %s has no rule %s; %s", c.Policy, id, fault.DidYouMean(id, known,
				"`berth qos rule list "+c.Policy+"` shows all"))
		}
	}
	return removeEach(g, "QoS rules", c.Rules, func(ctx context.Context, id string) (string, error) {
		path := qosRulesOf(policy.text("id"), types[id]).pathOf(id)
		_, err := networkService(g).Do(ctx, http.MethodDelete, path, nil, nil)
		return id, err
	})
}
