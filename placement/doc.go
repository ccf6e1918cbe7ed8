// Package placement contains the Placement service: OpenStack Placement's HTTP API 1.0 to 1.39 on OpenStack's own
// database schema. This file has no code. It describes the packages below it.
//
//	  GET /allocation_candidates            PUT /allocations/{consumer}       other GET, PUT, DELETE
//	               │                                     │                                │
//	┌──────────────▼─────────────────────────────────────▼────────────────────────────────▼─────────────┐
//	│ server     authentication, microversion, parsing; responses, headers, errors                      │
//	└───────┬─────────────────────────────────────┬───────────────────────────────────────▲─────────────┘
//	        │ ask, snapshot                       │ write                                 │
//	┌───────▼─────────────┐            ┌──────────▼──────────────────────┐    the changed │
//	│ candidate, explain  │            │ store                           │    trees       │
//	│ pure: Find, Why     │            │ one transaction, generations    ├────────────────┘
//	└───────▲─────────────┘            │ compared: SQL decides           │    are read again and
//	        │ one immutable value      └──────────┬──────────────────────┘    replaced before the
//	┌───────┴─────────────┐            ┌──────────▼──────────────────────┐    write is answered
//	│ index               │            │ SQLite, MariaDB, PostgreSQL     │
//	│ all trees in memory │            │ openstack/placement's tables    │
//	└─────────────────────┘            └─────────────────────────────────┘
//
// # Why an index
//
// A query for candidates concerns all data at once: all trees, the usage of each inventory, traits, aggregates, and
// groups that must not share a provider or must be below one parent. OpenStack's Placement reads the parts with SQL and
// joins them in memory for each request. Berth keeps the parts in memory as one value that never changes. A query uses
// the newest value, independent of writers. Its cost does not depend on the database. Package explain uses the same
// value to find out why there are no candidates.
//
// # Why the index may be stale
//
// The index suggests and SQL decides. Between a query and a claim another client may have claimed the same resources,
// also through another Placement on the same database. A claim is judged in one transaction against the tables, and
// compares the generations of all providers that it uses. A stale index can therefore cause a refused claim, but never
// a device with two consumers. After a refused claim the server reads the trees again.
//
// A server reads its own writes: the response to a write is sent after the changed trees have been read again.
// Refreshes run one after the other, and each reads after it was started, so an older state never replaces a newer one.
//
// # What a generation is
//
// Each provider and each consumer has a generation. A writer sends the generation that it has read, and is refused with
// placement.concurrent_update when it has changed. A generation guards writes; it does not announce them: deleting an
// allocation raises no provider's generation, in OpenStack's Placement as here. No code here takes an equal generation
// as proof of an unchanged provider.
//
// # Packages
//
// index, match, candidate and explain are pure: no clock, lock, file or goroutine. store holds the SQL and decides only
// what the tables require. server holds the handlers and the pointer to the newest snapshot, and no algorithm. The wire
// format (documents, schemas of request bodies by microversion, grammar of queries) is in api/placement, which clients
// use too.
package placement
