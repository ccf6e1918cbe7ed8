package placement

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// parseResources parses `CLASS:n,CLASS:n`. If a class occurs twice, the last amount is effective. Amounts have no
// limit; one that does not fit into an int becomes the largest int.
func parseResources(value string) (resource.Amounts, error) {
	if strings.TrimSpace(value) == "" {
		return nil, invalid("the resources parameter is empty; use for example resources=VCPU:2,MEMORY_MB:1024")
	}
	out := resource.Amounts{}
	for item := range strings.SplitSeq(value, ",") {
		class, number, ok := strings.Cut(item, ":")
		if !ok || strings.Contains(number, ":") {
			return nil, invalid("Badly formed resources parameter: %q is not CLASS:amount; "+
				"use for example resources=VCPU:2,MEMORY_MB:1024", item)
		}
		n, ok := wholeNumber(number)
		if !ok {
			return nil, invalid("Requested resource %s: the amount %q is not an integer", class, number)
		}
		if n < 1 {
			return nil, invalid("Requested resource %s: the amount is %d; it must be 1 or more", class, n)
		}
		out[resource.Class(class)] = n
	}
	return out, nil
}

// parseRequired parses all values of one `required` parameter. Before 1.39 only the last value is effective.
func parseRequired(v Version, values []string) (required [][]resource.Trait, forbidden []resource.Trait, err error) {
	if v < sinceAnyTraits {
		values = values[len(values)-1:]
	}
	for _, value := range values {
		more, without, err := parseTraits(v, value)
		if err != nil {
			return nil, nil, err
		}
		for _, any := range more {
			same := func(have []resource.Trait) bool { return slices.Equal(have, any) }
			if !slices.ContainsFunc(required, same) {
				required = append(required, any)
			}
		}
		for _, t := range without {
			forbidden = add(forbidden, t)
		}
	}
	return required, forbidden, nil
}

// parseTraits parses `A,!B` or `in:A,B`.
func parseTraits(v Version, value string) (required [][]resource.Trait, forbidden []resource.Trait, err error) {
	names, anyOf := strings.CutPrefix(value, "in:")
	if anyOf && v < sinceAnyTraits {
		return nil, nil, invalid("Invalid query string parameters: in: with traits requires microversion %s: %q",
			sinceAnyTraits, value)
	}
	var set []resource.Trait
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		bare := strings.TrimLeft(name, "!") // as in the original, several have the effect of one
		switch {
		case bare == "":
			return nil, nil, invalid("Invalid query string parameters: an empty trait in %q", value)
		case bare == name && anyOf:
			set = add(set, resource.Trait(name))
		case bare == name:
			required = append(required, []resource.Trait{resource.Trait(name)})
		case anyOf:
			return nil, nil, invalid("Invalid query string parameters: in: cannot contain a forbidden trait: %q", value)
		case v < sinceForbiddenTraits:
			return nil, nil, invalid("Invalid query string parameters: forbidden traits require microversion %s: %q",
				sinceForbiddenTraits, value)
		default:
			forbidden = add(forbidden, resource.Trait(bare))
		}
	}
	if anyOf {
		required = [][]resource.Trait{set}
	}
	return required, forbidden, nil
}

// parseMemberOf parses all values of one `member_of` parameter: `uuid`, `in:uuid,uuid`, `!uuid` or `!in:uuid,uuid`.
func parseMemberOf(v Version, key string, values []string) (member [][]resource.AggregateID,
	not []resource.AggregateID, err error) {
	if len(values) > 1 && v < sinceManyMemberOf {
		return nil, nil, invalid("repeating %s requires microversion %s", key, sinceManyMemberOf)
	}
	for _, value := range values {
		list, forbidden := strings.CutPrefix(value, "!")
		list, many := strings.CutPrefix(list, "in:")
		if !many && strings.Contains(list, ",") {
			return nil, nil, invalid("several values of member_of need the prefix in: or !in:, and %q has none", value)
		}
		var set []resource.AggregateID
		for id := range strings.SplitSeq(list, ",") {
			if !IsUUID(id) {
				return nil, nil, invalid("Invalid query string parameters: member_of: %q is not a UUID", id)
			}
			set = add(set, resource.AggregateID(id))
		}
		switch {
		case !forbidden:
			member = append(member, set)
		case v < sinceForbiddenAggregates:
			return nil, nil, invalid("%s with ! requires microversion %s", key, sinceForbiddenAggregates)
		default:
			for _, id := range set {
				not = add(not, id)
			}
		}
	}
	return member, not, nil
}

func parseUUID(key, value string) (provider.ID, error) {
	if !IsUUID(value) {
		return "", invalid("Invalid query string parameters: %s: %q is not a UUID", key, value)
	}
	return provider.ID(value), nil
}

// parseHyphenatedUUID is parseUUID for the parameters of GET /resource_providers. OpenStack's Placement accepts only
// the form with four hyphens there, because the format uuid of the JSON schema library applies.
func parseHyphenatedUUID(key, value string) (provider.ID, error) {
	if canonical, ok := CanonicalUUID(value); !ok || canonical != strings.ToLower(value) {
		return "", invalid("Invalid query string parameters: %s: %q is not a UUID with hyphens", key, value)
	}
	return provider.ID(value), nil
}

// IsUUID reports whether Placement accepts a text as a UUID: 32 hexadecimal digits, optionally with hyphens, braces or
// `urn:uuid:`.
func IsUUID(text string) bool { _, ok := CanonicalUUID(text); return ok }

// CanonicalUUID returns a UUID in lower case with four hyphens, and whether the text is a UUID.
func CanonicalUUID(text string) (string, bool) {
	bare := strings.Trim(strings.ReplaceAll(strings.ReplaceAll(text, "urn:", ""), "uuid:", ""), "{}")
	bare = strings.ReplaceAll(bare, "-", "")
	if len(bare) != 32 {
		return "", false
	}
	id, err := uuid.Parse(bare)
	return id.String(), err == nil
}

// invalid returns a fault of kind Invalid.
func invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, format, args...)
}

// add appends an item unless the list contains it.
func add[T comparable](list []T, item T) []T {
	if slices.Contains(list, item) {
		return list
	}
	return append(list, item)
}

// prefixed returns the items of a list with a prefix.
func prefixed[T ~string](prefix string, list []T) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = prefix + string(w)
	}
	return out
}

func join(lists ...[]string) string { return strings.Join(slices.Concat(lists...), ",") }
