package placement

import (
	"maps"
	"regexp"
	"sync"

	"github.com/openberth/berth/resource"
)

// Body identifies a kind of request body. Its schema may differ between microversions.
type Body string

// The request bodies of the API.
const (
	BodyNewProvider  Body = "POST /resource_providers"
	BodyProvider     Body = "PUT /resource_providers/{uuid}"
	BodyNewInventory Body = "POST /resource_providers/{uuid}/inventories"
	BodyInventory    Body = "PUT /resource_providers/{uuid}/inventories/{resource_class}"
	BodyInventories  Body = "PUT /resource_providers/{uuid}/inventories"
	BodyAggregates   Body = "PUT /resource_providers/{uuid}/aggregates"
	BodyTraits       Body = "PUT /resource_providers/{uuid}/traits"
	BodyClass        Body = "POST /resource_classes"
	BodyAllocation   Body = "PUT /allocations/{consumer_uuid}"
	BodyAllocations  Body = "POST /allocations"
	BodyReshape      Body = "POST /reshaper"
)

// schemaVersion is the schema of a body from one microversion on.
type schemaVersion struct {
	since  Version
	schema *schema
}

type members = map[string]*schema

const maxRatio = 3.40282e+38 // slightly less than the largest float32

// The forms of names. Most processes never need one of them, so that none is compiled before.
var (
	nameForm       = form("^[A-Z0-9_]+$")
	customNameForm = form("^CUSTOM_[A-Z0-9_]+$")
	uuidForm       = form("^[0-9a-fA-F-]{36}$")
	suffixForm     = form("[a-zA-Z0-9_-]{1,64}")
)

func form(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// schemas returns the schemas of all request bodies.
func schemas() map[Body][]schemaVersion {
	text200 := &schema{kinds: []string{"string"}, most: 200}
	parent := &schema{kinds: []string{"null", "string"}, uuid: true}
	class := closed(members{"name": {kinds: []string{"string"}, form: customNameForm, most: 255}}, "name")
	aggregates := &schema{kinds: []string{"array"}, items: uuidSchema(), unique: true}
	className := &schema{kinds: []string{"string"}, form: nameForm}
	traits := &schema{kinds: []string{"array"}, items: owner()}
	return map[Body][]schemaVersion{
		BodyNewProvider: {
			{0, closed(members{"name": text200, "uuid": uuidSchema()}, "name")},
			{14, closed(members{"name": text200, "uuid": uuidSchema(), "parent_provider_uuid": parent}, "name")},
		},
		BodyProvider: {
			{0, closed(members{"name": text200}, "name")},
			{14, closed(members{"name": text200, "parent_provider_uuid": parent}, "name")},
		},
		BodyNewInventory: {{0, closed(with(inventoryMembers(), members{"resource_class": className}),
			"total", "resource_class")}},
		BodyInventory:   {{0, closed(inventoryMembers(), "total", "resource_provider_generation")}},
		BodyInventories: {{0, inventoriesSchema()}},
		BodyAggregates: {
			{1, aggregates},
			{19, closed(members{"aggregates": aggregates, "resource_provider_generation": integer()},
				"aggregates", "resource_provider_generation")},
		},
		BodyTraits: {{6, closed(members{"traits": traits, "resource_provider_generation": integer()},
			"traits", "resource_provider_generation")}},
		BodyClass: {{2, class}},
		BodyAllocation: {
			{0, allocationList()},
			{8, allocationList("project_id", "user_id")},
			{12, allocationSchema(12, 1)},
			{28, allocationSchema(28, 0)},
			{34, allocationSchema(34, 0)},
			{38, allocationSchema(38, 0)},
		},
		BodyAllocations: {
			{13, allocationsSchema(13, 1)},
			{28, allocationsSchema(28, 1)},
			{34, allocationsSchema(34, 1)},
			{38, allocationsSchema(38, 1)},
		},
		BodyReshape: {{30, reshapeSchema(28)}, {34, reshapeSchema(34)}, {38, reshapeSchema(38)}},
	}
}

// closed returns the schema of an object with these members and no others.
func closed(of members, required ...string) *schema {
	return &schema{kinds: []string{"object"}, members: of, required: required, closed: true}
}

// keyed returns the schema of an object whose member names have a form.
func keyed(names func() *regexp.Regexp, value *schema, atLeast int) *schema {
	return &schema{kinds: []string{"object"}, form: names, formed: value, closed: true, least: atLeast}
}

func with(base, more members) members {
	out := maps.Clone(base)
	maps.Copy(out, more)
	return out
}

func uuidSchema() *schema { return &schema{kinds: []string{"string"}, uuid: true} }

func integer() *schema { return &schema{kinds: []string{"integer"}} }

func between(low, high float64) *schema {
	return &schema{kinds: []string{"integer"}, minimum: &low, maximum: &high}
}

func inventoryMembers() members {
	most := maxRatio
	return members{
		"resource_provider_generation": integer(),
		"total":                        between(1, resource.MaxAmount),
		"reserved":                     between(0, resource.MaxAmount),
		"min_unit":                     between(1, resource.MaxAmount),
		"max_unit":                     between(1, resource.MaxAmount),
		"step_size":                    between(1, resource.MaxAmount),
		"allocation_ratio":             {kinds: []string{"number"}, maximum: &most},
	}
}

// inventoriesSchema returns the schema of all inventories of a provider. As in the original, it does not check the
// names of classes; an unknown class is refused later.
func inventoriesSchema() *schema {
	inventory := closed(inventoryMembers(), "total")
	return closed(members{
		"resource_provider_generation": integer(),
		"inventories":                  {kinds: []string{"object"}, others: inventory},
	}, "resource_provider_generation", "inventories")
}

func owner() *schema { return &schema{kinds: []string{"string"}, least: 1, most: 255} }

func amounts() *schema {
	one := 1.0
	return keyed(nameForm, &schema{kinds: []string{"integer"}, minimum: &one}, 1)
}

// allocationList returns the schema of PUT /allocations/{consumer} before microversion 1.12.
func allocationList(owners ...string) *schema {
	id := closed(members{"uuid": uuidSchema()}, "uuid")
	share := closed(members{"resource_provider": id, "resources": amounts()}, "resource_provider", "resources")
	all := members{"allocations": {kinds: []string{"array"}, least: 1, items: share}}
	for _, name := range owners {
		all[name] = owner()
	}
	return closed(all, append([]string{"allocations"}, owners...)...)
}

// allocationSchema returns the schema of the allocations of one consumer since microversion 1.12.
func allocationSchema(v Version, atLeast int) *schema {
	share := closed(members{"generation": integer(), "resources": amounts()}, "resources")
	all := members{"allocations": keyed(uuidForm, share, atLeast), "project_id": owner(), "user_id": owner()}
	required := []string{"allocations", "project_id", "user_id"}
	if v >= 28 {
		all["consumer_generation"] = &schema{kinds: []string{"null", "integer"}}
		required = append(required, "consumer_generation")
	}
	if v >= 34 {
		all["mappings"] = &schema{kinds: []string{"object"}, least: 1, form: suffixForm,
			formed: &schema{kinds: []string{"array"}, least: 1, items: uuidSchema()}}
	}
	if v >= 38 {
		all["consumer_type"] = &schema{kinds: []string{"string"}, form: nameForm, least: 1, most: 255}
		required = append(required, "consumer_type")
	}
	return closed(all, required...)
}

func allocationsSchema(v Version, atLeast int) *schema {
	return keyed(uuidForm, allocationSchema(v, 0), atLeast)
}

func reshapeSchema(v Version) *schema {
	return closed(members{
		"inventories": keyed(uuidForm, inventoriesSchema(), 1),
		"allocations": allocationsSchema(v, 0),
	}, "inventories", "allocations")
}
