package placement

import (
	"maps"

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
	schema object
}

type object = map[string]any

const (
	patternName       = "^[A-Z0-9_]+$"
	patternCustomName = "^CUSTOM_[A-Z0-9_]+$"
	patternUUID       = "^[0-9a-fA-F-]{36}$"
	patternSuffix     = "[a-zA-Z0-9_-]{1,64}"

	maxRatio = 3.40282e+38 // slightly less than the largest float32
)

// schemas returns the schemas of all request bodies.
func schemas() map[Body][]schemaVersion {
	text200 := object{"type": "string", "maxLength": 200}
	parent := object{"anyOf": []any{uuidSchema(), object{"type": "null"}}}
	class := closed(object{"name": object{"type": "string", "pattern": patternCustomName, "maxLength": 255}}, "name")
	aggregates := object{"type": "array", "items": uuidSchema(), "uniqueItems": true}
	className := object{"type": "string", "pattern": patternName}
	traits := object{"type": "array", "items": object{"type": "string", "minLength": 1, "maxLength": 255}}
	return map[Body][]schemaVersion{
		BodyNewProvider: {
			{0, closed(object{"name": text200, "uuid": uuidSchema()}, "name")},
			{14, closed(object{"name": text200, "uuid": uuidSchema(), "parent_provider_uuid": parent}, "name")},
		},
		BodyProvider: {
			{0, closed(object{"name": text200}, "name")},
			{14, closed(object{"name": text200, "parent_provider_uuid": parent}, "name")},
		},
		BodyNewInventory: {{0, closed(with(inventoryMembers(), object{"resource_class": className}),
			"total", "resource_class")}},
		BodyInventory:   {{0, closed(inventoryMembers(), "total", "resource_provider_generation")}},
		BodyInventories: {{0, inventoriesSchema()}},
		BodyAggregates: {
			{1, aggregates},
			{19, closed(object{"aggregates": aggregates, "resource_provider_generation": integer()},
				"aggregates", "resource_provider_generation")},
		},
		BodyTraits: {{6, closed(object{"traits": traits, "resource_provider_generation": integer()},
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
func closed(members object, required ...string) object {
	return object{"type": "object", "properties": members, "required": required, "additionalProperties": false}
}

// keyed returns the schema of an object whose member names match a pattern.
func keyed(pattern string, value object, atLeast int) object {
	return object{"type": "object", "patternProperties": object{pattern: value}, "additionalProperties": false,
		"minProperties": atLeast}
}

func with(base, more object) object {
	out := maps.Clone(base)
	maps.Copy(out, more)
	return out
}

func uuidSchema() object { return object{"type": "string", "format": "uuid"} }

func integer() object { return object{"type": "integer"} }

func between(low, high int) object { return object{"type": "integer", "minimum": low, "maximum": high} }

func inventoryMembers() object {
	return object{
		"resource_provider_generation": integer(),
		"total":                        between(1, resource.MaxAmount),
		"reserved":                     between(0, resource.MaxAmount),
		"min_unit":                     between(1, resource.MaxAmount),
		"max_unit":                     between(1, resource.MaxAmount),
		"step_size":                    between(1, resource.MaxAmount),
		"allocation_ratio":             object{"type": "number", "maximum": maxRatio},
	}
}

// inventoriesSchema returns the schema of all inventories of a provider. As in the original, it does not check the
// names of classes; an unknown class is refused later.
func inventoriesSchema() object {
	inventory := closed(inventoryMembers(), "total")
	return closed(object{
		"resource_provider_generation": integer(),
		"inventories":                  object{"type": "object", "additionalProperties": inventory},
	}, "resource_provider_generation", "inventories")
}

func owner() object { return object{"type": "string", "minLength": 1, "maxLength": 255} }

func amounts() object {
	return keyed(patternName, object{"type": "integer", "minimum": 1}, 1)
}

// allocationList returns the schema of PUT /allocations/{consumer} before microversion 1.12.
func allocationList(owners ...string) object {
	id := closed(object{"uuid": uuidSchema()}, "uuid")
	share := closed(object{"resource_provider": id, "resources": amounts()}, "resource_provider", "resources")
	members := object{"allocations": object{"type": "array", "minItems": 1, "items": share}}
	for _, name := range owners {
		members[name] = owner()
	}
	return closed(members, append([]string{"allocations"}, owners...)...)
}

// allocationSchema returns the schema of the allocations of one consumer since microversion 1.12.
func allocationSchema(v Version, atLeast int) object {
	share := closed(object{"generation": integer(), "resources": amounts()}, "resources")
	members := object{"allocations": keyed(patternUUID, share, atLeast), "project_id": owner(), "user_id": owner()}
	required := []string{"allocations", "project_id", "user_id"}
	if v >= 28 {
		members["consumer_generation"] = object{"type": []any{"integer", "null"}}
		required = append(required, "consumer_generation")
	}
	if v >= 34 {
		providers := object{"type": "array", "minItems": 1, "items": uuidSchema()}
		members["mappings"] = object{"type": "object", "minProperties": 1,
			"patternProperties": object{patternSuffix: providers}}
	}
	if v >= 38 {
		members["consumer_type"] = object{"type": "string", "pattern": patternName, "minLength": 1, "maxLength": 255}
		required = append(required, "consumer_type")
	}
	return closed(members, required...)
}

func allocationsSchema(v Version, atLeast int) object {
	return keyed(patternUUID, allocationSchema(v, 0), atLeast)
}

func reshapeSchema(v Version) object {
	return closed(object{
		"inventories": keyed(patternUUID, inventoriesSchema(), 1),
		"allocations": allocationsSchema(v, 0),
	}, "inventories", "allocations")
}
