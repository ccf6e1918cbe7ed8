package resources

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/qos"
	"github.com/openberth/berth/network/server/request"
	"github.com/openberth/berth/network/store"
)

func (s handlers) onPolicies() operations.Policies { return operations.Policies{Service: s.Ops} }

// ruleType is a type of rule as the API names it.
type ruleType struct {
	kind   qos.Type
	fields []string // beside id
}

// ruleTypes lists the types of rules.
func ruleTypes() []ruleType {
	return []ruleType{{qos.MinimumBandwidth, []string{"direction", "min_kbps"}},
		{qos.MinimumPacketRate, []string{"direction", "min_kpps"}},
		{qos.BandwidthLimit, []string{"direction", "max_kbps", "max_burst_kbps"}},
		{qos.DSCPMarking, []string{"dscp_mark"}}}
}

// qosPolicies returns the collection of QoS policies.
func (s handlers) qosPolicies() request.Collection {
	return request.Collection{One: "policy", Many: "policies", Missing: "QosPolicyNotFound",
		Attributes: request.With("shared", "is_default"),
		List: func(c *request.Call, q url.Values) ([]request.Document, error) {
			found, err := operations.List[store.Policy](c.R.Context(), s.Ops, request.StoreFilter(q))
			var list []request.Document
			for _, p := range found {
				list = append(list, policyDocument(c, p))
			}
			return list, err
		},
		Show: func(c *request.Call, id string) (request.Document, error) {
			p, err := operations.Get[store.Policy](c.R.Context(), s.Ops, id)
			return policyDocument(c, p), err
		},
		Draft: request.DraftProject,
		Create: func(c *request.Call, o *edge.Object) (request.Document, error) {
			p := store.Policy{}
			p.Project, _ = c.Project(o)
			readPolicy(o, &p)
			if err := o.Finish(); err != nil {
				return request.Document{}, err
			}
			p, err := s.onPolicies().CreatePolicy(c.R.Context(), p)
			return policyDocument(c, p), err
		},
		Update: func(c *request.Call, id string, revision int, o *edge.Object) (request.Document, error) {
			p, err := s.onPolicies().UpdatePolicy(c.R.Context(), id, revision, func(p *store.Policy) error {
				o := o.Copy()
				readPolicy(o, p)
				return o.Finish()
			})
			return policyDocument(c, p), err
		},
		Remove: func(c *request.Call, id string, revision int) error {
			return s.onPolicies().DeletePolicy(c.R.Context(), id, revision)
		}}
}

// CheckPolicy refuses a policy of a network or a port that the caller may not see.
func (s handlers) checkPolicy(c *request.Call, _ string, o *edge.Object, _ map[string]any) error {
	id := ""
	if raw := o.Keys["qos_policy_id"]; raw == nil || json.Unmarshal(raw, &id) != nil || id == "" {
		return nil
	}
	if err := c.NeedShares(); err != nil {
		return err
	}
	_, err := s.qosPolicies().Named().Read(c, id)
	return err
}

func readPolicy(o *edge.Object, p *store.Policy) {
	o.Text("name", &p.Name, 255)
	o.Text("description", &p.Description, 255)
	o.Flag("shared", &p.Shared)
	o.Flag("is_default", &p.IsDefault)
}

// policyDocument returns the document of a policy.
func policyDocument(c *request.Call, p store.Policy) request.Document {
	view := request.Common(p.Base)
	rules := []map[string]any{}
	for _, r := range p.Rules {
		v := ruleView(r)
		v["type"], v["qos_policy_id"] = r.Type, p.ID
		rules = append(rules, v)
	}
	shared := p.Shared || c.IsShared(p.ID)
	maps.Copy(view, map[string]any{"shared": shared, "is_default": p.IsDefault, "rules": rules})
	return request.Document{View: view, Target: c.Target(p.Project, map[string]any{"shared": shared})}
}

// ruleView returns a rule as the API shows it.
func ruleView(r store.Rule) map[string]any {
	all := map[string]any{"direction": r.Direction, "min_kbps": r.Min, "min_kpps": r.Min, "max_kbps": r.Max,
		"max_burst_kbps": r.Burst, "dscp_mark": r.DSCP}
	v := map[string]any{"id": r.ID}
	for _, t := range ruleTypes() {
		if string(t.kind) == r.Type {
			for _, field := range t.fields {
				v[field] = all[field]
			}
		}
	}
	return v
}

// ruleRoutes returns the paths of rules, of the aliases without a policy, and of the types.
func (s handlers) ruleRoutes() []edge.Route[*request.Call] {
	all := []edge.Route[*request.Call]{
		{Path: "/v2.0/qos/rule-types", Methods: request.Methods{http.MethodGet: {Handle: listRuleTypes}}},
		{Path: "/v2.0/qos/rule-types/{type}", Methods: request.Methods{http.MethodGet: {Handle: showRuleType}}}}
	for _, t := range ruleTypes() {
		path := "/v2.0/qos/policies/{policy}/" + string(t.kind) + "_rules"
		r := rules{s, t}
		one := request.Methods{http.MethodGet: {Handle: r.show}, http.MethodPut: {Handle: r.update},
			http.MethodDelete: {Handle: r.remove}}
		all = append(all, edge.Route[*request.Call]{Path: path,
			Methods: request.Methods{http.MethodGet: {Handle: r.list},
				http.MethodPost: {Handle: r.create}}}, edge.Route[*request.Call]{Path: path + "/{id}", Methods: one},
			edge.Route[*request.Call]{Path: "/v2.0/qos/alias_" + string(t.kind) + "_rules/{id}", Methods: one})
	}
	return all
}

// rules has the handlers of one type of rule.
type rules struct {
	handlers
	ruleType
}

// key returns the key of the rule in bodies, which is also its name in policy rules after policy_.
func (r rules) key() string { return string(r.kind) + "_rule" }

// policy returns the policy in the path, or that of the rule in the path, and checks a policy rule.
func (r rules) policy(c *request.Call, verb string) (p store.Policy, err error) {
	if id := c.R.PathValue("policy"); id != "" {
		p, err = operations.Get[store.Policy](c.R.Context(), r.Ops, id)
	} else {
		p, err = r.onPolicies().PolicyOfRule(c.R.Context(), r.kind, c.R.PathValue("id"))
	}
	if err != nil {
		return p, err
	}
	d := policyDocument(c, p)
	if !c.Permits("get_policy", d.Target) {
		return p, fault.New(fault.NotFound, "QosPolicy %s could not be found.", p.ID).WithCode("QosPolicyNotFound")
	}
	return p, c.Authorize(verb+"_policy_"+r.key(), d.Target)
}

// rule returns the rule in the path and its policy, and checks a policy rule.
func (r rules) rule(c *request.Call, verb string) (p store.Policy, rule store.Rule, err error) {
	if p, err = r.policy(c, verb); err == nil {
		rule, err = operations.Rule(p, r.kind, c.R.PathValue("id"))
	}
	return p, rule, err
}

func (r rules) list(c *request.Call) error {
	p, err := r.policy(c, "get")
	if err != nil {
		return err
	}
	list := []map[string]any{}
	for _, rule := range p.Rules {
		if v := ruleView(rule); rule.Type == string(r.kind) && request.Matches(v, c.R.URL.Query()) {
			list = append(list, v)
		}
	}
	return c.WriteJSON(http.StatusOK, map[string]any{r.key() + "s": list})
}

func (r rules) show(c *request.Call) error {
	_, rule, err := r.rule(c, "get")
	if err != nil {
		return err
	}
	return r.write(c, http.StatusOK, rule)
}

func (r rules) write(c *request.Call, status int, rule store.Rule) error {
	return c.WriteJSON(status, map[string]any{r.key(): ruleView(rule)})
}

func (r rules) create(c *request.Call) error {
	p, err := r.policy(c, "create")
	if err != nil {
		return err
	}
	rule := store.Rule{Type: string(r.kind), DSCP: -1, Min: -1, Max: -1}
	if slices.Contains(r.fields, "direction") {
		rule.Direction = "egress"
	}
	return r.put(c, http.StatusCreated, p, rule)
}

// put writes a rule of a policy with the attributes of the request.
func (r rules) put(c *request.Call, status int, p store.Policy, rule store.Rule) error {
	err := r.read(c, &rule)
	if err == nil {
		rule, err = r.onPolicies().PutRule(c.R.Context(), p.ID, rule)
	}
	if err != nil {
		return err
	}
	return r.write(c, status, rule)
}

func (r rules) update(c *request.Call) error {
	p, rule, err := r.rule(c, "update")
	if err != nil {
		return err
	}
	return r.put(c, http.StatusOK, p, rule)
}

// dscpMarks are the marks that a rule may have.
var dscpMarks = []int{0, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 46, 48, 56}

// read decodes the attributes of a rule. Required attributes are -1 before.
func (r rules) read(c *request.Call, rule *store.Rule) error {
	o, _, err := c.Object(r.key())
	if err != nil {
		return err
	}
	into := map[string]*int{"min_kbps": &rule.Min, "min_kpps": &rule.Min, "max_kbps": &rule.Max,
		"max_burst_kbps": &rule.Burst, "dscp_mark": &rule.DSCP}
	for _, field := range r.fields {
		if field == "direction" {
			words := []string{"egress", "ingress"}
			if r.kind == qos.MinimumPacketRate {
				words = append(words, "any")
			}
			if o.Word(field, &rule.Direction, words...) && rule.Direction == "" {
				o.Invalid(field, "it is null; write one of %v", words)
			}
			continue
		}
		n := into[field]
		o.Number(field, n, 0, request.MaxRate)
		if *n < 0 {
			o.Invalid(field, "it is required")
		}
	}
	if r.kind == qos.DSCPMarking && !slices.Contains(dscpMarks, rule.DSCP) {
		o.Invalid("dscp_mark", "%d is not one of %v", rule.DSCP, dscpMarks)
	}
	rule.Min, rule.Max, rule.DSCP = max(rule.Min, 0), max(rule.Max, 0), max(rule.DSCP, 0)
	delete(o.Keys, "tenant_id")
	delete(o.Keys, "project_id")
	return o.Finish()
}

func (r rules) remove(c *request.Call) error {
	p, err := r.policy(c, "delete")
	if err != nil {
		return err
	}
	return c.Done(http.StatusNoContent, r.onPolicies().DeleteRule(c.R.Context(), p.ID, r.kind, c.R.PathValue("id")))
}

func listRuleTypes(c *request.Call) error {
	list := []any{}
	for _, t := range ruleTypes() {
		list = append(list, map[string]any{"type": string(t.kind)})
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"rule_types": list})
}

func showRuleType(c *request.Call) error {
	for _, t := range ruleTypes() {
		if string(t.kind) == c.R.PathValue("type") {
			return c.WriteJSON(http.StatusOK, map[string]any{"rule_type": map[string]any{"type": string(t.kind),
				"drivers": []any{}}})
		}
	}
	return fault.New(fault.NotFound, "Rule type %s could not be found.", c.R.PathValue("type")).
		WithCode("QosRuleTypeNotFound")
}
