package placement

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// MaxGroups is how many request groups one query may have. OpenStack's own Placement sets no limit.
const MaxGroups = 128

// The query parameters of GET /allocation_candidates. Those in groupKeys take a suffix.
const (
	keyResources    = "resources"
	keyRequired     = "required"
	keyMemberOf     = "member_of"
	keyInTree       = "in_tree"
	keyLimit        = "limit"
	keyGroupPolicy  = "group_policy"
	keyRootRequired = "root_required"
	keySameSubtree  = "same_subtree"
)

// AskQuery prints an ask as a query of microversion 1.39. ParseAsk of it gives the same ask, with its groups sorted by suffix.
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

func prefixed[T ~string](prefix string, list []T) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = prefix + string(w)
	}
	return out
}

func join(lists ...[]string) string { return strings.Join(slices.Concat(lists...), ",") }

var (
	numberedKey = regexp.MustCompile(`^(resources|required|member_of|in_tree)([1-9][0-9]*)?$`)
	namedKey    = regexp.MustCompile(`^(resources|required|member_of|in_tree)([a-zA-Z0-9_-]{1,64})?$`)
)

// ParseAsk reads the query of GET /allocation_candidates as this microversion understands it. Its faults are of kind
// Invalid; their code is empty or one of CodeQuery…. That classes and traits exist is for the server to see.
// Groups are sorted by suffix. As in the original, of a parameter that takes no repetition one value counts: the first of
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
		return resource.Ask{}, invalid("%d request groups are too many, the limit is %d", len(groups), MaxGroups)
	}
	for _, suffix := range slices.Sorted(maps.Keys(groups)) {
		ask.Groups = append(ask.Groups, *groups[suffix])
	}
	if err := checkAsk(v, ask); err != nil {
		return resource.Ask{}, err
	}
	return ask, nil
}

// parseKey reads all values of one parameter into the ask or into its group.
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
	part := pattern.FindStringSubmatch(key)
	if part == nil || v < groupKeys[part[1]] || part[2] != "" && v < sinceSuffix {
		return invalid("Invalid query string parameters: there is no parameter %q at microversion %s", key, v)
	}
	g := groups[part[2]]
	if g == nil {
		g = &resource.Group{Suffix: part[2]}
		groups[part[2]] = g
	}
	var err error
	switch part[1] {
	case keyRequired:
		g.Required, g.Forbidden, err = parseRequired(v, values)
	case keyMemberOf:
		g.MemberOf, g.NotMemberOf, err = parseMemberOf(v, key, values)
	case keyResources: // all have to be right, the last one counts
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

// parseAskParameter reads a parameter that belongs to no group.
func parseAskParameter(ask *resource.Ask, key string, values []string) error {
	switch key {
	case keyLimit:
		for _, value := range slices.Backward(values) { // all have to be right, the first one counts
			if err := parseLimit(ask, value); err != nil {
				return err
			}
		}
	case keyGroupPolicy:
		return parseGroupPolicy(ask, values)
	case keyRootRequired:
		if len(values) > 1 {
			return invalid("root_required can be given once only").WithCode(CodeQueryDuplicateKey)
		}
		return parseRootRequired(ask, values[0])
	case keySameSubtree:
		for _, value := range values {
			var suffixes []string
			for suffix := range strings.SplitSeq(value, ",") {
				if suffix = strings.TrimSpace(suffix); suffix == "" {
					return invalid("same_subtree takes suffixes, and the group without one has none: %q", value).WithCode(CodeQueryBadValue)
				}
				suffixes = add(suffixes, suffix)
			}
			ask.SameSubtree = append(ask.SameSubtree, suffixes)
		}
	}
	return nil
}

// parseGroupPolicy: the last value has to be right, the first one counts. One that is wrong and counts is none, if it is anything.
func parseGroupPolicy(ask *resource.Ask, values []string) error {
	right := func(value string) bool {
		return value == string(resource.PolicyNone) || value == string(resource.PolicyIsolate)
	}
	if last := values[len(values)-1]; !right(last) {
		return invalid("Invalid query string parameters: group_policy is %q, it can be none or isolate", last)
	}
	ask.GroupPolicy = resource.Policy(values[0])
	if !right(values[0]) && values[0] != "" {
		ask.GroupPolicy = resource.PolicyNone
	}
	return nil
}

func parseLimit(ask *resource.Ask, value string) error {
	if value == "" || value[0] < '1' || value[0] > '9' || strings.Trim(value, "0123456789") != "" {
		return invalid("Invalid query string parameters: limit is %q, not a whole number from 1 up", value)
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		n = resource.MaxAmount // more than can be counted: all of them
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
			return invalid("root_required both wants and forbids %s", t).WithCode(CodeQueryBadValue)
		}
	}
	return nil
}

func invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "placement.query", format, args...)
}

// add appends what is not there yet.
func add[T comparable](list []T, item T) []T {
	if slices.Contains(list, item) {
		return list
	}
	return append(list, item)
}
