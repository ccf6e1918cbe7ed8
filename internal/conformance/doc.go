// Package conformance sends the same requests over HTTP to Berth and to OpenStack's own Placement and compares the
// answers. It imports no package of a service, so it also detects mistakes that Berth's client and server have in
// common.
//
//	testdata/*.txt ─▶ sequences ─┐                   ┌─▶ OpenStack's Placement (in uwsgi) ─┐
//	                             ├─▶ Pair: one world ┤                                     ├─▶ Rules.Compare
//	rapid's seeds ──▶ sequences ─┘                   └─▶ berth placement ──────────────────┘
//
// Each server has its own SQLite database. Before each sequence the databases are emptied: they have no providers,
// consumers, custom classes and custom traits. A sequence is played at every microversion. TestOtherDatabases plays
// those that need a database at the newest one on MariaDB and PostgreSQL, which compare and sort texts differently. The
// original needs most of the processor time, so it answers only requests that are compared, except the unlimited ones
// that comparisons with a limit need.
//
// testdata/comparison_exceptions.txt lists what is not compared exactly, each with a reason. Lists are compared as
// sets, because the API specifies no order, except those that the original always returns in the same order. With a
// limit, the answers may have different candidates, but the same number, and all must be in the original's answer
// without the limit.
//
// # Running it
//
//	go test -v ./internal/conformance                      each sequence at every other microversion, and random ones
//	go test -v ./internal/conformance -args -sweep 1       at every microversion
//	go test -v ./internal/conformance -args -checks 1000 -seed 0 -rapid.shrinktime 5m    random ones, with a new seed
//	go test -v ./internal/conformance -args -report FILE   also write the differences to a file
//	go test -v ./internal/conformance -args -berth FILE    use this program instead of building one
//
// The last line of the output has the number of compared requests. The tests fail if the original is not installed.
// -short skips all tests that need it.
//
// # Sequences
//
// A file of testdata is read line by line. # begins a comment, and a blank line ends a request.
//
//	=== name                 a sequence, played in an empty world at each microversion in turn
//	=== name | each          the world is built once, and each read is sent at every microversion
//	=== name | 1.28-1.33     only at these microversions; may be combined with each
//	use nested               plays the sequence of that name in starting_worlds.txt first
//	PUT /allocations/$c1     a request: method and target, sent unchanged
//	GET /traits @1.39        … always at this microversion; @none sends no header
//	GET /traits when 1.6-    … only if played at one of these microversions
//	POST /x as new           … $new is the last segment of the answer's Location from here on
//	Accept: text/html        a header of the request; without a value: it is not sent
//	| {"name": "one"}        a line of the request's body, application/json unless a header sets another type
//
// In targets, header values and bodies, $name is a UUID, different in each sequence. $name.gen is the current
// generation of the provider with that UUID, $name.cgen that of the consumer (null if it does not exist). $("a\x00b")
// is a text, and $("a"*300) a repeated text.
package conformance
