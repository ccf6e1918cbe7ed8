package placement

import (
	"maps"
	"net/url"
	"slices"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// ProviderQuery is the query of GET /resource_providers. An empty field selects all providers.
type ProviderQuery struct {
	Name  string
	ID    provider.ID
	Group resource.Group // what a provider alone must have; Suffix is not used
}

// providerKeys are the parameters and the microversion that added each.
var providerKeys = map[string]Version{
	"name": 0, "uuid": 0, keyMemberOf: 3, keyResources: 4, keyInTree: 14, keyRequired: 18,
}

// ParseProviderQuery parses the query of GET /resource_providers at a microversion. Its errors are fault.Invalid.
func ParseProviderQuery(v Version, q url.Values) (ProviderQuery, error) {
	var out ProviderQuery
	for _, key := range slices.Sorted(maps.Keys(q)) {
		values := q[key]
		if len(values) == 0 {
			continue
		}
		if since, known := providerKeys[key]; !known || v < since {
			return ProviderQuery{}, invalid(
				"Invalid query string parameters: there is no parameter %q at microversion %s", key, v)
		}
		var err error
		switch last := values[len(values)-1]; key {
		case "name":
			out.Name = last
		case "uuid":
			out.ID, err = parseHyphenatedUUID(key, last)
		case keyInTree:
			out.Group.InTree, err = parseHyphenatedUUID(key, last)
		case keyResources:
			out.Group.Resources, err = parseResources(last)
		case keyRequired:
			out.Group.Required, out.Group.Forbidden, err = parseRequired(v, values)
		case keyMemberOf:
			out.Group.MemberOf, out.Group.NotMemberOf, err = parseMemberOf(v, key, values)
		}
		if err != nil {
			return ProviderQuery{}, err
		}
	}
	return out, nil
}
