package placement

// What each microversion of GET /allocation_candidates and GET /resource_providers added to the grammar of queries. The
// rest of the API's differences stand in the tables of placement/server.
const (
	sinceForbiddenTraits     Version = 22 // required=!TRAIT
	sinceManyMemberOf        Version = 24 // member_of repeated
	sinceSuffix              Version = 25 // groups with a number for a suffix
	sinceForbiddenAggregates Version = 32 // member_of=!uuid and !in:
	sinceNamedSuffix         Version = 33 // suffixes [a-zA-Z0-9_-]{1,64}
	sinceRootRequired        Version = 35
	sinceSameSubtree         Version = 36 // and groups without resources
	sinceAnyTraits           Version = 39 // required=in:A,B, and required repeated
)

// groupKeys are the parameters of a request group, and when GET /allocation_candidates learned each.
var groupKeys = map[string]Version{keyResources: 10, keyRequired: 17, keyMemberOf: 21, keyInTree: 31}

// askKeys are the parameters of the whole ask.
var askKeys = map[string]Version{keyLimit: 16, keyGroupPolicy: sinceSuffix, keyRootRequired: sinceRootRequired, keySameSubtree: sinceSameSubtree}
