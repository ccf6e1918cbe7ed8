package server

import api "github.com/openberth/berth/api/placement"

// The microversions that changed answers or the meaning of requests. The microversions of query parameters and body
// members are in api/placement, those of methods in the route table.
const (
	sinceAggregatesLink    api.Version = 1
	sinceTraitsLink        api.Version = 6
	sinceAllocationsLink   api.Version = 11
	sinceAllocationOwner   api.Version = 12 // GET /allocations/{consumer} has the owner; candidates are objects
	sinceNesting           api.Version = 14 // providers have a parent and a root
	sinceCacheHeaders      api.Version = 15 // last-modified and cache-control
	sinceSummaryTraits     api.Version = 17
	sinceAggregateGuard    api.Version = 19 // aggregates have a generation, in requests and answers
	sinceCreatedBody       api.Version = 20 // POST /resource_providers answers 200 with the provider
	sinceErrorCodes        api.Version = 23
	sinceFullReserve       api.Version = 26 // reserved may equal total
	sinceSummaryAll        api.Version = 27 // summaries include classes that were not requested
	sinceConsumerGuard     api.Version = 28 // consumers have a generation
	sinceNestedCandidates  api.Version = 29 // candidates may use providers that are not roots
	sinceMappings          api.Version = 34
	sinceReparenting       api.Version = 37
	sinceConsumerTypes     api.Version = 38
	lastClassRename        api.Version = 6 // PUT /resource_classes/{name} renames; afterwards it creates the class
	lastListShapedAllocate api.Version = 11
)
