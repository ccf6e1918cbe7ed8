// Package conformance is the referee: the same requests, sent raw over HTTP to Berth and to OpenStack's own Placement,
// and their answers compared. It imports nothing of Berth's, so a mistake that Berth's client and server share cannot
// hide from it.
//
//	testdata/*.txt ─▶ sequences ─┐                   ┌─▶ OpenStack's Placement (in uwsgi) ─┐
//	                             ├─▶ Pair: one world ┤                                     ├─▶ Rules.Compare
//	rapid's seeds ──▶ sequences ─┘                   └─▶ berth placement ──────────────────┘
//
// Each of the two has an SQLite database of its own, which every sequence finds without providers, consumers, custom
// classes and custom traits, and which is cleaned through the API afterwards. A sequence is played at every
// microversion.
//
// What is not compared to the letter stands in testdata/exceptions.txt, each line with its reason. Lists are compared
// as sets, for the API promises no order, but for those that the original always has in one. With a limit, the answers
// need not name the same candidates: they must be as many, and candidates of the original's unlimited answer.
//
// # Running it
//
//	go test -v ./conformance                      each sequence at every other microversion, and random ones
//	go test -v ./conformance -args -sweep 1       at every microversion
//	go test -v ./conformance -args -checks 1000 -seed 0 -rapid.shrinktime 5m    many random ones, others each time
//	go test -v ./conformance -args -report FILE   what differs, also into a file
//	go test -v ./conformance -args -berth FILE    a berth that is built already
//
// The last line says how many requests were compared. Without the original installed it fails: it is never skipped.
//
// # Sequences
//
// A file of testdata reads line by line; # begins a comment, and a blank line ends a request.
//
//	=== name                 a sequence, played in an empty world at each microversion in turn
//	=== name | each          the world is built once, and each read is sent at every microversion
//	=== name | 1.28-1.33     only at these microversions; may stand together with each
//	use nested               first plays the sequence of that name in worlds.txt
//	PUT /allocations/$c1     a request: method and target, sent byte for byte
//	GET /traits @1.39        … always at this microversion; @none sends no header
//	GET /traits when 1.6-    … only if played at one of these microversions
//	POST /x as new           … the last segment of the answer's location is $new from here on
//	Accept: text/html        a header of the request above; without a value: do not send it
//	| {"name": "one"}        a line of the request's body, which is application/json unless a header says otherwise
//
// In targets, header values and bodies, $name is a UUID of its own in each sequence, $name.gen the generation of the
// provider with that UUID at this moment, $name.cgen the generation of the consumer (null: none), and $("a\x00b") or
// $("a"*300) a text, repeated.
package conformance
