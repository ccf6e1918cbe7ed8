package placement

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/resource"
)

// MaxGroups is the maximum number of request groups in a query. OpenStack's own Placement has no limit.
const MaxGroups = 128

// AskQuery returns an ask as a query of microversion 1.39. ParseAsk of the query returns the same ask, with its groups
// sorted by suffix.
func AskQuery(ask resource.Ask) url.Values {
	q := url.Values{}
	for _, g := range ask.Groups {
		encodeGroup(q, g)
	}
	if ask.GroupPolicy != resource.PolicyUnset {
		q.Set(keyGroupPolicy, string(ask.GroupPolicy))
	}
	for _, suffixes := range ask.SameSubtree {
		q.Add(keySameSubtree, strings.Join(suffixes, ","))
	}
	if len(ask.RootRequired)+len(ask.RootForbidden) > 0 {
		q.Set(keyRootRequired, join(prefixed("", ask.RootRequired), prefixed("!", ask.RootForbidden)))
	}
	if ask.Limit > 0 {
		q.Set(keyLimit, strconv.Itoa(ask.Limit))
	}
	return q
}

// encodeGroup adds the parameters of a group to a query.
func encodeGroup(q url.Values, g resource.Group) {
	if len(g.Resources) > 0 {
		q.Set(keyResources+g.Suffix, g.Resources.String())
	}
	for i := 0; i < len(g.Required); {
		var single []resource.Trait
		for ; i < len(g.Required) && len(g.Required[i]) == 1; i++ {
			single = append(single, g.Required[i][0])
		}
		if len(single) > 0 {
			q.Add(keyRequired+g.Suffix, join(prefixed("", single)))
			continue
		}
		q.Add(keyRequired+g.Suffix, "in:"+join(prefixed("", g.Required[i])))
		i++
	}
	if len(g.Forbidden) > 0 {
		q.Add(keyRequired+g.Suffix, join(prefixed("!", g.Forbidden)))
	}
	for _, any := range g.MemberOf {
		q.Add(keyMemberOf+g.Suffix, "in:"+join(prefixed("", any)))
	}
	if len(g.NotMemberOf) > 0 {
		q.Add(keyMemberOf+g.Suffix, "!in:"+join(prefixed("", g.NotMemberOf)))
	}
	if g.InTree != "" {
		q.Set(keyInTree+g.Suffix, string(g.InTree))
	}
}

var (
	numberedKey = regexp.MustCompile(`^(resources|required|member_of|in_tree)([1-9][0-9]*)?$`)
	namedKey    = regexp.MustCompile(`^(resources|required|member_of|in_tree)([a-zA-Z0-9_-]{1,64})?$`)
)

// ParseAsk parses the query of GET /allocation_candidates at a microversion. The groups of the ask are sorted by
// suffix. Errors are fault.Invalid; their code is empty or one of CodeQuery…. ParseAsk does not check whether classes
// and traits exist. As in the original, a parameter that should not be repeated has one effective value: the first of
// limit and group_policy, the last of resources and in_tree.
func ParseAsk(v Version, q url.Values) (resource.Ask, error) {
	var ask resource.Ask
	groups := map[string]*resource.Group{}
	for _, key := range slices.Sorted(maps.Keys(q)) {
		if err := parseKey(v, q, key, groups, &ask); err != nil {
			return resource.Ask{}, err
		}
	}
	if len(groups) > MaxGroups {
		return resource.Ask{}, invalid("%d request groups are too many; the limit is %d", len(groups), MaxGroups)
	}
	for _, suffix := range slices.Sorted(maps.Keys(groups)) {
		ask.Groups = append(ask.Groups, *groups[suffix])
	}
	if err := checkAsk(v, ask); err != nil {
		return resource.Ask{}, err
	}
	return ask, nil
}

// parseKey parses all values of one parameter into the ask or into its group.
func parseKey(v Version, q url.Values, key string, groups map[string]*resource.Group, ask *resource.Ask) error {
	values := q[key]
	if len(values) == 0 {
		return nil
	}
	if since, known := askKeys[key]; known && v >= since {
		return parseAskParameter(ask, key, values)
	}
	pattern := namedKey
	if v < sinceNamedSuffix {
		pattern = numberedKey
	}
	match := pattern.FindStringSubmatch(key)
	if match == nil || v < groupKeys[match[1]] || match[2] != "" && v < sinceSuffix {
		return invalid("Invalid query string parameters: there is no parameter %q at microversion %s", key, v)
	}
	name, suffix := match[1], match[2]
	g := groups[suffix]
	if g == nil {
		g = &resource.Group{Suffix: suffix}
		groups[suffix] = g
	}
	var err error
	switch name {
	case keyRequired:
		g.Required, g.Forbidden, err = parseRequired(v, values)
	case keyMemberOf:
		g.MemberOf, g.NotMemberOf, err = parseMemberOf(v, key, values)
	case keyResources: // all values must be valid; the last one is effective
		for i := 0; i < len(values) && err == nil; i++ {
			g.Resources, err = parseResources(values[i])
		}
	case keyInTree:
		for i := 0; i < len(values) && err == nil; i++ {
			g.InTree, err = parseUUID(key, strings.TrimSpace(values[i]))
		}
	}
	return err
}

// parseAskParameter parses a parameter that does not belong to a group.
func parseAskParameter(ask *resource.Ask, key string, values []string) error {
	switch key {
	case keyLimit:
		for _, value := range slices.Backward(values) { // all values must be valid; the first one is effective
			if err := parseLimit(ask, value); err != nil {
				return err
			}
		}
	case keyGroupPolicy:
		return parseGroupPolicy(ask, values)
	case keyRootRequired:
		if len(values) > 1 {
			return invalid("root_required may be given only once").WithCode(CodeQueryDuplicateKey)
		}
		return parseRootRequired(ask, values[0])
	case keySameSubtree:
		for _, value := range values {
			var suffixes []string
			for suffix := range strings.SplitSeq(value, ",") {
				if suffix = strings.TrimSpace(suffix); suffix == "" {
					return invalid("same_subtree=%q is not valid: it has an empty suffix", value).
						WithCode(CodeQueryBadValue)
				}
				suffixes = add(suffixes, suffix)
			}
			ask.SameSubtree = append(ask.SameSubtree, suffixes)
		}
	}
	return nil
}

// parseGroupPolicy parses group_policy. As in the original, the last value must be valid and the first one is
// effective. If the first one is not valid and not empty, it means none.
func parseGroupPolicy(ask *resource.Ask, values []string) error {
	valid := func(value string) bool {
		return value == string(resource.PolicyNone) || value == string(resource.PolicyIsolate)
	}
	if last := values[len(values)-1]; !valid(last) {
		return invalid("Invalid query string parameters: group_policy=%q is not valid; use none or isolate", last)
	}
	ask.GroupPolicy = resource.Policy(values[0])
	if !valid(values[0]) && values[0] != "" {
		ask.GroupPolicy = resource.PolicyNone
	}
	return nil
}

func parseLimit(ask *resource.Ask, value string) error {
	if value == "" || value[0] < '1' || value[0] > '9' || strings.Trim(value, "0123456789") != "" {
		return invalid("Invalid query string parameters: limit=%q is not valid; use an integer of 1 or more", value)
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		n = resource.MaxAmount // too large for an int: no limit in effect
	}
	ask.Limit = n
	return nil
}

func parseRootRequired(ask *resource.Ask, value string) error {
	required, forbidden, err := parseTraits(sinceRootRequired, value)
	if err != nil {
		return err
	}
	for _, any := range required {
		ask.RootRequired = add(ask.RootRequired, any[0])
	}
	ask.RootForbidden = forbidden
	for _, t := range ask.RootRequired {
		if slices.Contains(forbidden, t) {
			return invalid("root_required both requires and forbids %s", t).WithCode(CodeQueryBadValue)
		}
	}
	return nil
}

// checkAsk makes the checks that need the whole ask.
func checkAsk(v Version, ask resource.Ask) error {
	var err error
	if v < sinceSameSubtree {
		err = checkResources(ask)
	} else {
		err = checkSubtrees(ask)
	}
	if err != nil {
		return err
	}
	for _, g := range ask.Groups {
		for _, any := range g.Required {
			if !slices.ContainsFunc(any, func(t resource.Trait) bool { return !slices.Contains(g.Forbidden, t) }) {
				return invalid("Conflicting required and forbidden traits in required%s: %s", g.Suffix, join(prefixed("", any)))
			}
		}
	}
	if ask.Suffixed() > 1 && ask.GroupPolicy == resource.PolicyUnset {
		return invalid("group_policy is required if more than one group has a suffix")
	}
	return nil
}

// checkResources checks that each group has resources, as required before 1.36.
func checkResources(ask resource.Ask) error {
	for _, g := range ask.Groups {
		if len(g.Resources) == 0 {
			return invalid("All request groups must have resources, and the group %q has none", g.Suffix)
		}
	}
	if len(ask.Groups) == 0 {
		return invalid("At least one request group (`resources` or `resources{$S}`) is required")
	}
	return nil
}

// checkSubtrees checks that same_subtree names each group without resources, as required since 1.36.
func checkSubtrees(ask resource.Ask) error {
	suffixes, inSubtree := map[string]bool{}, map[string]bool{}
	for _, set := range ask.SameSubtree {
		for _, suffix := range set {
			inSubtree[suffix] = true
		}
	}
	var idle []string
	for _, g := range ask.Groups {
		suffixes[g.Suffix] = true
		if len(g.Resources) == 0 {
			idle = append(idle, g.Suffix)
		}
	}
	if len(idle) == len(ask.Groups) {
		return invalid("There must be at least one resources or resources[$S] parameter").WithCode(CodeQueryMissingValue)
	}
	for _, suffix := range idle {
		if !inSubtree[suffix] {
			return invalid("the group %q has no resources; name it in same_subtree or add resources", suffix).
				WithCode(CodeQueryBadValue)
		}
	}
	for _, set := range ask.SameSubtree {
		for _, suffix := range set {
			if !suffixes[suffix] {
				return invalid("same_subtree names %q, and no group has that suffix", suffix).WithCode(CodeQueryBadValue)
			}
		}
	}
	return nil
}
