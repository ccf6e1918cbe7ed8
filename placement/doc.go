// Package placement is the house that knows what can be had, and who has it: OpenStack Placement's HTTP API 1.0 to 1.39
// on OpenStack's own database schema.
//
//	  GET /allocation_candidates            PUT /allocations/{consumer}       GET, PUT, DELETE of all else
//	               │                                     │                                │
//	┌──────────────▼─────────────────────────────────────▼────────────────────────────────▼─────────────┐
//	│ server     who asks, which microversion, what the words mean; the answer, its headers, its errors │
//	└───────┬─────────────────────────────────────┬───────────────────────────────────────▲─────────────┘
//	        │ ask, snapshot                       │ a write                               │
//	┌───────▼─────────────┐            ┌──────────▼──────────────────────┐    trees that  │
//	│ candidate           │            │ store                           │    it touched  │
//	│ pure: All, Explain  │            │ one transaction, generations    ├────────────────┘
//	└───────▲─────────────┘            │ compared: SQL decides           │    read again, and
//	        │ one immutable value      └──────────┬──────────────────────┘    swapped in before
//	┌───────┴─────────────┐            ┌──────────▼──────────────────────┐    the write is answered
//	│ index               │            │ SQLite, MariaDB, PostgreSQL     │
//	│ every tree in memory│            │ openstack/placement's tables    │
//	└─────────────────────┘            └─────────────────────────────────┘
//
// # Why an index
//
// A question for candidates is about everything at once: all trees, what is taken of each inventory, traits, aggregates,
// and groups that must not meet or must lie under one parent. OpenStack's own Placement asks SQL for the parts and joins
// them in memory at each request. Here the parts are in memory already, as one value that never changes; a question takes
// the newest one and is answered from it, however many writers are busy. What a question costs does not depend on the
// database, and why there is no answer can be told: Explain walks the same value.
//
// # Why it may be wrong
//
// The index suggests and SQL decides. A candidate is a promise that nobody signed: between the question and the claim
// somebody else may have been quicker, also through another Placement on the same database. The claim is judged in one
// transaction against what the tables say then, and compares the generations of all providers it takes from. So a stale
// index costs a refused claim and never a device that two consumers hold. A refused claim makes the server read the trees
// in question again, so the next question is asked of the truth.
//
// A server reads its own writes: an answer to a write is sent after the trees it touched have been read again. Refreshes go
// one after the other and each reads after it got its turn, so an older picture never covers a newer one.
//
// # What a generation is
//
// Each provider and each consumer has a generation. Who writes says which one was seen, and is refused with
// placement.concurrent_update when it has moved. It guards writes; it does not announce them: deleting an allocation raises
// no provider's generation, in the original as here. Nothing in this house takes an equal generation for an equal provider.
//
// # The rooms
//
// index and candidate are pure: no clock, no lock, no file, no goroutine. store holds SQL and takes no decisions that the
// tables do not force. server holds handlers, the one pointer to the newest snapshot, and no algorithm. The words of the
// wire (documents, schemas of bodies by microversion, the grammar of queries) are in api/placement, where clients share them.
package placement
