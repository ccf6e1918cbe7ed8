package placement

// The microversions that changed the syntax of queries of GET /allocation_candidates and GET /resource_providers. Those
// of the rest of the API are in placement/server.
const (
	sinceForbiddenTraits     Version = 22 // required=!TRAIT
	sinceManyMemberOf        Version = 24 // member_of repeated
	sinceSuffix              Version = 25 // groups with a numeric suffix
	sinceForbiddenAggregates Version = 32 // member_of=!uuid and !in:
	sinceNamedSuffix         Version = 33 // suffixes [a-zA-Z0-9_-]{1,64}
	sinceRootRequired        Version = 35
	sinceSameSubtree         Version = 36 // and groups without resources
	sinceAnyTraits           Version = 39 // required=in:A,B, and required repeated
)

// groupKeys are the parameters of a request group and the microversion that added each to GET /allocation_candidates.
var groupKeys = map[string]Version{keyResources: 10, keyRequired: 17, keyMemberOf: 21, keyInTree: 31}

// askKeys are the parameters of the whole ask and the microversion that added each.
var askKeys = map[string]Version{
	keyLimit:        16,
	keyGroupPolicy:  sinceSuffix,
	keyRootRequired: sinceRootRequired,
	keySameSubtree:  sinceSameSubtree,
}

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
